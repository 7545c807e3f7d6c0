# SPDX-License-Identifier: BSD-2-Clause
"""What every store promises. A test module of a store subclasses it and gives a ``store`` factory."""

import asyncio

import pytest

from pipecat_async_tools import Event, OperationStatus, StoreError
from pipecat_async_tools.operations import outcome
from pipecat_async_tools.operations.outcome import Outcome
from tests.builders import operation

DONE = outcome.succeeded({"slot": "10:00"})
ENDS = [
    DONE,
    outcome.failed(RuntimeError("It broke.")),
    outcome.timed_out(30),
    outcome.CANCELLED,
    outcome.ABANDONED,
]
FALSY = [[], {}, 0, False, "", None]


class StoreContract:
    """The promises, one test each. ``store`` is a factory: stores may be bound to their event loop.

    What is stored is read back through the interface alone: a claim returns the record.
    """

    @pytest.fixture
    def store(self):
        """Return a factory of empty stores."""
        raise NotImplementedError

    # Accepting

    async def test_accepting_returns_the_record_with_its_time(self, store):
        store = store()
        await asyncio.sleep(1)
        new = operation(
            arguments={"day": "friday", "hours": [1, 2], "flag": False},
            intent_key="k",
            adopted=True,
            silent=True,
        )
        stored = await store.accept(new)
        assert stored.accepted_at > 0
        assert stored.status is OperationStatus.ACCEPTED
        for name in ("operation_id", "session_id", "turn_id", "batch_id", "tool_call_id", "tool"):
            assert getattr(stored, name) == getattr(new, name)
        assert stored.arguments == new.arguments
        assert (stored.intent_key, stored.adopted, stored.silent) == ("k", True, True)
        assert stored.timeout_secs == new.timeout_secs

    async def test_an_id_is_accepted_once(self, store):
        store = store()
        accepted = await store.accept(operation())
        with pytest.raises(StoreError, match=accepted.operation_id):
            await store.accept(accepted)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda store: store.claim("op-nowhere"),
            lambda store: store.record_progress("op-nowhere", "half"),
            lambda store: store.finish("op-nowhere", DONE),
            lambda store: store.correct("op-nowhere", DONE),
        ],
        ids=["claim", "record_progress", "finish", "correct"],
    )
    async def test_what_was_never_accepted_is_an_error_that_names_it(self, store, ask):
        with pytest.raises(StoreError, match="op-nowhere"):
            await ask(store())

    # Claiming

    async def test_a_claim_moves_it_to_running(self, store):
        store = store()
        accepted = await store.accept(operation())
        await asyncio.sleep(1)
        claim = await store.claim(accepted.operation_id)
        running = claim.operation
        assert (running.status, running.attempts) == (OperationStatus.RUNNING, 1)
        assert running.started_at >= accepted.accepted_at + 1

    async def test_it_is_claimed_once(self, store):
        store = store()
        accepted = await store.accept(operation())
        claims = await asyncio.gather(*(store.claim(accepted.operation_id) for _ in range(5)))
        assert sum(claim is not None for claim in claims) == 1

    @pytest.mark.parametrize("end", ENDS, ids=lambda end: str(end.status))
    async def test_what_is_settled_cannot_be_claimed(self, store, end):
        store = store()
        accepted = await store.accept(operation())
        await store.finish(accepted.operation_id, end)
        assert await store.claim(accepted.operation_id) is None

    # Finishing

    @pytest.mark.parametrize("end", ENDS, ids=lambda end: str(end.status))
    @pytest.mark.parametrize("claimed", [True, False])
    async def test_finishing_settles_it(self, store, end, claimed):
        store = store()
        accepted = await store.accept(operation())
        fence = (await store.claim(accepted.operation_id)).fence if claimed else None
        await asyncio.sleep(1)
        settled = await store.finish(accepted.operation_id, end, fence=fence)
        assert settled.status is end.status
        assert (settled.result, settled.error) == (end.result, end.error)
        assert settled.outcome_class == str(end.outcome_class)
        assert settled.settled_at >= accepted.accepted_at + 1
        assert not settled.late

    @pytest.mark.parametrize("result", FALSY, ids=repr)
    async def test_a_falsy_result_is_kept_as_it_is(self, store, result):
        store = store()
        accepted = await store.accept(operation())
        settled = await store.finish(accepted.operation_id, outcome.succeeded(result))
        assert settled.result == result
        assert type(settled.result) is type(result)

    @pytest.mark.parametrize("first", ENDS, ids=lambda end: str(end.status))
    @pytest.mark.parametrize("second", ENDS, ids=lambda end: str(end.status))
    async def test_the_first_end_stands(self, store, first, second):
        store = store()
        accepted = await store.accept(operation())
        assert await store.finish(accepted.operation_id, first) is not None
        assert await store.finish(accepted.operation_id, second) is None

    async def test_of_two_at_the_same_time_one_wins(self, store):
        store = store()
        accepted = await store.accept(operation())
        ends = await asyncio.gather(*(store.finish(accepted.operation_id, DONE) for _ in range(5)))
        assert sum(end is not None for end in ends) == 1

    async def test_another_fence_is_refused_and_the_right_one_still_holds(self, store):
        store = store()
        accepted = await store.accept(operation())
        claim = await store.claim(accepted.operation_id)
        assert await store.finish(accepted.operation_id, DONE, fence=claim.fence - 1) is None
        assert await store.finish(accepted.operation_id, DONE, fence=claim.fence + 1) is None
        assert await store.finish(accepted.operation_id, DONE, fence=claim.fence) is not None

    async def test_a_fence_without_a_claim_is_refused(self, store):
        store = store()
        accepted = await store.accept(operation())
        assert await store.finish(accepted.operation_id, DONE, fence=1) is None

    async def test_a_decision_from_outside_needs_no_fence(self, store):
        store = store()
        accepted = await store.accept(operation())
        claim = await store.claim(accepted.operation_id)
        assert await store.finish(accepted.operation_id, outcome.CANCELLED) is not None
        assert await store.finish(accepted.operation_id, DONE, fence=claim.fence) is None

    # Progress

    async def test_progress_is_kept_while_it_lives(self, store):
        store = store()
        accepted = await store.accept(operation())
        assert (await store.record_progress(accepted.operation_id, "early")).progress == "early"
        await store.claim(accepted.operation_id)
        running = await store.record_progress(accepted.operation_id, "half")
        assert (running.status, running.progress) == (OperationStatus.RUNNING, "half")
        settled = await store.finish(accepted.operation_id, DONE)
        assert settled.progress == "half"

    async def test_progress_after_the_end_is_ignored(self, store):
        store = store()
        accepted = await store.accept(operation())
        await store.finish(accepted.operation_id, outcome.timed_out(1))
        assert await store.record_progress(accepted.operation_id, "half") is None
        assert (await store.correct(accepted.operation_id, DONE)).progress is None

    # Correcting

    @pytest.mark.parametrize(
        "end", [outcome.timed_out(30), outcome.ABANDONED], ids=lambda end: str(end.status)
    )
    async def test_a_late_success_is_kept_once(self, store, end):
        store = store()
        accepted = await store.accept(operation())
        await store.finish(accepted.operation_id, end)
        await asyncio.sleep(1)
        corrected = await store.correct(accepted.operation_id, DONE)
        assert (corrected.status, corrected.result) == (OperationStatus.SUCCEEDED, DONE.result)
        assert (corrected.error, corrected.outcome_class) == (None, "success")
        assert corrected.late
        assert corrected.settled_at >= accepted.accepted_at + 1
        assert await store.correct(accepted.operation_id, DONE) is None

    @pytest.mark.parametrize(
        "end", [DONE, outcome.failed(RuntimeError("no")), outcome.CANCELLED], ids=lambda end: str(end.status)
    )
    async def test_every_other_end_is_not_corrected(self, store, end):
        store = store()
        accepted = await store.accept(operation())
        await store.finish(accepted.operation_id, end)
        assert await store.correct(accepted.operation_id, DONE) is None

    async def test_what_has_not_ended_is_not_corrected(self, store):
        store = store()
        accepted = await store.accept(operation())
        assert await store.correct(accepted.operation_id, DONE) is None
        await store.claim(accepted.operation_id)
        assert await store.correct(accepted.operation_id, DONE) is None

    @pytest.mark.parametrize("late", [e for e in ENDS if e is not DONE], ids=lambda end: str(end.status))
    async def test_only_a_success_corrects(self, store, late: Outcome):
        store = store()
        accepted = await store.accept(operation())
        await store.finish(accepted.operation_id, outcome.timed_out(30))
        assert await store.correct(accepted.operation_id, late) is None

    # Apart from each other

    async def test_operations_do_not_mix(self, store):
        store = store()
        first, second = await store.accept(operation()), await store.accept(operation())
        await store.finish(first.operation_id, DONE)
        assert await store.claim(second.operation_id) is not None

    async def test_stores_do_not_mix(self, store):
        one, other = store(), store()
        accepted = await one.accept(operation())
        with pytest.raises(StoreError):
            await other.claim(accepted.operation_id)

    # Events

    async def test_events_are_read_back_in_their_order_by_session(self, store):
        store = store()
        events = [
            Event(name="on_operation_accepted", at=1.0, session_id="room", operation_id="op-1", reason="a"),
            Event(name="on_batch_closed", at=1.0, session_id="other", batch_id="batch-1"),
            Event(name="on_delivery_started", at=0.5, session_id="room", delivery_id="d", telling_id="t"),
        ]
        for event in events:
            await store.append(event)
        assert await store.events("room") == [events[0], events[2]]
        assert await store.events("other") == [events[1]]
        assert await store.events("nobody") == []

    async def test_what_was_read_is_not_the_log_itself(self, store):
        store = store()
        await store.append(Event(name="on_batch_closed", at=1.0, session_id="room"))
        (await store.events("room")).clear()
        assert len(await store.events("room")) == 1
