# SPDX-License-Identifier: BSD-2-Clause
"""Corrections: what succeeded after all is told once more if, and only if, something else was told."""

import pytest

from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.store.rows import delivery_id
from tests.store.builders import (
    DONE,
    OUTCOMES,
    TIMED_OUT,
    accept,
    delivery_of,
    end,
    events,
    finish_telling,
    hold,
    ids_of,
    names,
    owe,
    settle,
    tell,
    the_event,
)

NEVER = "it was never told"


def correction_of(delivery):
    """The name of the correction of a delivery's first operation."""
    return delivery_id(delivery.batch_id, delivery.operations[0], corrected=True)


async def correct(store, delivery):
    """Let the first operation of a delivery succeed after all."""
    return await store.finish(delivery.operations[0].operation_id, DONE)


@pytest.mark.parametrize("status", ["timed_out", "unknown"])
async def test_a_late_success_is_a_new_fact(store, status):
    before = await settle(store, OUTCOMES[status])
    name = before.operation.operation_id
    since = len(await names(store))
    # A correction needs no valid fence.
    finished = await store.finish(name, DONE, fence=77)
    now = await store.operation(name)
    assert finished.operation == now
    assert (finished.corrected, finished.dead_letter) == (True, None)
    assert (now.status, now.result, now.error) == (OperationStatus.SUCCEEDED, DONE.result, None)
    assert (now.late, now.outcome_class) == (True, "success")
    (letter,) = await store.dead_letters(include_closed=True)
    assert (letter.closed_at is not None, letter.note) == (True, "succeeded after all")
    assert letter.operation == now
    assert await store.dead_letters() == []
    assert await names(store, since) == ["on_operation_corrected", "on_dead_letter_closed"]
    assert (await the_event(store, "on_operation_corrected")).operation_id == name
    assert (await the_event(store, "on_dead_letter_closed")).reason == "succeeded after all"


async def test_it_is_corrected_once(store):
    before = await settle(store, TIMED_OUT)
    name = before.operation.operation_id
    await store.finish(name, DONE)
    now = await store.operation(name)
    for outcome in OUTCOMES.values():
        assert await store.finish(name, outcome) is None
    assert await store.operation(name) == now
    assert len(await events(store, "on_operation_corrected")) == 1


async def test_a_letter_that_was_closed_by_hand_keeps_its_note(store):
    before = await settle(store, TIMED_OUT)
    await store.close_dead_letter(before.dead_letter, "called the clinic")
    await store.finish(before.operation.operation_id, DONE)
    assert (await store.dead_letter(before.dead_letter)).note == "called the clinic"


async def test_before_the_batch_closed_it_is_just_told(store):
    first, second = [await accept(store) for _ in range(2)]
    await store.finish(first.operation_id, TIMED_OUT)
    assert (await store.finish(first.operation_id, DONE)).delivery is None
    delivery = (await store.finish(second.operation_id, DONE)).delivery
    assert [op.status for op in delivery.operations] == [OperationStatus.SUCCEEDED] * 2
    assert await store.deliveries("room") == [delivery]


@pytest.mark.parametrize("outcome", [None, "interrupted", "withdrawn", "lost", "unheard"])
async def test_pending_tells_the_newer_record_whatever_was_heard_of_it(store, outcome):
    delivery = await owe(store, TIMED_OUT)
    if outcome is not None:
        heard = "I could not" if outcome == "interrupted" else ""
        await finish_telling(store, delivery, "pending", outcome, heard=heard)
    assert (await correct(store, delivery)).delivery is None
    (now,) = await store.deliveries("room")
    assert (now.state, now.operations[0].late) == ("pending", True)


async def test_spoken_is_corrected(store):
    delivery = await owe(store, TIMED_OUT)
    await finish_telling(store, delivery, "spoken")
    finished = await correct(store, delivery)
    told, correction = await store.deliveries("room")
    assert finished.delivery == correction
    assert correction.delivery_id == correction_of(delivery)
    assert (correction.state, correction.correction) == ("pending", True)
    assert correction.operations == (finished.operation,)
    assert (correction.batch_id, correction.session_id, correction.turn_id) == ("batch-1", "room", "turn-1")
    assert told.state == "spoken"
    assert (await events(store, "on_delivery_ready"))[-1].delivery_id == correction.delivery_id


async def test_a_correction_holds_the_one_operation_alone(store):
    first, second = [await accept(store) for _ in range(2)]
    await store.finish(first.operation_id, DONE)
    delivery = (await store.finish(second.operation_id, OUTCOMES["unknown"])).delivery
    await finish_telling(store, delivery, "spoken")
    correction = (await store.finish(second.operation_id, DONE)).delivery
    assert ids_of(correction.operations) == [second.operation_id]
    assert correction.delivery_id == delivery_id("batch-1", second, corrected=True)


async def test_a_correction_is_told_like_any_other(store):
    delivery = await owe(store, TIMED_OUT)
    await finish_telling(store, delivery, "spoken")
    await finish_telling(store, (await correct(store, delivery)).delivery, "spoken")
    assert [row.state for row in await store.deliveries("room")] == ["spoken", "spoken"]
    assert await store.open_deliveries("room") == []


async def test_what_was_suppressed_is_not_corrected(store):
    delivery = await owe(store, TIMED_OUT)
    fence = await hold(store)
    await store.suppress("room", delivery.delivery_id, "not wanted any more", fence=fence)
    await correct(store, delivery)
    await check_never_told(store, delivery)


async def test_what_was_undeliverable_is_not_corrected(store):
    delivery = await owe(store, TIMED_OUT)
    await finish_telling(store, delivery, "undeliverable", "lost")
    await correct(store, delivery)
    await check_never_told(store, delivery)


async def test_while_it_is_told_nothing_is_decided(store):
    delivery = await owe(store, TIMED_OUT)
    await tell(store, delivery)
    finished = await correct(store, delivery)
    assert (finished.corrected, finished.delivery) == (True, None)
    assert [row.state for row in await store.deliveries("room")] == ["telling"]


async def test_told_to_the_end_it_is_corrected_then(store):
    delivery = await owe(store, TIMED_OUT)
    await tell(store, delivery)
    await correct(store, delivery)
    await store.settle_telling("telling-1", [end(delivery.delivery_id)])
    told, correction = await store.deliveries("room")
    assert told.state == "spoken"
    assert (correction.delivery_id, correction.state) == (correction_of(delivery), "pending")
    assert correction.correction is True
    assert correction.operations[0].late is True


async def test_cut_off_it_is_told_anew_and_not_corrected(store):
    delivery = await owe(store, TIMED_OUT)
    await tell(store, delivery)
    await correct(store, delivery)
    await store.settle_telling("telling-1", [end(delivery.delivery_id, "pending", "interrupted")])
    assert [row.state for row in await store.deliveries("room")] == ["pending"]
    await finish_telling(store, delivery, "spoken")
    assert [row.state for row in await store.deliveries("room")] == ["spoken"]


@pytest.mark.parametrize("state", ["undeliverable", "suppressed"])
async def test_given_up_it_is_not_corrected(store, state):
    delivery = await owe(store, TIMED_OUT)
    await tell(store, delivery)
    await correct(store, delivery)
    await store.settle_telling("telling-1", [end(delivery.delivery_id, state, "lost")])
    await check_never_told(store, delivery)


async def test_given_up_because_nobody_was_there_it_is_not_corrected(store, clock):
    delivery = await owe(store, TIMED_OUT)
    await tell(store, delivery)
    await correct(store, delivery)
    await store.renew("call", 0.0)
    await clock.pass_(0.03)
    assert len(await store.give_up_deliveries(0.02)) == 1
    await check_never_told(store, delivery)


async def test_taken_over_it_waits_for_the_end_of_the_newer_telling(store):
    delivery = await owe(store, TIMED_OUT)
    fence = await tell(store, delivery)
    await correct(store, delivery)
    await store.claim_telling("room", [delivery.delivery_id], "telling-2", fence=fence)
    assert await store.settle_telling("telling-1", [end(delivery.delivery_id)]) == ()
    assert len(await store.deliveries("room")) == 1
    await store.settle_telling("telling-2", [end(delivery.delivery_id, telling_id="telling-2")])
    assert [row.correction for row in await store.deliveries("room")] == [False, True]


async def test_two_corrections_of_one_telling_are_two_deliveries(store):
    first, second = [await accept(store) for _ in range(2)]
    await store.finish(first.operation_id, TIMED_OUT)
    delivery = (await store.finish(second.operation_id, OUTCOMES["unknown"])).delivery
    await tell(store, delivery)
    for operation in (second, first):
        await store.finish(operation.operation_id, DONE)
    await store.settle_telling("telling-1", [end(delivery.delivery_id)])
    corrections = [row for row in await store.deliveries("room") if row.correction]
    assert sorted(ids_of([op for row in corrections for op in row.operations])) == sorted(
        ids_of([first, second])
    )
    assert all(len(row.operations) == 1 for row in corrections)


async def test_what_is_replayed_while_others_run_is_told_with_them_and_not_corrected(store):
    before = await settle(store, TIMED_OUT)
    name = before.operation.operation_id
    await finish_telling(store, before.delivery, "spoken")
    await store.replay(before.dead_letter)
    other = await accept(store)
    await store.finish(name, TIMED_OUT)
    # Its newer end is in no delivery yet: the next one tells it.
    assert (await store.finish(name, DONE)).delivery is None
    further = (await store.finish(other.operation_id, DONE)).delivery
    assert ids_of(further.operations) == [name, other.operation_id]
    assert [row.correction for row in await store.deliveries("room")] == [False, False]


async def test_the_outcome_of_a_replay_is_corrected_too(store):
    before = await settle(store, TIMED_OUT)
    name = before.operation.operation_id
    await finish_telling(store, before.delivery, "spoken")
    await store.replay(before.dead_letter)
    further = (await store.finish(name, TIMED_OUT)).delivery
    await finish_telling(store, further, "spoken")
    finished = await store.finish(name, DONE)
    assert finished.delivery.delivery_id == delivery_id("batch-1", finished.operation, corrected=True)
    assert finished.delivery.state == "pending"


async def check_never_told(store, delivery):
    """A correction is there, and will never be told."""
    correction = await delivery_of(store, correction_of(delivery))
    assert (correction.state, correction.reason, correction.correction) == ("suppressed", NEVER, True)
    assert ids_of(correction.operations) == ids_of(delivery.operations)
    assert await store.open_deliveries("room") == []
    event = (await events(store, "on_delivery_suppressed"))[-1]
    assert (event.delivery_id, event.reason) == (correction.delivery_id, NEVER)
    assert len(await store.deliveries("room")) == 2
