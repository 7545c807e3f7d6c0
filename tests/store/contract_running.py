# SPDX-License-Identifier: BSD-2-Clause
"""Running and finishing: one owner at a time, one outcome, and who is too late is told so."""

import asyncio

import pytest

from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.operations.outcome import CANCELLED, OutcomeClass
from pipecat_async_tools.store.rows import why_dead
from tests.builders import operation
from tests.store.builders import (
    BROKEN,
    BUSY,
    DONE,
    FAR,
    OUTCOMES,
    TIMED_OUT,
    accept,
    events,
    names,
    run,
    settle,
    the_event,
)
from tests.store.contract_accepting import VALUES, exactly

RESULTS = {**VALUES, **{repr(value): value for value in ([], {}, 0, 0.0, False, "", None, True, 1, "1")}}
SOON_OVER = 0.02
FATES = {
    **OUTCOMES,
    "business error": outcomes.failed("No.", OutcomeClass.BUSINESS_ERROR),
    "rate limited": BUSY,
    "unavailable": outcomes.failed("It was away.", OutcomeClass.UNAVAILABLE),
    "timeout": outcomes.failed("It was slow.", OutcomeClass.TIMEOUT),
    "unconfirmed": outcomes.unconfirmed("the line broke"),
}


async def run_again(store, **fields):
    """An operation whose owner died and that another one claimed since."""
    claim = await run(store, owner="dead", idempotent=True, **fields)
    await store.renew("dead", 0.0)
    await store.recover()
    await store.renew("living", FAR)
    again = await store.claim(claim.operation.operation_id, owner="living")
    return claim, again


async def test_a_claim_makes_it_running(store):
    new = await accept(store)
    before = await store.now()
    claim = await store.claim(new.operation_id, owner="worker")
    assert (claim.fence, claim.operation.attempts) == (1, 1)
    assert claim.operation.status is OperationStatus.RUNNING
    assert before <= claim.operation.started_at <= await store.now()
    assert await store.operation(new.operation_id) == claim.operation
    event = await the_event(store, "on_operation_started")
    assert (event.operation_id, event.reason, event.detail) == (new.operation_id, "attempt 1", {"attempt": 1})


async def test_what_cannot_be_claimed(store, clock):
    taken = (await run(store)).operation
    settled = (await settle(store, batch_id="b")).operation
    adopted = await accept(store, operation(adopted=True))
    late = await accept(store, operation(timeout_secs=SOON_OVER))
    await clock.pass_()
    log = await names(store)
    for name in (
        "nowhere",
        taken.operation_id,
        settled.operation_id,
        adopted.operation_id,
        late.operation_id,
    ):
        assert await store.claim(name, owner="worker") is None
    assert await names(store) == log
    assert (await store.operation(late.operation_id)).status is OperationStatus.ACCEPTED


async def test_of_many_claims_at_once_one_wins(store, another):
    new = await accept(store)
    claims = await asyncio.gather(
        *(s.claim(new.operation_id, owner=f"{i}") for i in range(16) for s in (store, another))
    )
    assert [claim.fence for claim in claims if claim is not None] == [1]
    assert len(await events(store, "on_operation_started")) == 1


async def test_a_second_run_has_a_higher_fence_and_goes_on_counting(store, clock):
    first = await run(store, owner="dead", idempotent=True)
    await store.renew("dead", 0.0)
    await clock.pass_(0.01)
    await store.recover()
    again = await store.claim(first.operation.operation_id, owner="worker")
    assert (again.fence, again.operation.attempts) == (2, 2)
    assert again.operation.started_at == first.operation.started_at
    _, second = await events(store, "on_operation_started")
    assert (second.reason, second.detail) == ("attempt 2", {"attempt": 2})


async def test_a_failed_attempt_is_counted_and_written_down(store):
    claim = await run(store)
    name = claim.operation.operation_id
    for attempt, status in ((1, 429), (2, None)):
        row = await store.record_attempt(name, fence=1, wait_secs=0.75, outcome=BUSY, http_status=status)
        assert (row.attempts, row.status) == (attempt + 1, OperationStatus.RUNNING)
        assert await store.operation(name) == row
    first, second = await events(store, "on_operation_attempted")
    assert (first.operation_id, first.reason) == (name, "rate_limited")
    assert dict(first.detail) == {
        "attempt": 1,
        "outcome_class": "rate_limited",
        "http_status": 429,
        "wait_secs": 0.75,
        "error": "It was busy.",
    }
    assert (second.detail["attempt"], second.detail["http_status"]) == (2, None)


async def test_an_attempt_under_an_old_fence_or_after_the_end_is_none(store):
    attempt = {"wait_secs": 1.0, "outcome": BUSY, "http_status": None}
    old, again = await run_again(store)
    name = old.operation.operation_id
    assert await store.record_attempt(name, fence=old.fence, **attempt) is None
    assert await store.record_attempt("nowhere", fence=1, **attempt) is None
    assert await store.operation(name) == again.operation
    await store.finish(name, DONE, fence=again.fence)
    assert await store.record_attempt(name, fence=again.fence, **attempt) is None
    assert await events(store, "on_operation_attempted") == []


async def test_the_latest_progress_is_kept(store):
    claim = await run(store)
    name = claim.operation.operation_id
    for text in ("1 of 3 done", "2 of 3 done, Zürich"):
        row = await store.record_progress(name, text)
        assert row.progress == text
        assert await store.operation(name) == row
    assert [e.operation_id for e in await events(store, "on_operation_progressed")] == [name, name]
    await store.finish(name, DONE, fence=1)
    assert await store.record_progress(name, "3 of 3 done") is None
    assert await store.record_progress("nowhere", "1 of 1") is None
    assert len(await events(store, "on_operation_progressed")) == 2


@pytest.mark.parametrize("fate", FATES)
async def test_an_end_is_written_down(store, fate):
    outcome = FATES[fate]
    claim = await run(store)
    name = claim.operation.operation_id
    before = await store.now()
    finished = await store.finish(name, outcome, fence=claim.fence, http_status=503)
    settled = finished.operation
    assert await store.operation(name) == settled
    assert (settled.status, settled.result, settled.error) == (outcome.status, outcome.result, outcome.error)
    assert (settled.outcome_class, settled.late, settled.silent) == (outcome.outcome_class, False, False)
    assert before <= settled.settled_at <= await store.now()
    assert finished.corrected is False
    event = await the_event(store, "on_operation_settled")
    assert (event.operation_id, event.reason) == (name, str(outcome.status))
    assert dict(event.detail) == {
        "attempt": 1,
        "outcome_class": str(outcome.outcome_class),
        "http_status": 503,
    }


@pytest.mark.parametrize("fate", FATES)
async def test_a_dead_letter_is_opened_for_what_needs_a_person(store, fate):
    finished = await settle(store, FATES[fate])
    reason = why_dead(finished.operation)
    letters = await store.dead_letters()
    if reason is None:
        assert (finished.dead_letter, letters) == (None, [])
        assert "on_dead_letter_opened" not in await names(store)
        return
    (letter,) = letters
    assert letter.letter_id == finished.dead_letter == f"dead-{finished.operation.operation_id}"
    assert (letter.kind, letter.session_id, letter.reason) == ("operation", "room", reason)
    assert (letter.operation, letter.delivery) == (finished.operation, None)
    assert (letter.closed_at, letter.note) == (None, "")
    assert letter.opened_at == pytest.approx(finished.operation.settled_at, abs=1e-3)
    event = await the_event(store, "on_dead_letter_opened")
    assert (event.operation_id, event.reason) == (finished.operation.operation_id, reason)


async def test_the_dead_letter_counts_the_attempts(store):
    claim = await run(store)
    name = claim.operation.operation_id
    await store.record_attempt(name, fence=1, wait_secs=0.1, outcome=BUSY, http_status=None)
    await store.finish(name, BUSY, fence=1)
    (letter,) = await store.dead_letters()
    assert letter.reason == "rate_limited after 2 attempts"


@pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS)
async def test_results_come_back_as_they_were(store, another, value):
    claim = await run(store)
    name = claim.operation.operation_id
    finished = await store.finish(name, outcomes.succeeded(value), fence=1)
    assert exactly(finished.operation.result) == exactly(value)
    assert exactly((await another.operation(name)).result) == exactly(value)
    (delivery,) = await another.open_deliveries("room")
    assert exactly(delivery.operations[0].result) == exactly(value)


async def test_silence_is_kept(store):
    claim = await run(store)
    finished = await store.finish(claim.operation.operation_id, DONE, fence=1, silent=True)
    assert finished.operation.silent is True
    assert (await store.operation(claim.operation.operation_id)).silent is True


@pytest.mark.parametrize("second", [DONE, BROKEN, CANCELLED, TIMED_OUT], ids=lambda o: str(o.status))
@pytest.mark.parametrize("first", [DONE, BROKEN, CANCELLED], ids=lambda o: str(o.status))
async def test_the_first_end_stands(store, first, second):
    finished = await settle(store, first)
    log = await names(store)
    assert await store.finish(finished.operation.operation_id, second) is None
    assert await store.finish(finished.operation.operation_id, second, fence=1) is None
    assert await store.operation(finished.operation.operation_id) == finished.operation
    assert await names(store) == log


@pytest.mark.parametrize("second", [BROKEN, CANCELLED, TIMED_OUT], ids=lambda o: str(o.status))
@pytest.mark.parametrize("first", ["timed_out", "unknown"])
async def test_only_a_success_corrects(store, first, second):
    finished = await settle(store, OUTCOMES[first])
    assert await store.finish(finished.operation.operation_id, second, fence=1) is None
    assert await store.operation(finished.operation.operation_id) == finished.operation


async def test_an_end_under_an_old_fence_is_none(store):
    old, again = await run_again(store)
    name = old.operation.operation_id
    assert await store.finish(name, DONE, fence=old.fence) is None
    assert await store.operation(name) == again.operation
    assert await store.deliveries("room") == []
    assert (await store.finish(name, BROKEN, fence=again.fence)).operation.error == "It broke."


async def test_a_decision_from_outside_needs_no_fence(store):
    _, again = await run_again(store)
    finished = await store.finish(again.operation.operation_id, CANCELLED)
    assert finished.operation.status is OperationStatus.CANCELLED
    assert await store.finish(again.operation.operation_id, DONE, fence=again.fence) is None


async def test_what_never_started_can_end(store):
    new = await accept(store)
    finished = await store.finish(new.operation_id, CANCELLED)
    assert (finished.operation.attempts, finished.operation.started_at) == (0, None)
    detail = (await the_event(store, "on_operation_settled")).detail
    assert (detail["attempt"], detail["http_status"]) == (0, None)
    assert await store.claim(new.operation_id, owner="worker") is None


async def test_an_adopted_one_ends_without_a_fence(store):
    new = await accept(store, operation(adopted=True))
    assert (await store.finish(new.operation_id, DONE)).operation.result == DONE.result


async def test_what_is_not_there_does_not_end(store):
    assert await store.finish("nowhere", DONE) is None
    assert await names(store) == []


@pytest.mark.parametrize("round_", range(3))
async def test_when_an_end_and_a_cancel_come_at_once_one_of_them_stands(store, another, round_):
    claim = await run(store)
    name = claim.operation.operation_id
    ends = [store.finish(name, DONE, fence=1), another.finish(name, CANCELLED)]
    ends += [store.finish(name, BROKEN, fence=1), another.finish(name, CANCELLED)]
    answers = [answer for answer in await asyncio.gather(*ends) if answer is not None]
    assert [answer.operation for answer in answers] == [await store.operation(name)]
    assert len(await events(store, "on_operation_settled")) == 1
    assert len(await store.deliveries("room")) == 1
