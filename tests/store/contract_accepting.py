# SPDX-License-Identifier: BSD-2-Clause
"""Accepting: the record, the batch it opens or joins, all or none, and values as they were."""

import pytest

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.operation import OperationStatus
from tests.builders import operation
from tests.store.builders import DONE, accept, events, ids_of, names, settle, the_event

VALUES = {
    "empty object": {},
    "falsy": {"list": [], "object": {}, "zero": 0, "no": False, "text": "", "none": None},
    "nested": {"a": [{"b": [[], [{}], [[1]]]}], "c": {"d": {"e": [None]}}},
    "lists of empty things": {"lists": [[], {}, "", None], "deep": [[[]]]},
    "big numbers": {"big": 2**63 + 1, "huge": 10**30, "low": -(2**64)},
    "floats": {"third": 1 / 3, "whole": 2.0, "tiny": 5e-324, "large": 1.7976931348623157e308},
    "text": {"ключ": "Zwölf Uhr 🕛", "quote": "'\"\\ {} [] \n\t\x00", "numbers": "007"},
}


def exactly(value):
    """A value in which 1, 1.0 and True are three."""
    return repr(value)


async def test_a_new_operation_is_stored_as_it_was_given(store):
    given = operation(
        arguments={"day": "friday"},
        item=2,
        intent_key="book friday",
        intent_window_secs=12.5,
        idempotency_key="mine",
        idempotent=True,
        silent=True,
        timeout_secs=17.25,
    )
    before = await store.now()
    (accepted,) = await store.accept([given], owner="call")
    after = await store.now()
    assert before <= accepted.operation.accepted_at <= after
    assert accepted.duplicate is None
    assert accepted.replaced is None
    assert await store.operation(given.operation_id) == accepted.operation
    expected = {**vars(given), "accepted_at": accepted.operation.accepted_at}
    assert vars(accepted.operation) == expected


async def test_accepting_is_an_event_with_every_id(store):
    new = await accept(store, operation(intent_key="book friday"))
    event = await the_event(store, "on_operation_accepted")
    assert event.at == pytest.approx(new.accepted_at, abs=1e-3)
    assert (event.session_id, event.turn_id) == ("room", "turn-1")
    assert (event.operation_id, event.batch_id) == (new.operation_id, "batch-1")
    assert (event.intent_key, event.tool) == ("book friday", "check_availability")
    assert (event.delivery_id, event.telling_id) == (None, None)


async def test_an_operation_that_is_not_there_is_none(store):
    assert await store.operation("op-nowhere") is None
    assert await store.operations("nowhere") == []
    assert await store.batches("nowhere") == []


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_arguments_come_back_as_they_were(store, another, value):
    new = await accept(store, operation(arguments=value))
    assert exactly(new.arguments) == exactly(value)
    assert exactly((await another.operation(new.operation_id)).arguments) == exactly(value)


async def test_the_items_of_a_call_are_accepted_in_their_order(store):
    items = [operation(tool_call_id="call", item=i) for i in range(4)]
    answers = await store.accept(items, owner="call")
    assert ids_of([answer.operation for answer in answers]) == ids_of(items)
    assert ids_of(await store.operations("room")) == ids_of(items)
    (batch,) = await store.batches("room")
    assert list(batch.operation_ids) == ids_of(items)
    assert len(await events(store, "on_operation_accepted")) == 4


async def test_an_id_is_accepted_once(store):
    old = await accept(store)
    with pytest.raises(StoreError, match=old.operation_id):
        await store.accept([operation(operation_id=old.operation_id, tool="other")], owner="call")
    assert await store.operation(old.operation_id) == old


async def test_when_one_of_a_call_cannot_be_accepted_none_is(store):
    old = await accept(store)
    log = await names(store)
    items = [operation(batch_id="batch-2", tool_call_id="call") for _ in range(2)]
    with pytest.raises(StoreError):
        await store.accept(
            [*items, operation(operation_id=old.operation_id, batch_id="batch-2")], owner="call"
        )
    assert ids_of(await store.operations("room")) == [old.operation_id]
    assert [batch.batch_id for batch in await store.batches("room")] == ["batch-1"]
    assert await names(store) == log


async def test_one_id_twice_in_a_call_is_accepted_before(store):
    twice = operation()
    with pytest.raises(StoreError):
        await store.accept([twice, twice], owner="call")
    assert await store.operations("room") == []
    assert await names(store) == []


async def test_the_first_call_opens_its_batch(store):
    before = await store.now()
    new = await accept(store, operation(tool_call_id="a"), owner="me", expected=["a", "b", "c"])
    (batch,) = await store.batches("room")
    assert (batch.batch_id, batch.session_id, batch.turn_id) == ("batch-1", "room", "turn-1")
    assert (batch.owner, batch.native, batch.closed_at) == ("me", False, None)
    assert batch.expected == ("b", "c")
    assert batch.operation_ids == (new.operation_id,)
    assert before <= batch.opened_at <= await store.now()
    event = await the_event(store, "on_batch_opened")
    assert (event.session_id, event.turn_id, event.batch_id) == ("room", "turn-1", "batch-1")
    assert (await names(store))[0] == "on_batch_opened"


async def test_a_call_of_a_batch_that_is_there_is_taken_off_and_expects_nothing_more(store):
    await accept(store, operation(tool_call_id="a"), owner="me", expected=["a", "b", "c"])
    await accept(store, operation(tool_call_id="b"), owner="you", expected=["b", "d"])
    (batch,) = await store.batches("room")
    assert (batch.expected, batch.owner) == (("c",), "me")
    assert len(await events(store, "on_batch_opened")) == 1


async def test_a_call_that_brings_nothing_new_is_taken_off_too(store):
    await accept(store, operation(tool_call_id="a", intent_key="k"), expected=["a", "b"])
    (joined,) = await store.accept([operation(tool_call_id="b", intent_key="k")], owner="call")
    assert joined.duplicate == "joined"
    (batch,) = await store.batches("room")
    assert batch.expected == ()
    assert batch.operation_ids == (joined.operation.operation_id,)


async def test_a_batch_of_nothing_but_duplicates_closes_and_owes_nothing(store):
    await accept(store, operation(intent_key="k", batch_id="batch-1"))
    await accept(store, operation(intent_key="k", batch_id="batch-2"))
    first, second = await store.batches("room")
    assert (first.closed_at, second.operation_ids) == (None, ())
    assert second.closed_at is not None
    assert await store.deliveries("room") == []


async def test_an_operation_after_the_close_opens_the_batch_again(store):
    first = (await settle(store)).operation
    late = await accept(store, owner="other")
    (batch,) = await store.batches("room")
    assert batch.closed_at is None
    assert batch.operation_ids == (first.operation_id, late.operation_id)
    assert (await store.finish(late.operation_id, DONE)).delivery is not None


async def test_an_adopted_operation_is_running_from_the_start(store):
    new = await accept(store, operation(adopted=True), owner="call")
    assert new.status is OperationStatus.RUNNING
    assert (new.attempts, new.started_at) == (1, new.accepted_at)
    assert await store.operation(new.operation_id) == new
    assert (await names(store))[:3] == ["on_batch_opened", "on_operation_accepted", "on_operation_started"]
    started = await the_event(store, "on_operation_started")
    assert (started.operation_id, started.reason) == (new.operation_id, "attempt 1")


async def test_an_adopted_operation_belongs_to_who_asked(store):
    await store.renew("living", 1000.0)
    await store.renew("dead", 0.0)
    kept = await accept(store, operation(adopted=True, batch_id="a"), owner="living")
    lost = await accept(store, operation(adopted=True, batch_id="b"), owner="dead")
    recovered = await store.recover()
    assert [finished.operation.operation_id for finished in recovered.finished] == [lost.operation_id]
    assert not (await store.operation(kept.operation_id)).is_settled


async def test_sessions_do_not_see_each_other(store):
    mine = await accept(store, operation(session_id="a", batch_id="a1", intent_key="k"))
    yours = await accept(store, operation(session_id="b", batch_id="b1", intent_key="k"))
    assert ids_of(await store.operations("a")) == [mine.operation_id]
    assert ids_of(await store.operations("b")) == [yours.operation_id]
    assert [batch.batch_id for batch in await store.batches("b")] == ["b1"]
    assert {event.batch_id for event in await events(store, session_id="a")} == {"a1"}


async def test_operations_and_batches_come_oldest_first(store):
    made = [await accept(store, operation(batch_id=f"batch-{9 - i}")) for i in range(9)]
    assert ids_of(await store.operations("room")) == ids_of(made)
    assert [b.batch_id for b in await store.batches("room")] == [f"batch-{9 - i}" for i in range(9)]
