# SPDX-License-Identifier: BSD-2-Clause
"""Pruning: what is over goes, and what is not over stays, with all that belongs to it."""

import pytest

from tests.builders import operation
from tests.store.builders import (
    BROKEN,
    DONE,
    FAR,
    OUTCOMES,
    TIMED_OUT,
    accept,
    delivery_of,
    events,
    finish_telling,
    hold,
    owe,
    settle,
    tell,
    the_event,
)
from tests.store.databases import SOON

NOTHING = {"operations": 0, "deliveries": 0, "dead_letters": 0, "events": 0, "sessions": 0}
WINDOW = {"intent_key": "k", "intent_window_secs": FAR}


async def told(store, outcome=DONE, **fields):
    """An operation that was told, and what is in its letter was seen to."""
    finished = await settle(store, outcome, **fields)
    await finish_telling(store, finished.delivery, "spoken")
    if finished.dead_letter is not None:
        await store.close_dead_letter(finished.dead_letter, "seen to")
    return finished


async def rows(store, session_id="room"):
    """How many operations, batches, deliveries and letters of a session there are."""
    return (
        len(await store.operations(session_id)),
        len(await store.batches(session_id)),
        len(await store.deliveries(session_id)),
        len(await store.dead_letters(session_id=session_id, include_closed=True)),
    )


async def test_there_is_nothing_to_prune(store):
    assert dict(await store.prune(0.0)) == NOTHING


async def test_what_is_over_goes_with_all_that_belongs_to_it(store, another, clock):
    gone = await told(store, TIMED_OUT)
    await store.finish(gone.operation.operation_id, DONE)
    correction = (await store.open_deliveries("room"))[0]
    await finish_telling(store, correction, "spoken")
    await store.release_session("room", owner="call")
    written = len(await store.events())
    await clock.pass_()
    pruned = await another.prune(SOON)
    assert dict(pruned) == {
        "operations": 1,
        "deliveries": 2,
        "dead_letters": 1,
        "events": written,
        "sessions": 1,
    }
    assert await rows(store) == (0, 0, 0, 0)
    assert await store.operation(gone.operation.operation_id) is None
    assert await store.dead_letter(gone.dead_letter) is None
    assert (await store.events(), await store.sessions()) == ([], [])
    assert dict(await store.prune(SOON)) == NOTHING


async def test_what_closed_lately_stays(store):
    await told(store)
    before = await rows(store)
    log = await store.events()
    assert dict(await store.prune(FAR)) == NOTHING
    assert (await rows(store), await store.events()) == (before, log)


@pytest.mark.parametrize(
    "what", ["pending", "telling", "accepted", "waiting", "operation letter", "delivery letter", "window"]
)
async def test_what_is_not_over_stays(store, clock, what):
    await not_over(store, what)
    before, log = await rows(store), await store.events()
    await clock.pass_()
    assert dict(await store.prune(SOON)) == NOTHING
    assert await rows(store) == before
    assert await store.events() == log


async def not_over(store, what):
    """A batch that has been told, but for one thing."""
    if what == "pending":
        await owe(store)
    elif what == "telling":
        await tell(store, await owe(store))
    elif what == "accepted":
        await accept(store)
    elif what == "waiting":
        new = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
        await store.finish(new.operation_id, DONE)
    elif what == "operation letter":
        await finish_telling(store, await owe(store, TIMED_OUT), "spoken")
    elif what == "delivery letter":
        await finish_telling(store, await owe(store), "undeliverable", "unheard")
    elif what == "window":
        await told(store, **WINDOW)


@pytest.mark.parametrize("end_", ["failed", "cancelled"])
async def test_what_came_to_nothing_has_no_window(store, clock, end_):
    await told(store, OUTCOMES[end_], **WINDOW)
    await clock.pass_()
    assert (await store.prune(SOON))["operations"] == 1


async def test_a_window_without_an_intent_is_none(store, clock):
    await told(store, batch_id="no intent", intent_window_secs=FAR)
    adopted = operation(batch_id="adopted", adopted=True, **WINDOW)
    await accept(store, adopted)
    await finish_telling(store, (await store.finish(adopted.operation_id, DONE)).delivery, "spoken")
    await clock.pass_()
    assert (await store.prune(SOON))["operations"] == 2


async def test_one_that_is_not_over_keeps_its_whole_batch(store, clock):
    first, second = [await accept(store) for _ in range(2)]
    await store.finish(first.operation_id, DONE)
    letter = (await store.finish(second.operation_id, TIMED_OUT)).dead_letter
    await finish_telling(store, (await store.deliveries("room"))[0], "spoken")
    await clock.pass_()
    assert dict(await store.prune(SOON)) == NOTHING
    assert await rows(store) == (2, 1, 1, 1)
    await store.close_dead_letter(letter, "seen to")
    assert (await store.prune(SOON))["operations"] == 2


async def test_a_batch_that_was_opened_again_is_not_over(store, clock):
    await told(store)
    await clock.pass_()
    new = await accept(store)
    assert (await store.prune(SOON))["operations"] == 0
    await finish_telling(store, (await store.finish(new.operation_id, DONE)).delivery, "spoken")
    assert (await store.prune(SOON * 4))["operations"] == 0
    await clock.pass_()
    assert (await store.prune(SOON))["operations"] == 2


async def test_events_older_than_the_oldest_thing_left_go(store, clock):
    await told(store, batch_id="old")
    await clock.pass_()
    await owe(store, batch_id="new")
    await clock.pass_()
    pruned = await store.prune(SOON)
    assert (pruned["operations"], pruned["deliveries"], pruned["sessions"]) == (1, 1, 0)
    left = await events(store)
    assert len(left) > 0
    assert {event.batch_id for event in left} == {"new"}
    assert pruned["events"] > 0
    assert [batch.batch_id for batch in await store.batches("room")] == ["new"]
    assert (await store.deliveries("room"))[0].operations == tuple(await store.operations("room"))


async def test_events_since_the_oldest_thing_left_stay(store, clock):
    await owe(store, batch_id="kept")
    await told(store, batch_id="gone")
    written = len(await store.events())
    await clock.pass_()
    pruned = await store.prune(SOON)
    assert (pruned["operations"], pruned["events"]) == (1, 0)
    assert len(await store.events()) == written


async def test_the_oldest_of_several_things_left_counts(store, clock):
    await told(store, batch_id="gone")
    await clock.pass_()
    for name in ("older", "newer"):
        await owe(store, batch_id=name)
        await clock.pass_()
    kept = [line for line in await store.events() if line.event.batch_id in ("older", "newer")]
    assert (await store.prune(SOON))["operations"] == 1
    assert await store.events() == kept


async def test_other_sessions_are_left_as_they_are(store, clock):
    await told(store, session_id="over", batch_id="a")
    await owe(store, session_id="open", batch_id="b")
    kept = await store.events(session_id="open")
    await store.release_session("over", owner="call")
    await clock.pass_()
    assert (await store.prune(SOON))["sessions"] == 1
    assert await store.events(session_id="over") == []
    assert await store.events(session_id="open") == kept
    assert [row.session_id for row in await store.sessions()] == ["open"]


async def test_the_log_goes_on_where_it_was(store, clock):
    await told(store)
    await store.release_session("room", owner="call")
    after = (await store.events())[-1].position
    await clock.pass_()
    await store.prune(SOON)
    new = await accept(store, operation(batch_id="batch-2"))
    left = await store.events(after=after)
    assert [line.event.name for line in left] == ["on_batch_opened", "on_operation_accepted"]
    assert left[-1].event.operation_id == new.operation_id


async def test_who_is_alive_is_still_there_after_it(store, clock):
    fence = await hold(store, owner="living")
    claimed = await accept(store, owner="living")
    await store.claim(claimed.operation_id, owner="living")
    await clock.pass_()
    await store.prune(0.0)
    assert (await store.recover()).finished == ()
    assert await store.hold_session("room", owner="living") == fence


async def test_whose_owner_was_pruned_is_free_and_recovered(store, clock):
    claim = await accept(store, operation(idempotent=True))
    await store.claim(claim.operation_id, owner="dead")
    await hold(store, owner="dead")
    await store.renew("dead", 0.0)
    await clock.pass_()
    await store.prune(0.0)
    assert len((await store.recover()).accepted) == 1
    assert await hold(store, owner="other") == 2


async def test_since_when_nobody_is_there_is_still_known_after_it(store, clock):
    delivery = await owe(store)
    await hold(store, owner="dead")
    await clock.pass_(0.3)
    await store.renew("dead", 0.0)
    await store.prune(FAR)
    assert await store.give_up_deliveries(0.3) == []
    await clock.pass_(0.3)
    assert len(await store.give_up_deliveries(0.3)) == 1
    assert (await delivery_of(store, delivery.delivery_id)).state == "undeliverable"


async def test_a_pruned_intent_is_a_new_one(store, clock):
    old = await told(store, BROKEN, intent_key="k")
    await clock.pass_()
    await store.prune(SOON)
    (answer,) = await store.accept([operation(intent_key="k")], owner="call")
    assert (answer.duplicate, answer.operation.operation_id != old.operation.operation_id) == (None, True)
    await store.finish(answer.operation.operation_id, DONE)
    assert (await the_event(store, "on_delivery_ready")).delivery_id == "delivery-batch-1"
