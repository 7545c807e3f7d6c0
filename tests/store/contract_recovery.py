# SPDX-License-Identifier: BSD-2-Clause
"""Recovery: what a dead owner left behind is run again if it may be, and settled if not."""

import asyncio

import pytest

from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED
from pipecat_async_tools.store.rows import Recovered
from tests.builders import operation
from tests.store.builders import DONE, FAR, TIMED_OUT, accept, events, ids_of, names, owe, run, the_event
from tests.store.databases import SOON


async def left_behind(store, **fields):
    """An operation that a dead owner was running."""
    claim = await run(store, owner="dead", **fields)
    await store.renew("dead", 0.0)
    return claim.operation


async def test_nothing_lies_about(store):
    assert await store.recover() == Recovered()
    await run(store, batch_id="running")
    await accept(store, operation(batch_id="accepted"))
    await owe(store, batch_id="settled")
    log = await names(store)
    assert await store.recover() == Recovered()
    assert await names(store) == log


async def test_what_may_not_be_repeated_is_unknown(store):
    lost = await left_behind(store)
    since = len(await names(store))
    recovered = await store.recover()
    (finished,) = recovered.finished
    assert (recovered.accepted, recovered.deliveries) == ((), ())
    assert finished.operation == await store.operation(lost.operation_id)
    assert finished.operation.status is OperationStatus.UNKNOWN
    assert (finished.operation.error, finished.operation.outcome_class) == (ABANDONED.error, "ambiguous")
    assert finished.delivery == (await store.deliveries("room"))[0]
    (letter,) = await store.dead_letters()
    assert (letter.letter_id, letter.operation) == (finished.dead_letter, finished.operation)
    assert sorted(await names(store, since)) == sorted(
        ["on_operation_settled", "on_dead_letter_opened", "on_batch_closed", "on_delivery_ready"]
    )


@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_pipecat_ran_is_unknown_too(store, idempotent):
    await store.renew("dead", 0.0)
    lost = await accept(store, operation(adopted=True, idempotent=idempotent), owner="dead")
    (finished,) = (await store.recover()).finished
    assert (finished.operation.operation_id, finished.operation.status) == (lost.operation_id, "unknown")


async def test_what_may_be_repeated_is_accepted_again(store, another, clock):
    lost = await left_behind(store, idempotent=True)
    await clock.pass_(0.01)
    recovered = await store.recover()
    (again,) = recovered.accepted
    assert (recovered.finished, recovered.deliveries) == ((), ())
    assert again == await store.operation(lost.operation_id)
    assert again.status is OperationStatus.ACCEPTED
    assert (again.attempts, again.started_at, again.accepted_at) == (1, lost.started_at, lost.accepted_at)
    assert (await the_event(store, "on_operation_recovered")).operation_id == lost.operation_id
    assert await store.recover() == Recovered()
    claim = await another.claim(lost.operation_id, owner="worker")
    assert (claim.fence, claim.operation.attempts) == (2, 2)


async def test_an_owner_who_never_had_a_lease_is_dead(store):
    new = await accept(store)
    await store.claim(new.operation_id, owner="nobody")
    assert len((await store.recover()).finished) == 1


@pytest.mark.parametrize("idempotent", [True, False])
async def test_when_its_time_is_up_it_is_not_repeated(store, clock, idempotent):
    lost = await left_behind(store, idempotent=idempotent, timeout_secs=SOON)
    await clock.pass_()
    recovered = await store.recover()
    (finished,) = recovered.finished
    expected = outcomes.timed_out(SOON) if idempotent else ABANDONED
    assert recovered.accepted == ()
    assert finished.operation.operation_id == lost.operation_id
    assert (finished.operation.status, finished.operation.error) == (expected.status, expected.error)
    assert finished.operation.outcome_class == expected.outcome_class
    assert finished.dead_letter is not None


async def test_what_nobody_claimed_in_time_has_timed_out(store, clock):
    late = await accept(store, operation(timeout_secs=SOON))
    await accept(store, operation(batch_id="other", timeout_secs=FAR))
    await clock.pass_()
    (finished,) = (await store.recover()).finished
    assert finished.operation.operation_id == late.operation_id
    assert finished.operation.status is OperationStatus.TIMED_OUT
    assert finished.operation.error == "There was no answer within 0.05 seconds."
    assert finished.operation.attempts == 0
    assert finished.delivery.operations == (finished.operation,)


async def test_what_a_living_owner_runs_is_left_alone_however_late(store, clock):
    claim = await run(store, timeout_secs=SOON)
    adopted = operation(batch_id="b", adopted=True, timeout_secs=SOON)
    await accept(store, adopted, owner="worker")
    await clock.pass_(2 * SOON)
    assert await store.recover() == Recovered()
    assert (await store.finish(claim.operation.operation_id, DONE, fence=1)).operation.result == DONE.result


async def test_an_owner_who_renewed_in_time_is_alive(store, clock):
    await store.renew("worker", SOON)
    new = await accept(store)
    await store.claim(new.operation_id, owner="worker")
    await store.renew("worker", FAR)
    await clock.pass_()
    assert await store.recover() == Recovered()


async def test_a_batch_of_a_dead_owner_waits_no_longer(store):
    await store.renew("dead", 0.0)
    new = await accept(store, operation(tool_call_id="a"), owner="dead", expected=["a", "b", "c"])
    await store.finish(new.operation_id, DONE)
    (delivery,) = (await store.recover()).deliveries
    assert delivery == (await store.deliveries("room"))[0]
    assert ids_of(delivery.operations) == [new.operation_id]
    (batch,) = await store.batches("room")
    assert (batch.expected, batch.closed_at is not None) == ((), True)
    assert await store.recover() == Recovered()


async def test_a_batch_of_a_dead_owner_still_waits_for_its_operations(store):
    await store.renew("dead", 0.0)
    new = await accept(store, operation(tool_call_id="a"), owner="dead", expected=["a", "b"])
    assert await store.recover() == Recovered()
    (batch,) = await store.batches("room")
    assert (batch.expected, batch.closed_at) == ((), None)
    assert (await store.finish(new.operation_id, DONE)).delivery is not None


async def test_a_batch_of_a_dead_owner_closes_with_what_he_was_running(store):
    await store.renew("dead", FAR)
    new = await accept(store, operation(tool_call_id="a"), owner="dead", expected=["a", "b"])
    await store.claim(new.operation_id, owner="dead")
    await store.renew("dead", 0.0)
    recovered = await store.recover()
    assert ids_of([finished.operation for finished in recovered.finished]) == [new.operation_id]
    assert list(recovered.deliveries) == await store.deliveries("room")
    assert len(recovered.deliveries) == 1


async def test_a_batch_of_a_living_owner_goes_on_waiting(store):
    await store.renew("call", FAR)
    new = await accept(store, operation(tool_call_id="a"), expected=["a", "b"])
    await store.finish(new.operation_id, DONE)
    assert await store.recover() == Recovered()
    assert (await store.batches("room"))[0].expected == ("b",)


async def test_a_batch_that_a_worker_outlives_is_not_closed_over_it(store):
    await store.renew("dead", 0.0)
    await accept(store, owner="dead")
    claim = await store.claim((await store.operations("room"))[0].operation_id, owner="worker")
    await store.renew("worker", FAR)
    assert await store.recover() == Recovered()
    assert await store.finish(claim.operation.operation_id, DONE, fence=claim.fence) is not None


async def test_no_more_than_so_many_are_seen_to_at_once(store):
    made = [await left_behind(store, batch_id=f"b{i}", idempotent=i % 2 == 0) for i in range(5)]
    seen = []
    for _ in range(5):
        recovered = await store.recover(limit=1)
        seen += [*recovered.accepted, *(finished.operation for finished in recovered.finished)]
    assert sorted(ids_of(seen)) == sorted(ids_of(made))
    assert await store.recover(limit=1) == Recovered()


async def test_of_many_who_recover_at_once_each_operation_is_seen_to_by_one(store, another):
    made = [await left_behind(store, batch_id=f"b{i}", idempotent=i % 2 == 0) for i in range(8)]
    answers = await asyncio.gather(*(s.recover() for s in (store, another) for _ in range(2)))
    seen = [op for answer in answers for op in answer.accepted]
    seen += [finished.operation for answer in answers for finished in answer.finished]
    assert sorted(ids_of(seen)) == sorted(ids_of(made))
    assert len(await events(store, "on_operation_recovered")) == 4
    assert len(await events(store, "on_operation_settled")) == 4


async def test_overdue_is_what_nobody_has_claimed_for_a_while(store, clock):
    made = [await accept(store, operation(batch_id=f"b{i}")) for i in range(3)]
    await run(store, batch_id="running")
    await accept(store, operation(batch_id="adopted", adopted=True))
    await owe(store, batch_id="settled")
    await accept(store, operation(batch_id="late", timeout_secs=SOON))
    await clock.pass_()
    assert await store.overdue(SOON) == made
    assert await store.overdue(SOON, limit=2) == made[:2]
    assert await store.overdue(FAR) == []
    await store.claim(made[0].operation_id, owner="worker")
    assert await store.overdue(SOON) == made[1:]


async def test_overdue_is_counted_from_when_it_was_accepted_again(store, clock):
    lost = await left_behind(store, idempotent=True)
    await clock.pass_(0.3)
    await store.recover()
    assert await store.overdue(0.3) == []
    await clock.pass_(0.3)
    assert ids_of(await store.overdue(0.3)) == [lost.operation_id]


async def test_overdue_is_counted_from_the_replay(store, clock):
    old = await accept(store)
    letter = (await store.finish(old.operation_id, TIMED_OUT)).dead_letter
    await clock.pass_(0.3)
    await store.replay(letter)
    assert await store.overdue(0.3) == []
    await clock.pass_(0.3)
    assert ids_of(await store.overdue(0.3)) == [old.operation_id]
