# SPDX-License-Identifier: BSD-2-Clause
"""What only the Redis store promises: its URL, its keys, its event loops, exact values."""

import asyncio
import threading

import pytest
from redis.crc import key_slot

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import OutcomeClass, failed, succeeded
from pipecat_async_tools.store.redis import RedisStore
from pipecat_async_tools.store.rows import why_dead
from tests.store.test_redis import keys_of_its_own, raw_client, real_time, redis_url

WAIT_SECS = 5.0


@pytest.fixture
def prefix():
    with keys_of_its_own() as prefix:
        yield prefix


@pytest.fixture
def store(prefix):
    return RedisStore(redis_url(prefix))


def an_operation(**fields) -> Operation:
    known = {
        "session_id": "room",
        "turn_id": "turn-1",
        "batch_id": "batch-1",
        "tool_call_id": "call-1",
        "tool": "book",
        "timeout_secs": 30.0,
    }
    return Operation(**{**known, **fields})


@pytest.mark.parametrize(
    "url",
    ["postgresql://localhost/x", "redis://:secret@localhost:port/0", "rediss://localhost?db=secret"],
)
def test_an_url_that_is_none_is_refused_without_its_password(url):
    with pytest.raises(ConfigurationError, match="store: ") as refused:
        RedisStore(url)
    assert "secret" not in str(refused.value)


def test_the_repr_says_where_and_no_password():
    store = RedisStore("rediss://user:secret@cache.example:6380/2?prefix={clinic}&password=secret")
    assert repr(store) == "RedisStore('rediss://cache.example:6380/2?prefix={clinic}')"


@real_time
async def test_prefixes_do_not_see_each_other(store):
    with keys_of_its_own() as other_prefix:
        other = RedisStore(redis_url(other_prefix))
        await store.append(Event(name="on_delivery_waiting", at=0.0, session_id="room"))
        assert await other.events() == []
        assert [row.event.session_id for row in await store.events()] == ["room"]
        await other.close()


@real_time
async def test_every_key_is_under_the_prefix_and_in_its_slot(store, prefix):
    with raw_client() as client:
        before = {key for key in client.scan_iter(count=1000) if not key.startswith("{")}
        await _tell_something(store)
        keys = [key for key in client.scan_iter(match=f"{prefix}*", count=1000)]
        slots = {key_slot(key.encode()) for key in [prefix, *keys]}
        after = {key for key in client.scan_iter(count=1000) if not key.startswith("{")}
    assert len(keys) > 10
    assert len(slots) == 1
    assert after - before == set()


@real_time
async def test_json_comes_back_as_it_went_in(store):
    value = {
        "empty": [],
        "nothing": None,
        "object": {},
        "large": 2**70 + 1,
        "small": 0.1 + 0.2,
        "words": "ganz früh, 7:30 😀 \0 \ud800",
        "falsy": [0, False, ""],
    }
    (accepted,) = await store.accept([an_operation(arguments=value)], owner="bot")
    operation_id = accepted.operation.operation_id
    claim = await store.claim(operation_id, owner="bot")
    await store.record_progress(operation_id, value["words"])
    outcome = succeeded(value)
    finished = await store.finish(operation_id, outcome, fence=claim.fence)
    stored = await store.operation(operation_id)
    assert stored == finished.operation
    assert (stored.arguments, stored.result, stored.progress) == (value, outcome.result, value["words"])


@pytest.mark.parametrize("result", [None, [], {}, 0, False, ""])
@real_time
async def test_a_falsy_result_stays_what_it_is(store, result):
    (accepted,) = await store.accept([an_operation()], owner="bot")
    finished = await store.finish(accepted.operation.operation_id, succeeded(result))
    assert finished.operation.result == result
    assert type(finished.operation.result) is type(result)


@real_time
@pytest.mark.parametrize("attempts", [0, 1, 2])
async def test_the_reason_of_a_dead_letter_is_that_of_every_store(store, attempts):
    (accepted,) = await store.accept([an_operation()], owner="bot")
    operation_id = accepted.operation.operation_id
    busy = failed("busy", OutcomeClass.RATE_LIMITED)
    if attempts:
        await store.claim(operation_id, owner="bot")
    for _ in range(attempts - 1):
        await store.record_attempt(operation_id, fence=1, wait_secs=0.1, outcome=busy, http_status=429)
    finished = await store.finish(operation_id, busy)
    letter = await store.dead_letter(finished.dead_letter)
    assert finished.operation.attempts == attempts
    assert letter.reason == why_dead(finished.operation)


@real_time
async def test_ids_that_look_like_keys_are_ids(store):
    for session_id, key in (("a", "b:c"), ("a:b", "c"), ("1:a", "b:c")):
        operation = an_operation(session_id=session_id, intent_key=key, batch_id=f"{session_id}/{key}")
        (accepted,) = await store.accept([operation], owner="bot")
        assert accepted.duplicate is None
    assert [len(await store.operations(session)) for session in ("a", "a:b", "1:a")] == [1, 1, 1]


@real_time
async def test_a_newer_schema_is_refused(store, prefix):
    with raw_client() as client:
        client.set(f"{prefix}:schema", 2)
    with pytest.raises(StoreError, match="schema 2 under"):
        await store.events()


@real_time
async def test_scripts_that_the_server_forgot_are_sent_again(store):
    await store.renew("bot", 10.0)
    with raw_client() as client:
        client.script_flush()
    assert await store.hold_session("room", owner="bot") == 1


@real_time
async def test_it_goes_on_after_it_was_closed(store):
    await store.renew("bot", 10.0)
    await store.close()
    assert await store.hold_session("room", owner="bot") == 1


def test_event_loops_one_after_another(store):
    async def hold(owner: str) -> int | None:
        await store.renew(owner, 10.0)
        fence = await store.hold_session("room", owner=owner)
        await store.release_session("room", owner=owner)
        return fence

    assert [asyncio.run(hold(owner)) for owner in ("a", "b", "c")] == [1, 2, 3]


@real_time
async def test_event_loops_at_once_and_closed_by_one_of_them(store):
    started, stop = threading.Event(), threading.Event()
    fences = []

    async def elsewhere() -> None:
        await store.renew("there", 10.0)
        fences.append(await store.hold_session("there", owner="there"))
        async for _ in store.watch("there"):
            started.set()
            await asyncio.to_thread(stop.wait, WAIT_SECS)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    try:
        await asyncio.to_thread(started.wait, WAIT_SECS)
        await store.renew("here", 10.0)
        fences.append(await store.hold_session("here", owner="here"))
        assert fences == [1, 1]
    finally:
        stop.set()
        await store.close()
        await asyncio.to_thread(thread.join, WAIT_SECS)
    assert not thread.is_alive(), "whoever watched there was not stopped"


@real_time
async def test_more_callers_than_connections(store):
    async with asyncio.timeout(WAIT_SECS):
        await asyncio.gather(*(store.renew(f"bot-{n}", 10.0) for n in range(100)))


@real_time
async def test_it_is_pruned_piece_by_piece(store):
    for n in range(120):
        operation = an_operation(session_id=f"room-{n % 45}", batch_id=f"batch-{n}")
        (accepted,) = await store.accept([operation], owner="bot")
        await store.answer_natively(operation.batch_id)
        await store.finish(accepted.operation.operation_id, succeeded(n))
    (kept,) = await store.accept([an_operation(session_id="kept", batch_id="kept")], owner="bot")
    pruned = await store.prune(0.0)
    assert (pruned["operations"], pruned["sessions"]) == (120, 45)
    assert [row.session_id for row in await store.sessions()] == ["kept"]
    assert await store.operations("kept") == [kept.operation]


@real_time
async def test_nothing_is_left_of_what_was_pruned(store, prefix):
    await _tell_something(store)
    await store.prune(0.0)
    with raw_client() as client:
        left = {key.removeprefix(f"{prefix}:") for key in client.scan_iter(match=f"{prefix}*")}
        assert client.xlen(f"{prefix}:log") == 0
    # The log remembers its last position.
    assert left == {"schema", "seq", "log"}


async def _tell_something(store: RedisStore) -> None:
    """One of everything: an operation, its delivery given up, its dead letter closed."""
    await store.renew("bot", 10.0)
    await store.hold_session("room", owner="bot")
    operation = an_operation(intent_key="key", arguments={"day": "Thursday"})
    (accepted,) = await store.accept([operation], owner="bot", expected=["call-1", "call-2"])
    await store.dismiss("batch-1", ["call-2"])
    await store.claim(accepted.operation.operation_id, owner="bot")
    await store.finish(accepted.operation.operation_id, succeeded("done"))
    await store.release_session("room", owner="bot")
    await store.renew("bot", 0.0)
    await store.give_up_deliveries(0.0)
    for letter in await store.dead_letters():
        await store.close_dead_letter(letter.letter_id, "called back")
