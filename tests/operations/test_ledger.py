# SPDX-License-Identifier: BSD-2-Clause
"""Every operation is settled exactly once, whatever its handler, the store or the clock do."""

import asyncio

import pytest

from pipecat_async_tools import LocalExecutor, OperationStatus, StoreError, ToolError
from pipecat_async_tools.operations import outcome
from pipecat_async_tools.testing import virtual_time
from tests.operations.ledgers import Books, now
from tests.stores import FailingStore


async def never(op):
    await asyncio.Event().wait()


def ignoring_cancellation(secs, result):
    async def stubborn(op):
        end = now() + secs
        while now() < end:
            try:
                await asyncio.sleep(end - now())
            except asyncio.CancelledError:
                continue
        return result

    return stubborn


class TestEveryHandlerSettles:
    async def settled(self, handler, **fields):
        books = Books(handler)
        accepted = await books.accept(**fields)
        await asyncio.sleep(100)
        [(at, told)] = books.settled
        assert await books.last(accepted) == told
        return at, told

    @pytest.mark.parametrize("result", [{"a": 1}, None, [], 0, False, ""], ids=repr)
    @virtual_time
    async def test_one_that_returns(self, result):
        async def handler(op):
            await asyncio.sleep(2)
            return result

        at, told = await self.settled(handler)
        assert (at, told.status, told.result) == (2.0, OperationStatus.SUCCEEDED, result)
        times = (told.started_at - told.accepted_at, told.settled_at - told.accepted_at)
        assert (*times, told.attempts) == (0.0, 2.0, 1)

    @pytest.mark.parametrize("error", [ToolError("no"), ValueError("no"), ExceptionGroup("no", [OSError()])])
    @virtual_time
    async def test_one_that_raises(self, error):
        async def handler(op):
            raise error

        _, told = await self.settled(handler)
        assert told.status is OperationStatus.FAILED
        assert told.error == str(error)

    @virtual_time
    async def test_one_that_returns_what_cannot_be_written(self):
        async def handler(op):
            return object()

        _, told = await self.settled(handler)
        assert told.status is OperationStatus.FAILED
        assert "object" in told.error

    @virtual_time
    async def test_one_that_never_ends(self):
        at, told = await self.settled(never, timeout_secs=7.0)
        assert (at, told.status) == (7.0, OperationStatus.UNKNOWN)

    @virtual_time
    async def test_one_that_ignores_its_cancellation(self):
        at, told = await self.settled(ignoring_cancellation(500, None), timeout_secs=7.0)
        assert (at, told.status) == (7.0, OperationStatus.UNKNOWN)

    @virtual_time
    async def test_one_that_never_ends_and_may_be_repeated(self):
        books = Books(never, idempotent=True)
        await books.accept(timeout_secs=7.0, idempotent=True)
        await asyncio.sleep(100)
        assert books.ends == [(7.0, "timed_out")]

    @virtual_time
    async def test_one_that_cancels_itself(self):
        async def handler(op):
            raise asyncio.CancelledError

        _, told = await self.settled(handler)
        assert told.status is OperationStatus.FAILED
        assert "cancelled itself" in told.error

    @virtual_time
    async def test_one_whose_inner_task_was_cancelled(self):
        async def handler(op):
            inner = asyncio.create_task(asyncio.sleep(10))
            asyncio.get_running_loop().call_later(1, inner.cancel)
            await inner

        at, told = await self.settled(handler)
        assert (at, told.status) == (1.0, OperationStatus.FAILED)

    @virtual_time
    async def test_one_that_is_called_with_arguments_it_does_not_take(self):
        async def handler(op):
            return "done"

        _, told = await self.settled(handler, arguments={"day": "friday"})
        assert told.status is OperationStatus.FAILED


class TestContext:
    @virtual_time
    async def test_a_handler_knows_its_operation(self):
        seen = []

        async def handler(op, day):
            await asyncio.sleep(4)
            seen.append((op, op.remaining_secs(), day))

        books = Books(handler)
        accepted = await books.accept(
            arguments={"day": "friday"}, timeout_secs=10.0, tool_call_id="call-9", turn_id="turn-3"
        )
        await asyncio.sleep(5)
        [(op, remaining, day)] = seen
        assert (op.operation_id, op.tool_call_id, op.turn_id) == (accepted.operation_id, "call-9", "turn-3")
        assert (op.session_id, op.batch_id, op.attempt, day) == ("room", "batch-1", 1, "friday")
        assert remaining == pytest.approx(6.0)
        assert accepted.operation_id in op.idempotency_key

    @virtual_time
    async def test_time_spent_in_the_queue_is_time_spent(self):
        remaining = []

        async def handler(op):
            remaining.append(op.remaining_secs())
            await asyncio.sleep(4)

        books = Books(handler, executor=LocalExecutor(max_concurrent=1))
        for _ in range(2):
            await books.accept(timeout_secs=10.0)
        await asyncio.sleep(20)
        assert remaining == pytest.approx([10.0, 6.0])

    @virtual_time
    async def test_nothing_remains_after_the_deadline(self):
        seen = []

        async def handler(op):
            try:
                await asyncio.sleep(50)
            finally:
                seen.append(op.remaining_secs())

        books = Books(handler)
        await books.accept(timeout_secs=5.0)
        await asyncio.sleep(10)
        assert seen == [0.0]


class TestDeadline:
    @virtual_time
    async def test_it_is_absolute_also_for_what_waits_in_the_queue(self):
        books = Books(never, executor=LocalExecutor(max_concurrent=1))
        first = await books.accept(timeout_secs=50.0)
        queued = await books.accept(timeout_secs=5.0)
        await asyncio.sleep(60)
        assert books.ends == [(5.0, "timed_out"), (50.0, "unknown")]
        assert ((await books.last(queued)).attempts, (await books.last(first)).attempts) == (0, 1)

    @virtual_time
    async def test_it_holds_for_what_pipecat_runs(self):
        books = Books()
        accepted = await books.accept(adopted=True, timeout_secs=5.0)
        await asyncio.sleep(6)
        assert (await books.last(accepted)).status is OperationStatus.TIMED_OUT
        assert (await books.last(accepted)).attempts == 1

    @virtual_time
    async def test_it_cancels_the_handler(self):
        cancelled = []

        async def handler(op):
            try:
                await asyncio.sleep(50)
            except asyncio.CancelledError:
                cancelled.append(now())
                raise

        books = Books(handler)
        await books.accept(timeout_secs=5.0)
        await asyncio.sleep(10)
        assert cancelled == [5.0]

    @virtual_time
    async def test_what_has_ended_does_not_time_out(self):
        books = Books()
        await books.accept(timeout_secs=5.0)
        await asyncio.sleep(10)
        assert books.ends == [(0.0, "succeeded")]


class TestOnce:
    @pytest.mark.parametrize("second", [outcome.succeeded(2), outcome.CANCELLED, outcome.timed_out(1)])
    @virtual_time
    async def test_a_second_end_changes_nothing(self, second):
        books = Books()
        accepted = await books.accept(adopted=True)
        await books.ledger.settle(accepted.operation_id, outcome.succeeded(1))
        await books.ledger.settle(accepted.operation_id, second)
        assert books.ends == [(0.0, "succeeded")]
        assert (await books.last(accepted)).result == 1
        assert books.corrected == []

    @pytest.mark.parametrize("first", [outcome.CANCELLED, outcome.failed("no")])
    @virtual_time
    async def test_a_late_success_corrects_neither_a_cancel_nor_a_failure(self, first):
        books = Books()
        accepted = await books.accept(adopted=True)
        await books.ledger.settle(accepted.operation_id, first)
        await books.ledger.settle(accepted.operation_id, outcome.succeeded(1))
        assert (await books.last(accepted)).status is first.status
        assert books.corrected == []

    @virtual_time
    async def test_two_ends_at_the_same_time_are_one(self):
        books = Books()
        accepted = await books.accept(adopted=True)
        await asyncio.gather(
            *(books.ledger.settle(accepted.operation_id, outcome.succeeded(i)) for i in range(5))
        )
        assert len(books.settled) == 1

    @virtual_time
    async def test_a_late_success_corrects_a_time_out_once(self):
        books = Books(ignoring_cancellation(20, "ten"))
        accepted = await books.accept(timeout_secs=5.0)
        await asyncio.sleep(30)
        assert books.ends == [(5.0, "unknown")]
        [(at, corrected)] = books.corrected
        assert (at, corrected.status, corrected.result) == (20.0, OperationStatus.SUCCEEDED, "ten")
        assert corrected.late and corrected.error is None
        assert await books.last(accepted) == corrected
        await books.ledger.settle(accepted.operation_id, outcome.succeeded("eleven"))
        assert len(books.corrected) == 1
        assert (await books.last(accepted)).result == "ten"

    @virtual_time
    async def test_a_late_failure_corrects_nothing(self):
        books = Books()
        accepted = await books.accept(adopted=True, timeout_secs=5.0)
        await asyncio.sleep(6)
        await books.ledger.settle(accepted.operation_id, outcome.failed("no"))
        assert books.corrected == []
        assert (await books.last(accepted)).status is OperationStatus.TIMED_OUT


class TestCancel:
    @virtual_time
    async def test_before_it_started(self):
        ran = []

        async def handler(op):
            ran.append(op.operation_id)
            await asyncio.sleep(10)

        books = Books(handler, executor=LocalExecutor(max_concurrent=1))
        first = await books.accept()
        queued = await books.accept()
        await asyncio.sleep(1)
        assert await books.ledger.cancel(queued.operation_id)
        await asyncio.sleep(50)
        assert ran == [first.operation_id]
        assert books.ends == [(1.0, "cancelled"), (10.0, "succeeded")]

    @virtual_time
    async def test_while_it_runs(self):
        books = Books(never)
        accepted = await books.accept()
        await asyncio.sleep(1)
        assert await books.ledger.cancel(accepted.operation_id)
        await asyncio.sleep(50)
        assert books.ends == [(1.0, "cancelled")]
        assert (await books.last(accepted)).status is OperationStatus.CANCELLED

    @virtual_time
    async def test_one_that_ignores_it_is_cancelled_all_the_same_and_its_result_is_not_told(self):
        books = Books(ignoring_cancellation(10, "ten"))
        accepted = await books.accept()
        await asyncio.sleep(1)
        assert await books.ledger.cancel(accepted.operation_id)
        await asyncio.sleep(50)
        assert books.ends == [(1.0, "cancelled")]
        assert books.corrected == []

    @virtual_time
    async def test_what_has_ended_cannot_be_cancelled(self):
        books = Books()
        accepted = await books.accept()
        await asyncio.sleep(1)
        assert not await books.ledger.cancel(accepted.operation_id)
        assert (await books.last(accepted)).status is OperationStatus.SUCCEEDED

    @virtual_time
    async def test_what_is_unknown_cannot_be_cancelled(self):
        assert not await Books().ledger.cancel("op-nowhere")

    @virtual_time
    async def test_twice_is_once(self):
        books = Books(never)
        accepted = await books.accept()
        assert await books.ledger.cancel(accepted.operation_id)
        assert not await books.ledger.cancel(accepted.operation_id)
        assert len(books.settled) == 1


class TestProgress:
    @virtual_time
    async def test_the_latest_is_kept_and_told(self):
        async def handler(op):
            await op.progress("1 of 2 done")
            await op.progress("2 of 2 done")
            await asyncio.sleep(5)

        books = Books(handler)
        accepted = await books.accept()
        await asyncio.sleep(1)
        assert (await books.last(accepted)).progress == "2 of 2 done"
        assert not (await books.last(accepted)).is_settled
        assert books.progressed == ["1 of 2 done", "2 of 2 done"]

    @virtual_time
    async def test_after_the_end_it_is_ignored(self):
        books = Books()
        accepted = await books.accept(adopted=True)
        await books.ledger.settle(accepted.operation_id, outcome.succeeded(1))
        await books.ledger.progress(accepted.operation_id, "nearly")
        assert books.progressed == []
        assert (await books.last(accepted)).status is OperationStatus.SUCCEEDED
        assert books.notebook.names[-1] == "on_operation_settled"

    @virtual_time
    async def test_it_does_not_disarm_the_deadline(self):
        async def handler(op):
            while True:
                await op.progress("still at it")
                await asyncio.sleep(1)

        books = Books(handler)
        await books.accept(timeout_secs=5.0)
        await asyncio.sleep(10)
        assert books.ends == [(5.0, "unknown")]


class TestStop:
    @virtual_time
    async def test_what_runs_may_go_on_for_a_while(self):
        async def handler(op):
            await asyncio.sleep(3)
            return "done"

        books = Books(handler)
        await books.accept()
        await books.ledger.stop(10.0)
        assert now() == 3.0
        assert books.ends == [(3.0, "succeeded")]

    @virtual_time
    async def test_but_no_longer_than_that(self):
        books = Books(never, executor=LocalExecutor(max_concurrent=1))
        running, queued = await books.accept(), await books.accept()
        await books.ledger.stop(2.0)
        assert now() == pytest.approx(2.0, abs=0.1)
        assert (await books.last(running)).status is OperationStatus.UNKNOWN
        # Whoever comes next may start it.
        assert (await books.last(queued)).status is OperationStatus.ACCEPTED

    @virtual_time
    async def test_one_that_ignores_it_is_left_behind(self):
        books = Books(ignoring_cancellation(500, "ten"))
        accepted = await books.accept(timeout_secs=900.0)
        await books.ledger.stop(2.0)
        assert now() < 4.0
        assert (await books.last(accepted)).status is OperationStatus.UNKNOWN

    @virtual_time
    async def test_how_far_an_adopted_one_got_is_not_known(self):
        books = Books()
        accepted = await books.accept(adopted=True)
        await books.ledger.stop(2.0)
        assert (await books.last(accepted)).status is OperationStatus.UNKNOWN

    @virtual_time
    async def test_nothing_times_out_afterwards(self):
        books = Books(never)
        await books.accept(timeout_secs=30.0)
        await asyncio.sleep(1)
        await books.ledger.stop(0.0)
        await asyncio.sleep(100)
        assert [status for _, status in books.ends] == ["unknown"]

    @virtual_time
    async def test_a_store_that_does_not_answer_does_not_hold_it_for_ever(self):
        store = FailingStore()
        books = Books(never, store=store)
        await books.accept()
        await asyncio.sleep(1)
        store.hangs["finish"] = 1000
        await books.ledger.stop(2.0)
        assert now() < 15.0


class TestStoreTrouble:
    @pytest.fixture
    def store(self):
        return FailingStore()

    @virtual_time
    async def test_what_could_not_be_written_down_is_not_started(self, store):
        ran = []

        async def handler(op):
            ran.append(op)

        books = Books(handler, store=store)
        store.failures["accept"] = 1
        with pytest.raises(StoreError, match="the disk is full"):
            await books.accept()
        await asyncio.sleep(50)
        assert (ran, books.notebook.names, books.ledger.operations) == ([], [], ())

    @virtual_time
    async def test_a_store_that_hangs_is_given_up(self, store):
        books = Books(store=store)
        store.hangs["accept"] = 1
        with pytest.raises(StoreError, match="did not accept an operation within 5 s"):
            await books.accept()
        assert now() == 5.0

    @pytest.mark.parametrize("step", ["claim", "finish"])
    @pytest.mark.parametrize("trouble", ["failures", "hangs"])
    @virtual_time
    async def test_what_must_be_written_is_tried_again_until_it_is(self, store, step, trouble):
        books = Books(store=store)
        getattr(store, trouble)[step] = 3
        accepted = await books.accept(timeout_secs=300.0)
        await asyncio.sleep(100)
        [(at, told)] = books.settled
        assert told.status is OperationStatus.SUCCEEDED
        assert at > 0.3
        assert await books.last(accepted) == told

    @virtual_time
    async def test_nothing_is_told_before_it_is_written(self, store):
        books = Books(store=store)
        store.failures["finish"] = 1000
        await books.accept(timeout_secs=30.0)
        await asyncio.sleep(20)
        assert books.settled == []
        store.failures.clear()
        await asyncio.sleep(20)
        assert [status for _, status in books.ends] == ["succeeded"]

    @virtual_time
    async def test_it_does_not_try_again_and_again_without_a_breath(self, store):
        books = Books(store=store)
        store.failures["finish"] = 1000
        await books.accept(timeout_secs=900.0)
        await asyncio.sleep(100)
        assert 10 < 1000 - store.failures["finish"] < 40

    @virtual_time
    async def test_a_correction_is_tried_again_too(self, store):
        books = Books(ignoring_cancellation(10, "ten"), store=store)
        store.failures["correct"] = 3
        await books.accept(timeout_secs=5.0)
        await asyncio.sleep(60)
        assert len(books.corrected) == 1

    @pytest.mark.parametrize("trouble", ["failures", "hangs"])
    @virtual_time
    async def test_progress_that_cannot_be_written_does_not_fail_the_work(self, store, trouble):
        async def handler(op):
            await op.progress("1 of 2 done")
            return "done"

        books = Books(handler, store=store)
        getattr(store, trouble)["record_progress"] = 1
        await books.accept()
        await asyncio.sleep(20)
        assert [status for _, status in books.ends] == ["succeeded"]
        assert books.progressed == []

    @virtual_time
    async def test_a_claim_that_answers_late_does_not_bring_back_what_was_cancelled(self, store):
        books = Books(never, store=store)
        store.delays["claim"] = 2.0
        accepted = await books.accept()
        await asyncio.sleep(1)
        await books.ledger.settle(accepted.operation_id, outcome.CANCELLED)
        await asyncio.sleep(5)
        assert books.ledger.get(accepted.operation_id).status is OperationStatus.CANCELLED
        assert "on_operation_started" not in books.notebook.names

    @virtual_time
    async def test_progress_that_answers_late_does_not_bring_back_what_has_ended(self, store):
        books = Books(store=store)
        store.delays["record_progress"] = 2.0
        accepted = await books.accept(adopted=True)
        books.ledger.progress_soon(accepted.operation_id, "1 of 2 done")
        await asyncio.sleep(1)
        await books.ledger.settle(accepted.operation_id, outcome.succeeded(1))
        await asyncio.sleep(5)
        assert books.ledger.get(accepted.operation_id).status is OperationStatus.SUCCEEDED
        assert books.progressed == []


@virtual_time
async def test_every_step_is_an_event_with_its_ids():
    async def handler(op):
        await op.progress("half")

    books = Books(handler)
    accepted = await books.accept(intent_key="tool:{}")
    await asyncio.sleep(1)
    assert books.notebook.names == [
        "on_operation_accepted",
        "on_operation_started",
        "on_operation_progressed",
        "on_operation_settled",
    ]
    for event in books.notebook.events:
        assert event.operation_id == accepted.operation_id
        assert (event.session_id, event.turn_id, event.batch_id) == ("room", "turn-1", "batch-1")
        assert (event.tool, event.intent_key) == ("tool", "tool:{}")
    assert books.notebook.events[-1].reason == "succeeded"


@virtual_time
async def test_the_ledger_lists_its_operations_oldest_first():
    books = Books()
    accepted = [await books.accept() for _ in range(3)]
    assert [o.operation_id for o in books.ledger.operations] == [o.operation_id for o in accepted]
    assert books.ledger.get("op-nowhere") is None
