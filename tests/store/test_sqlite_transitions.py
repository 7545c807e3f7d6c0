# SPDX-License-Identifier: BSD-2-Clause
"""Transitions that meet in unusual orders; each is decided by the rows as they are."""

import asyncio

import pytest

from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.operations.outcome import OutcomeClass, failed, succeeded, timed_out
from pipecat_async_tools.store.rows import TellingEnd, TellingRecord
from pipecat_async_tools.store.sqlite import SqliteStore
from pipecat_async_tools.testing import virtual_time
from tests.store.test_sqlite_file import an_operation, store_at

REFUSED = failed("the server is down", OutcomeClass.UNAVAILABLE)


@pytest.fixture
def store():
    return SqliteStore("sqlite:///:memory:")


@virtual_time
async def test_a_replayed_operation_is_a_duplicate_though_a_newer_one_failed(store):
    await store.accept([an_operation("old", intent_key="book")], owner="call")
    await store.finish("old", REFUSED)
    await store.accept([an_operation("new", intent_key="book")], owner="call")
    await store.finish("new", failed("no"))
    await store.replay("dead-old")
    (answer,) = await store.accept([an_operation("third", intent_key="book")], owner="call")
    assert (answer.operation.operation_id, answer.duplicate) == ("old", "joined")
    await store.close()


@virtual_time
async def test_a_late_success_stands_though_a_newer_one_timed_out_too(store):
    known = {"intent_key": "book", "intent_window_secs": 60.0}
    for name in ("old", "new"):
        await store.accept([an_operation(name, **known)], owner="call")
        await store.finish(name, timed_out(30.0))
    await store.finish("old", succeeded("booked"))
    (answer,) = await store.accept([an_operation("third", **known)], owner="call")
    assert answer.operation.result == "booked"
    await store.close()


@virtual_time
async def test_replacing_within_a_batch_does_not_close_it_in_between(store):
    known = {"batch_id": "batch", "intent_key": "book"}
    await store.accept([an_operation("old", **known)], owner="call")
    await store.accept([an_operation("new", **known)], owner="call", on_duplicate="replace")
    assert "on_batch_closed" not in {row.event.name for row in await store.events()}
    finished = await store.finish("new", succeeded("ok"))
    assert finished is not None and finished.delivery is not None
    assert [o.operation_id for o in finished.delivery.operations] == ["old", "new"]
    await store.close()


@virtual_time
async def test_a_key_of_any_length_is_one_intent(store):
    long = "book:" + "x" * 100_000
    await store.accept([an_operation("one", intent_key=long)], owner="call")
    same, other = await store.accept(
        [
            an_operation("two", batch_id="batch", tool_call_id="call", intent_key=long),
            an_operation("three", batch_id="batch", tool_call_id="call", intent_key=long + "y"),
        ],
        owner="call",
    )
    assert (same.duplicate, other.duplicate) == ("joined", None)
    await store.close()


@virtual_time
async def test_a_correction_that_waits_for_a_telling_nobody_ends_is_suppressed(store):
    await store.renew("call", 10.0)
    fence = await store.hold_session("room", owner="call")
    await store.accept([an_operation("one")], owner="call")
    await store.finish("one", timed_out(30.0))
    await store.claim_telling("room", ["delivery-batch-one"], "telling", fence=fence)
    finished = await store.finish("one", succeeded("ok"))
    assert finished is not None and finished.corrected and finished.delivery is None
    await asyncio.sleep(700.0)
    given_up = await store.give_up_deliveries(600.0)
    assert [row.delivery_id for row in given_up] == ["delivery-batch-one"]
    correction = (await store.deliveries("room"))[-1]
    assert (correction.correction, correction.state, correction.reason) == (
        True,
        "suppressed",
        "it was never told",
    )
    await store.close()


@virtual_time
async def test_a_replayed_delivery_waits_as_long_again(store):
    await store.accept([an_operation("one")], owner="call")
    await store.finish("one", succeeded("ok"))
    await asyncio.sleep(700.0)
    assert len(await store.give_up_deliveries(600.0)) == 1
    await store.replay("dead-delivery-batch-one")
    assert await store.give_up_deliveries(600.0) == []
    await asyncio.sleep(700.0)
    assert len(await store.give_up_deliveries(600.0)) == 1
    await store.close()


@virtual_time
async def test_since_when_nobody_is_there_outlives_the_owner(store):
    await store.renew("call", 10.0)
    await store.hold_session("room", owner="call")
    await store.accept([an_operation("one")], owner="call")
    await store.finish("one", succeeded("ok"))
    await asyncio.sleep(300.0)
    await store.prune(100.0)
    assert await store.give_up_deliveries(295.0) == []
    await asyncio.sleep(10.0)
    assert len(await store.give_up_deliveries(295.0)) == 1
    await store.close()


@virtual_time
async def test_what_is_not_over_outlives_pruning(tmp_path):
    store = store_at(tmp_path / "calls.db")
    await store.renew("call", 10_000.0)
    fence = await store.hold_session("room", owner="call")
    window = {"intent_key": "book", "intent_window_secs": 5000.0}
    for name, fields in {"running": {}, "dead": {}, "window": window, "told": {}, "pending": {}}.items():
        await store.accept([an_operation(name, **fields)], owner="call")
    for name, outcome in {
        "dead": REFUSED,
        "window": succeeded(1),
        "told": succeeded(2),
        "pending": succeeded(3),
    }.items():
        await store.finish(name, outcome)
    for name in ("dead", "window", "told"):
        await _tell(store, f"delivery-batch-{name}", fence)
    await asyncio.sleep(1000.0)
    deleted = await store.prune(500.0)
    assert deleted == {"operations": 1, "deliveries": 1, "dead_letters": 0, "events": 0, "sessions": 0}
    left = await store.operations("room")
    assert [operation.operation_id for operation in left] == ["running", "dead", "window", "pending"]
    await store.close_dead_letter("dead-dead", "called them")
    await store.finish("running", succeeded(4))
    for name in ("running", "pending"):
        await _tell(store, f"delivery-batch-{name}", fence)
    await store.release_session("room", owner="call")
    await asyncio.sleep(10_000.0)
    deleted = await store.prune(500.0)
    assert {name: deleted[name] for name in ("operations", "deliveries", "dead_letters", "sessions")} == {
        "operations": 4,
        "deliveries": 4,
        "dead_letters": 1,
        "sessions": 1,
    }
    assert await store.events() == []
    await store.close()


@virtual_time
async def test_a_claim_is_void_once_another_was_made(store):
    await store.renew("first", 5.0)
    await store.accept([an_operation("one", idempotent=True, timeout_secs=600.0)], owner="first")
    first = await store.claim("one", owner="first")
    await asyncio.sleep(10.0)
    recovered = await store.recover()
    assert [operation.status for operation in recovered.accepted] == [OperationStatus.ACCEPTED]
    await store.renew("second", 5.0)
    second = await store.claim("one", owner="second")
    assert first is not None and second is not None and second.fence > first.fence
    assert await store.finish("one", succeeded("stale"), fence=first.fence) is None
    finished = await store.finish("one", succeeded("fresh"), fence=second.fence)
    assert finished is not None and finished.operation.result == "fresh"
    await store.close()


async def _tell(store: SqliteStore, name: str, fence: int | None) -> None:
    assert fence is not None
    telling = f"telling-{name}"
    assert await store.claim_telling("room", [name], telling, fence=fence) == (name,)
    record = TellingRecord(
        telling_id=telling, started_at=0.0, ended_at=1.0, heard="Done.", outcome="completed"
    )
    end = TellingEnd(delivery_id=name, state="spoken", reason="completed", record=record)
    assert await store.settle_telling(telling, [end]) == (name,)
