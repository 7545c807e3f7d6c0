# SPDX-License-Identifier: BSD-2-Clause
"""Batches and their deliveries: closed once nothing is on its way, and everything is owed exactly once."""

import asyncio

import pytest

from pipecat_async_tools.store.rows import delivery_id
from tests.builders import operation
from tests.store.builders import (
    BROKEN,
    DONE,
    OUTCOMES,
    TIMED_OUT,
    accept,
    delivery_of,
    events,
    finish_telling,
    ids_of,
    names,
    owe,
    settle,
    tell,
    the_event,
)


async def test_a_batch_closes_with_its_last_operation_and_owes_one_update(store):
    first, second = [await accept(store) for _ in range(2)]
    assert (await store.finish(first.operation_id, DONE)).delivery is None
    assert (await store.batches("room"))[0].closed_at is None
    finished = await store.finish(second.operation_id, BROKEN)
    (batch,) = await store.batches("room")
    (delivery,) = await store.deliveries("room")
    assert finished.delivery == delivery
    assert batch.closed_at == delivery.ready_at == pytest.approx(finished.operation.settled_at, abs=1e-3)
    assert delivery.delivery_id == delivery_id("batch-1") == "delivery-batch-1"
    assert (delivery.session_id, delivery.batch_id, delivery.turn_id) == ("room", "batch-1", "turn-1")
    assert delivery.operations == tuple(await store.operations("room"))
    assert (delivery.state, delivery.reason, delivery.correction) == ("pending", "", False)
    assert (delivery.telling_id, delivery.tellings, delivery.heard, delivery.text) == (None, (), "", "")


async def test_closing_is_written_down_in_its_order(store):
    finished = await settle(store)
    assert await names(store, since=3) == ["on_operation_settled", "on_batch_closed", "on_delivery_ready"]
    closed, ready = await the_event(store, "on_batch_closed"), await the_event(store, "on_delivery_ready")
    assert (closed.batch_id, closed.turn_id, closed.session_id) == ("batch-1", "turn-1", "room")
    assert (ready.delivery_id, ready.batch_id) == (finished.delivery.delivery_id, "batch-1")
    assert (ready.turn_id, ready.session_id) == ("turn-1", "room")


@pytest.mark.parametrize("end", OUTCOMES)
async def test_every_end_is_told(store, end):
    finished = await settle(store, OUTCOMES[end])
    assert finished.delivery.operations == (finished.operation,)


async def test_a_batch_waits_for_the_calls_it_expects(store):
    first = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    assert (await store.finish(first.operation_id, DONE)).delivery is None
    second = await accept(store, operation(tool_call_id="b"))
    assert await store.deliveries("room") == []
    finished = await store.finish(second.operation_id, DONE)
    assert ids_of(finished.delivery.operations) == [first.operation_id, second.operation_id]


async def test_the_last_call_may_bring_nothing_and_close_the_batch(store):
    first = await accept(store, operation(tool_call_id="a", intent_key="k"), expected=["a", "b"])
    await store.finish(first.operation_id, BROKEN)
    other = await accept(store, operation(batch_id="other", intent_key="k"))
    await accept(store, operation(tool_call_id="b", intent_key="k"))
    assert other.operation_id != first.operation_id
    (delivery,) = await store.deliveries("room")
    assert ids_of(delivery.operations) == [first.operation_id]


async def test_dismissing_the_last_expected_call_closes_the_batch(store):
    first = await accept(store, operation(tool_call_id="a"), expected=["a", "b", "c", "d"])
    assert await store.dismiss("batch-1", ["b", "unheard of"]) is None
    assert (await store.batches("room"))[0].expected == ("c", "d")
    await store.finish(first.operation_id, DONE)
    delivery = await store.dismiss("batch-1", ["c", "d"])
    assert delivery == (await store.deliveries("room"))[0]
    assert ids_of(delivery.operations) == [first.operation_id]
    assert await names(store, since=3) == ["on_batch_closed", "on_delivery_ready"]


async def test_dismissing_closes_nothing_while_an_operation_is_on_its_way(store):
    first = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    assert await store.dismiss("batch-1", ["b"]) is None
    assert (await store.batches("room"))[0].closed_at is None
    assert (await store.finish(first.operation_id, DONE)).delivery is not None


async def test_dismissing_what_is_over_or_unknown_does_nothing(store):
    await settle(store)
    log = await names(store)
    assert await store.dismiss("batch-1", ["call"]) is None
    assert await store.dismiss("nowhere", ["call"]) is None
    assert await names(store) == log
    assert len(await store.deliveries("room")) == 1


async def test_a_batch_without_an_operation_closes_without_a_delivery(store):
    await accept(store, operation(intent_key="k", batch_id="other"))
    joined = operation(tool_call_id="a", intent_key="k", batch_id="batch-2")
    await accept(store, joined, expected=["a", "b"])
    assert await store.dismiss("batch-2", ["b"]) is None
    batch = (await store.batches("room"))[1]
    assert (batch.closed_at is not None, batch.operation_ids) == (True, ())
    assert await store.deliveries("room") == []


async def test_silent_operations_count(store):
    (first, second) = [await accept(store) for _ in range(2)]
    await store.finish(first.operation_id, DONE, silent=True)
    finished = await store.finish(second.operation_id, DONE, silent=True)
    assert [op.silent for op in finished.delivery.operations] == [True, True]
    assert finished.delivery.state == "pending"


async def test_what_comes_after_the_close_is_a_further_delivery(store):
    first = await owe(store)
    late, later = [await accept(store) for _ in range(2)]
    assert (await store.finish(later.operation_id, DONE)).delivery is None
    further = (await store.finish(late.operation_id, DONE)).delivery
    assert ids_of(further.operations) == [late.operation_id, later.operation_id]
    assert further.delivery_id == delivery_id("batch-1", late) == f"delivery-batch-1-late-{late.operation_id}"
    assert further.correction is False
    assert await delivery_of(store, first.delivery_id) == first
    assert [row.delivery_id for row in await store.deliveries("room")] == [
        first.delivery_id,
        further.delivery_id,
    ]


async def test_a_delivery_tells_its_operations_as_they_are_now(store, another):
    delivery = await owe(store, OUTCOMES["timed_out"])
    await another.finish(delivery.operations[0].operation_id, DONE)
    (now,) = await store.open_deliveries("room")
    assert now.operations[0].late is True
    assert now.operations == tuple(await store.operations("room"))


async def test_a_batch_that_was_answered_natively_owes_nothing(store):
    new = await accept(store)
    await store.answer_natively("batch-1")
    assert (await store.batches("room"))[0].native is True
    assert (await store.finish(new.operation_id, DONE)).delivery is None
    assert (await store.batches("room"))[0].closed_at is not None
    late = await accept(store)
    assert (await store.finish(late.operation_id, DONE)).delivery is None
    assert await store.deliveries("room") == []
    assert len(await events(store, "on_batch_closed")) == 2


async def test_a_batch_that_waits_for_calls_may_be_answered_natively(store):
    new = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    await store.finish(new.operation_id, DONE)
    await store.answer_natively("batch-1")
    assert await store.dismiss("batch-1", ["b"]) is None
    assert await store.deliveries("room") == []


async def test_a_pending_delivery_is_suppressed_when_its_batch_was_answered_natively(store):
    delivery = await owe(store)
    await store.answer_natively("batch-1")
    now = await delivery_of(store, delivery.delivery_id)
    assert (now.state, now.reason) == ("suppressed", "answered at once")
    assert await store.open_deliveries("room") == []
    event = await the_event(store, "on_delivery_suppressed")
    assert (event.delivery_id, event.reason) == (delivery.delivery_id, "answered at once")
    await store.answer_natively("batch-1")
    assert len(await events(store, "on_delivery_suppressed")) == 1


async def test_what_is_told_or_being_told_stays_when_its_batch_was_answered_natively(store):
    told = await owe(store, batch_id="a")
    await finish_telling(store, told, "spoken")
    telling = await owe(store, batch_id="b")
    await tell(store, telling)
    for batch_id in ("a", "b", "nowhere"):
        await store.answer_natively(batch_id)
    assert [row.state for row in await store.deliveries("room")] == ["spoken", "telling"]
    assert await events(store, "on_delivery_suppressed") == []


async def test_only_the_deliveries_of_the_batch_are_answered(store):
    await owe(store, batch_id="a")
    await owe(store, batch_id="b")
    await store.answer_natively("a")
    assert [row.batch_id for row in await store.open_deliveries("room")] == ["b"]


async def test_when_all_end_at_once_the_batch_closes_once_with_all_of_them(store, another):
    made = [await accept(store) for _ in range(12)]
    stores = [store, another] * 6
    answers = await asyncio.gather(*(s.finish(op.operation_id, DONE) for s, op in zip(stores, made)))
    (delivery,) = [answer.delivery for answer in answers if answer.delivery is not None]
    assert ids_of(delivery.operations) == ids_of(made)
    assert len(await events(store, "on_batch_closed")) == 1
    assert len(await store.deliveries("room")) == 1


async def test_whatever_comes_at_once_nothing_is_told_twice_or_not_at_all(store, another):
    async def one(number: int) -> None:
        s = (store, another)[number % 2]
        new = await accept(s, operation(tool_call_id=f"call-{number}"))
        await s.finish(new.operation_id, DONE)

    await asyncio.gather(*(one(number) for number in range(10)))
    told = [name for row in await store.deliveries("room") for name in ids_of(row.operations)]
    assert sorted(told) == sorted(ids_of(await store.operations("room")))
    assert (await store.batches("room"))[0].closed_at is not None


async def test_a_part_is_what_has_settled_and_the_batch_goes_on(store, another):
    first, second = [await accept(store, operation(tool_call_id=c), expected=["a", "b"]) for c in "ab"]
    await store.finish(first.operation_id, DONE)
    part = await store.deliver_part("batch-1")
    assert part == (await another.deliveries("room"))[0]
    assert part.delivery_id == delivery_id("batch-1")
    assert ids_of(part.operations) == [first.operation_id]
    assert (part.state, part.reason) == ("pending", "partial")
    assert (await store.batches("room"))[0].closed_at is None
    assert (await the_event(store, "on_delivery_ready")).reason == "partial"
    rest = (await store.finish(second.operation_id, BROKEN)).delivery
    assert ids_of(rest.operations) == [second.operation_id]
    assert rest.delivery_id == delivery_id("batch-1", rest.operations[0])
    assert (await store.batches("room"))[0].closed_at is not None


async def test_a_part_is_handed_over_once(store):
    first, second = [await accept(store, operation(tool_call_id=c), expected=["a", "b"]) for c in "ab"]
    assert await store.deliver_part("batch-1") is None
    await store.finish(first.operation_id, DONE)
    assert await store.deliver_part("batch-1") is not None
    assert await store.deliver_part("batch-1") is None
    await store.finish(second.operation_id, DONE)
    assert await store.deliver_part("batch-1") is None
    assert len(await store.deliveries("room")) == 2


async def test_a_batch_told_in_parts_closes_without_a_further_delivery(store):
    first = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    await store.finish(first.operation_id, DONE)
    await store.deliver_part("batch-1")
    assert await store.dismiss("batch-1", ["b"]) is None
    assert (await store.batches("room"))[0].closed_at is not None
    assert len(await store.deliveries("room")) == 1


async def test_there_is_no_part_of_what_is_closed_native_or_unknown(store):
    await settle(store)
    assert await store.deliver_part("batch-1") is None
    quick = await accept(store, operation(tool_call_id="a", batch_id="quick"), expected=["a", "b"])
    await store.finish(quick.operation_id, DONE)
    await store.answer_natively("quick")
    assert await store.deliver_part("quick") is None
    assert await store.deliver_part("nowhere") is None


async def test_a_late_success_of_a_part_that_was_told_corrects_it(store):
    first = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    await store.finish(first.operation_id, TIMED_OUT)
    part = await store.deliver_part("batch-1")
    await finish_telling(store, part, "spoken")
    correction = (await store.finish(first.operation_id, DONE)).delivery
    assert correction.correction and ids_of(correction.operations) == [first.operation_id]
