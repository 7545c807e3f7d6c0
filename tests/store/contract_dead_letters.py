# SPDX-License-Identifier: BSD-2-Clause
"""Dead letters: what only a person can settle, looked at, closed, or sent on its way again."""

import asyncio

import pytest

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED
from pipecat_async_tools.store.rows import delivery_id
from tests.builders import operation
from tests.store.builders import (
    BROKEN,
    BUSY,
    DONE,
    TIMED_OUT,
    accept,
    delivery_of,
    end,
    events,
    finish_telling,
    ids_of,
    names,
    owe,
    settle,
    tell,
    the_event,
)


async def dead(store, outcome=TIMED_OUT, **fields):
    """The id of the dead letter of an operation that ended so."""
    return (await settle(store, outcome, **fields)).dead_letter


async def lost_delivery(store):
    """The dead letter of a delivery that could not be told."""
    delivery = await owe(store)
    await finish_telling(store, delivery, "undeliverable", "unheard")
    (letter,) = await store.dead_letters()
    return letter


async def test_they_come_oldest_first(store, another):
    made = [await dead(store, batch_id=f"b{i}", session_id=f"room-{i % 2}") for i in range(4)]
    assert [letter.letter_id for letter in await another.dead_letters()] == made
    assert [letter.letter_id for letter in await store.dead_letters(session_id="room-1")] == made[1::2]
    assert [letter.letter_id for letter in await store.dead_letters(limit=3)] == made[:3]
    assert await store.dead_letters(session_id="nowhere") == []
    await store.close_dead_letter(made[0], "seen to")
    assert [letter.letter_id for letter in await store.dead_letters()] == made[1:]
    assert [letter.letter_id for letter in await store.dead_letters(include_closed=True)] == made
    closed = await store.dead_letters(session_id="room-0", include_closed=True)
    assert [letter.letter_id for letter in closed] == made[::2]


async def test_one_is_found_by_its_id(store):
    letter_id = await dead(store)
    assert await store.dead_letter(letter_id) == (await store.dead_letters())[0]
    assert await store.dead_letter("nowhere") is None


async def test_one_is_closed_by_hand(store):
    finished = await settle(store, ABANDONED)
    before = await store.now()
    closed = await store.close_dead_letter(finished.dead_letter, "called the clinic: it was booked")
    assert closed == await store.dead_letter(finished.dead_letter)
    assert closed.note == "called the clinic: it was booked"
    assert before <= closed.closed_at <= await store.now()
    assert closed.operation == finished.operation == await store.operation(finished.operation.operation_id)
    event = await the_event(store, "on_dead_letter_closed")
    assert (event.reason, event.session_id) == (closed.note, "room")
    assert event.operation_id == finished.operation.operation_id


@pytest.mark.parametrize("action", ["close", "replay"])
async def test_what_is_closed_or_not_there_is_refused(store, action):
    async def act(letter_id):
        await (store.replay(letter_id) if action == "replay" else store.close_dead_letter(letter_id, "again"))

    letter_id = await dead(store)
    await store.close_dead_letter(letter_id, "seen to")
    log = await names(store)
    for name in (letter_id, "nowhere"):
        with pytest.raises(StoreError, match=name):
            await act(name)
    assert (await store.dead_letter(letter_id)).note == "seen to"
    assert await names(store) == log


async def test_an_adopted_operation_cannot_be_replayed(store):
    new = await accept(store, operation(adopted=True))
    finished = await store.finish(new.operation_id, TIMED_OUT)
    with pytest.raises(StoreError):
        await store.replay(finished.dead_letter)
    assert (await store.operation(new.operation_id)).status is OperationStatus.TIMED_OUT
    assert len(await store.dead_letters()) == 1


@pytest.mark.parametrize("outcome", [TIMED_OUT, ABANDONED, BUSY], ids=lambda o: str(o.status))
async def test_a_replayed_operation_is_accepted_anew(store, clock, outcome):
    old = await settle(store, outcome, arguments={"day": "friday"}, intent_key="k", idempotency_key="e")
    await store.record_progress(old.operation.operation_id, "half")
    await finish_telling(store, old.delivery, "spoken")
    await clock.pass_(0.01)
    since, before = len(await names(store)), await store.now()
    letter = await store.replay(old.dead_letter)
    now = await store.operation(old.operation.operation_id)
    assert now.status is OperationStatus.ACCEPTED
    assert (now.result, now.error, now.outcome_class, now.late) == (None, None, None, False)
    assert (now.replays, now.attempts, now.settled_at) == (1, 1, None)
    assert (now.arguments, now.intent_key, now.idempotency_key) == ({"day": "friday"}, "k", "e")
    assert before <= now.accepted_at <= await store.now()
    assert letter == await store.dead_letter(old.dead_letter)
    assert (letter.note, letter.operation) == ("replayed", now)
    assert (await store.batches("room"))[0].closed_at is None
    assert sorted(await names(store, since)) == ["on_dead_letter_closed", "on_operation_replayed"]
    assert (await the_event(store, "on_dead_letter_closed")).reason == "replayed"
    assert (await the_event(store, "on_operation_replayed")).operation_id == now.operation_id


@pytest.mark.parametrize("outcome", [DONE, BROKEN], ids=lambda o: str(o.status))
async def test_the_outcome_of_a_replay_is_told_by_a_further_delivery(store, outcome):
    old = await settle(store, TIMED_OUT)
    name = old.operation.operation_id
    await finish_telling(store, old.delivery, "spoken")
    await store.replay(old.dead_letter)
    claim = await store.claim(name, owner="worker")
    assert (claim.fence, claim.operation.attempts) == (2, 2)
    finished = await store.finish(name, outcome, fence=claim.fence)
    assert (finished.operation.late, finished.corrected, finished.operation.replays) == (False, False, 1)
    assert finished.delivery.operations == (finished.operation,)
    assert finished.delivery.delivery_id == delivery_id("batch-1", finished.operation)
    assert finished.delivery.correction is False
    assert [row.state for row in await store.deliveries("room")] == ["spoken", "pending"]


async def test_a_replayed_operation_joins_repeats_of_its_intent(store):
    letter = await dead(store, intent_key="k")
    await store.replay(letter)
    (answer,) = await store.accept([operation(intent_key="k", batch_id="b")], owner="call")
    assert answer.duplicate == "joined"


async def test_an_end_under_the_fence_before_the_replay_is_none(store):
    old = await settle(store, TIMED_OUT)
    name = old.operation.operation_id
    await store.replay(old.dead_letter)
    claim = await store.claim(name, owner="worker")
    assert await store.finish(name, DONE, fence=claim.fence - 1) is None
    assert await store.operation(name) == claim.operation


async def test_a_pending_delivery_that_holds_it_alone_is_suppressed(store):
    old = await settle(store, TIMED_OUT)
    await store.replay(old.dead_letter)
    now = await delivery_of(store, old.delivery.delivery_id)
    assert (now.state, now.reason) == ("suppressed", "replayed")
    assert (await the_event(store, "on_delivery_suppressed")).delivery_id == now.delivery_id
    further = (await store.finish(old.operation.operation_id, DONE)).delivery
    assert [row.delivery_id for row in await store.open_deliveries("room")] == [further.delivery_id]


async def test_a_pending_delivery_that_holds_others_too_lets_it_go(store):
    first, second, third = [await accept(store) for _ in range(3)]
    await store.finish(first.operation_id, DONE)
    letter = (await store.finish(second.operation_id, TIMED_OUT)).dead_letter
    delivery = (await store.finish(third.operation_id, DONE)).delivery
    await store.replay(letter)
    now = await delivery_of(store, delivery.delivery_id)
    assert (now.state, ids_of(now.operations)) == ("pending", [first.operation_id, third.operation_id])
    assert await events(store, "on_delivery_suppressed") == []
    further = (await store.finish(second.operation_id, DONE)).delivery
    assert ids_of(further.operations) == [second.operation_id]
    assert [row.delivery_id for row in await store.open_deliveries("room")] == [
        delivery.delivery_id,
        further.delivery_id,
    ]


async def test_a_delivery_that_is_being_told_keeps_it(store):
    old = await settle(store, TIMED_OUT)
    await tell(store, old.delivery)
    await store.replay(old.dead_letter)
    assert [row.state for row in await store.deliveries("room")] == ["telling"]
    assert await store.settle_telling("telling-1", [end(old.delivery.delivery_id)])
    further = (await store.finish(old.operation.operation_id, DONE)).delivery
    assert ids_of(further.operations) == [old.operation.operation_id]


async def test_each_replay_that_fails_again_has_a_letter_and_a_delivery_of_its_own(store):
    old = await settle(store, TIMED_OUT)
    name, letter_id, delivery = old.operation.operation_id, old.dead_letter, old.delivery
    for number in (1, 2):
        await finish_telling(store, delivery, "spoken")
        await store.replay(letter_id)
        finished = await store.finish(name, TIMED_OUT)
        letter_id, delivery = finished.dead_letter, finished.delivery
        assert letter_id == f"dead-{name}-{number + 1}"
        assert delivery.delivery_id == f"delivery-batch-1-late-{name}-{number}"
    letters = await store.dead_letters(include_closed=True)
    assert [letter.note for letter in letters] == ["replayed", "replayed", ""]
    assert [letter.letter_id for letter in await store.dead_letters()] == [f"dead-{name}-3"]
    assert len(await store.deliveries("room")) == 3


async def test_the_outcome_of_a_replay_is_told_also_where_the_first_was_answered_natively(store):
    first, second = [await accept(store) for _ in range(2)]
    await store.answer_natively("batch-1")
    await store.finish(first.operation_id, DONE)
    letter = (await store.finish(second.operation_id, TIMED_OUT)).dead_letter
    assert await store.deliveries("room") == []
    await store.replay(letter)
    delivery = (await store.finish(second.operation_id, DONE)).delivery
    assert ids_of(delivery.operations) == [second.operation_id]


async def test_a_replayed_delivery_is_pending_again(store):
    letter = await lost_delivery(store)
    since = len(await names(store))
    closed = await store.replay(letter.letter_id)
    (now,) = await store.open_deliveries("room")
    assert (now.delivery_id, now.state) == (letter.delivery.delivery_id, "pending")
    assert now.tellings == letter.delivery.tellings
    assert (len(now.tellings), now.ready_at) == (1, letter.delivery.ready_at)
    assert (closed.note, closed.delivery) == ("replayed", now)
    assert sorted(await names(store, since)) == ["on_dead_letter_closed", "on_delivery_replayed"]
    assert (await the_event(store, "on_delivery_replayed")).delivery_id == now.delivery_id


async def test_a_delivery_that_is_lost_again_has_another_letter(store):
    letter = await lost_delivery(store)
    await store.replay(letter.letter_id)
    await finish_telling(store, letter.delivery, "undeliverable", "unheard")
    (again,) = await store.dead_letters()
    assert again.letter_id == f"{letter.letter_id}-2"
    assert len(again.delivery.tellings) == 2


@pytest.mark.parametrize("about", ["operation", "delivery"])
async def test_of_many_replays_at_once_one_is_done(store, another, about):
    letter_id = await dead(store) if about == "operation" else (await lost_delivery(store)).letter_id
    answers = await asyncio.gather(
        *(s.replay(letter_id) for s in (store, another) for _ in "ab"), return_exceptions=True
    )
    assert len([answer for answer in answers if isinstance(answer, StoreError)]) == 3
    await the_event(store, f"on_{about}_replayed")
