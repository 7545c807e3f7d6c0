# SPDX-License-Identifier: BSD-2-Clause
"""The log: every transition with its ids and its reason, in one order, and nothing is missed by a reader."""

import asyncio
import json

import pytest

from pipecat_async_tools.events import EVENT_NAMES, NOT_LOGGED_BY_STORES, Event
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.operation import new_id
from tests.builders import operation
from tests.store.builders import (
    BUSY,
    DONE,
    FAR,
    TIMED_OUT,
    accept,
    end,
    events,
    finish_telling,
    hold,
    names,
    run,
    settle,
    tell,
)

SECRET = "Mrs Miller, 030-123456"


def note(session_id: str = "room", reason: str = "caller is speaking", **fields) -> Event:
    return Event(
        **{"name": "on_delivery_waiting", "at": 3.5, "session_id": session_id, "reason": reason, **fields}
    )


async def whole_story(store):
    """Everything that can happen to a caller, with words in it that no log may have."""
    fence = await hold(store)
    told = {"arguments": {"who": SECRET}, "intent_key": "k"}
    claim = await run(store, batch_id="a", **told)
    name = claim.operation.operation_id
    await store.accept([operation(batch_id="a", **told)], owner="call")
    await store.record_attempt(name, fence=1, wait_secs=0.5, outcome=BUSY, http_status=429)
    await store.record_progress(name, "1 of 2")
    done = await store.finish(name, outcomes.succeeded({"who": SECRET}), fence=1)
    await finish_telling(store, done.delivery, "pending", "interrupted", heard=SECRET, text=SECRET)
    await finish_telling(store, done.delivery, "pending", "withdrawn")
    await finish_telling(store, done.delivery, "spoken")
    late = await settle(store, TIMED_OUT, batch_id="b", arguments={"who": SECRET})
    await finish_telling(store, late.delivery, "spoken")
    corrected = await store.finish(late.operation.operation_id, outcomes.succeeded(SECRET))
    await store.suppress("room", corrected.delivery.delivery_id, "stale", fence=fence)
    lost = await settle(store, TIMED_OUT, batch_id="c")
    await finish_telling(store, lost.delivery, "undeliverable", "lost")
    for letter in await store.dead_letters():
        await store.replay(letter.letter_id)
    await run(store, owner="dead", batch_id="d", idempotent=True)
    await store.renew("dead", 0.0)
    await store.recover()
    await store.release_session("room", owner="call")


async def test_everything_that_happens_is_in_the_log(store):
    await whole_story(store)
    assert set(await names(store)) == set(EVENT_NAMES) - NOT_LOGGED_BY_STORES


async def test_no_event_holds_arguments_or_results(store):
    await whole_story(store)
    for event in await events(store):
        assert SECRET not in json.dumps({**vars(event), "detail": dict(event.detail)}, ensure_ascii=False)


async def test_every_event_has_the_ids_of_what_it_is_about(store):
    await whole_story(store)
    log = await events(store)
    operations = {op.operation_id: op for op in await store.operations("room")}
    deliveries = {row.delivery_id: row for row in await store.deliveries("room")}
    for event in log:
        assert event.session_id == "room"
        if event.name.startswith("on_operation_"):
            about = operations[event.operation_id]
            assert (event.batch_id, event.turn_id, event.tool) == (about.batch_id, about.turn_id, about.tool)
            assert event.intent_key == (about.intent_key or None)
        if event.name.startswith("on_delivery_"):
            about = deliveries[event.delivery_id]
            assert (event.batch_id, event.turn_id, event.operation_id) == (about.batch_id, "turn-1", None)
        if event.name.startswith("on_batch_"):
            assert event.batch_id in "abcd"
            assert event.turn_id == "turn-1"
        if event.name.startswith("on_dead_letter_"):
            assert (event.operation_id is None) != (event.delivery_id is None)
            assert event.turn_id == "turn-1"
        if event.name in ("on_delivery_started", "on_delivery_spoken", "on_delivery_interrupted"):
            assert event.telling_id == "telling-1"


async def test_times_are_those_of_the_store_and_never_go_back(store):
    before = await store.now()
    await whole_story(store)
    times = [event.at for event in await events(store)]
    assert times == sorted(times)
    assert before - 1e-3 <= times[0]
    assert times[-1] <= await store.now() + 1e-3


async def test_the_clock_goes_on(store, clock):
    before = await store.now()
    await clock.pass_()
    assert 0.05 <= await store.now() - before < 20.0
    assert before > 1_500_000_000.0


async def test_an_event_of_ones_own_comes_back_as_it_went_in(store, another):
    given = note(
        turn_id="turn-1",
        operation_id="op-1",
        batch_id="batch-1",
        delivery_id="delivery-1",
        telling_id="telling-1",
        intent_key="book 'friday' 🗓",
        tool="book",
        detail={"waited_secs": 1.25, "none": None, "list": [], "object": {}, "text": "Zürich"},
    )
    before = await store.now()
    await store.append(given)
    (stored,) = await events(another)
    assert before - 1e-3 <= stored.at <= await store.now() + 1e-3
    assert {**vars(stored), "at": 3.5} == vars(given)


async def test_an_event_of_ones_own_is_bare_by_default(store):
    await store.append(Event(name="on_operation_refused", at=0.0, session_id="room"))
    (stored,) = await events(store)
    assert vars(stored) == {**vars(Event(name="on_operation_refused", at=stored.at, session_id="room"))}


async def test_an_event_is_enough_to_make_a_session(store):
    await store.append(note("new"))
    (row,) = await store.sessions()
    assert (row.session_id, row.owner, row.operations, row.open_deliveries) == ("new", None, 0, 0)
    assert row.first_at == row.last_at == pytest.approx((await events(store))[0].at, abs=1e-3)


async def test_who_reads_goes_on_from_where_he_was(store):
    for number in range(7):
        await store.append(note(f"room-{number % 2}", str(number)))
    assert [line.event.reason for line in await store.events(limit=3)] == ["0", "1", "2"]
    seen, after = [], None
    while page := await store.events(after=after, limit=2):
        seen += [line.event.reason for line in page]
        after = page[-1].position
    assert seen == list("0123456")
    assert await store.events(after=after) == []
    await store.append(note(reason="7"))
    assert [line.event.reason for line in await store.events(after=after)] == ["7"]


async def test_who_reads_one_session_sees_no_other(store):
    for number in range(7):
        await store.append(note(f"room-{number % 2}", str(number)))
    first = await store.events(session_id="room-1", limit=2)
    assert [line.event.reason for line in first] == ["1", "3"]
    rest = await store.events(session_id="room-1", after=first[-1].position)
    assert [line.event.reason for line in rest] == ["5"]
    assert await store.events(session_id="nowhere") == []


async def test_one_position_is_good_for_one_session_and_for_all(store):
    for number in range(4):
        await store.append(note(f"room-{number % 2}", str(number)))
    (first, *_) = await store.events(session_id="room-1")
    assert [line.event.reason for line in await store.events(after=first.position)] == ["2", "3"]


async def test_a_reader_misses_nothing_however_many_write_at_once(store, another):
    await store.open()
    stores = (store, another)

    async def write(writer: int) -> None:
        for number in range(12):
            await stores[writer % 2].append(note(f"room-{writer % 3}", f"{writer}-{number}"))
            if number % 4 == 0:
                new = operation(session_id=f"room-{writer % 3}", batch_id=f"batch-{writer}-{number}")
                await accept(stores[writer % 2], new)

    writing = asyncio.gather(*(write(writer) for writer in range(5)))
    seen, after = [], None
    while not writing.done() or (await store.events(after=after, limit=1)):
        for line in await another.events(after=after, limit=5):
            seen.append(line)
            after = line.position
        await asyncio.sleep(0)
    await writing
    assert seen == await store.events()
    assert len({line.position for line in seen}) == len(seen) == 5 * (12 + 3 * 2)
    for writer in range(5):
        mine = [line.event.reason for line in seen if line.event.reason.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(12)]


async def woken_until(store, session_id, is_so) -> None:
    """Watch until something is so."""
    async for _ in store.watch(session_id):
        if await is_so():
            return


@pytest.mark.parametrize("watched", ["room", None])
async def test_who_watches_sees_what_another_process_does(store, another, watched):
    new = await accept(store)
    started = asyncio.Event()

    async def is_there() -> bool:
        started.set()
        return len(await store.open_deliveries("room")) == 1

    watching = asyncio.create_task(woken_until(store, watched, is_there))
    await started.wait()
    await another.finish(new.operation_id, DONE)
    await asyncio.wait_for(watching, 5.0)


async def test_who_watches_is_woken_by_every_kind_of_change(store, another):
    delivery = (await settle(store, TIMED_OUT)).delivery
    wakes = asyncio.Queue()

    async def watch() -> None:
        async for _ in store.watch("room"):
            wakes.put_nowait(len(await store.events()))

    async def until(count: int) -> None:
        while await wakes.get() < count:
            pass

    watching = asyncio.create_task(watch())
    await wakes.get()
    await tell(another, delivery)
    for change in (
        lambda: another.settle_telling("telling-1", [end(delivery.delivery_id)]),
        lambda: another.finish(delivery.operations[0].operation_id, DONE),
        lambda: another.append(note()),
        lambda: another.release_session("room", owner="call"),
        lambda: accept(another),
    ):
        await change()
        await asyncio.wait_for(until(len(await another.events())), 5.0)
    watching.cancel()


async def test_who_watches_is_not_woken_without_end(store):
    await store.renew("me", FAR)
    wakes = []

    async def watch() -> None:
        # Other databases of the server may have a room too.
        async for _ in store.watch(new_id("quiet")):
            wakes.append(1)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.3)
    watching.cancel()
    assert 1 <= len(wakes) < 10


async def test_many_watch_at_once(store, another):
    ready = asyncio.Event()
    rooms = [f"room-{i}" for i in range(5)]

    async def is_told(room: str) -> bool:
        return ready.is_set() and len(await store.events(session_id=room)) == 1

    watching = [asyncio.create_task(woken_until(store, room, lambda r=room: is_told(r))) for room in rooms]
    await asyncio.sleep(0)
    ready.set()
    await asyncio.gather(*(another.append(note(room)) for room in rooms))
    await asyncio.wait_for(asyncio.gather(*watching), 5.0)


async def test_who_watches_is_let_go_when_the_store_is_closed(store, another):
    started = asyncio.Event()

    async def watch() -> None:
        async for _ in store.watch("room"):
            started.set()

    watching = asyncio.create_task(watch())
    await started.wait()
    await store.close()
    await asyncio.wait_for(watching, 5.0)
