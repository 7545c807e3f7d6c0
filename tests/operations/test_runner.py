# SPDX-License-Identifier: BSD-2-Clause
"""One operation from its claim to its end: attempts, lost claims, a store that is away, a shutdown."""

import asyncio

import pytest
from loguru import logger

from pipecat_async_tools import OperationStatus, Retry, ToolError, async_tool
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.runner import Runner
from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation
from tests.stores import FailingStore, memory_store

PATIENT = Retry(max_attempts=3, initial_wait_secs=1.0)


class Refused(Exception):
    """What a client raises for an answer with a status."""

    def __init__(self, status, headers=None):
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = headers or {}


def now():
    return asyncio.get_running_loop().time()


class Bench:
    """A runner whose only tool is the handler given."""

    def __init__(self, handler, *, store=None, **options):
        self.store = store or memory_store()
        self.started, self.attempted, self.settled = [], [], []
        async_tool(**options)(handler)
        self.spec = spec_of(handler)
        self.runner = Runner(
            store=self.store,
            owner="owner",
            tools={"tool": self.spec},
            settle=self.settle,
            on_started=self.started.append,
            on_attempted=self.attempted.append,
            on_progress=self.progress,
        )

    async def settle(self, operation_id, outcome, *, fence=None, http_status=None):
        self.settled.append((round(now(), 3), outcome, http_status))
        await self.store.finish(operation_id, outcome, fence=fence, http_status=http_status)

    async def progress(self, operation_id, text):
        await self.store.record_progress(operation_id, text)

    async def accept(self, **fields):
        await self.store.renew("owner", 1000.0)
        fields = {"tool": "tool", "idempotent": self.spec.idempotent, **fields}
        (accepted,) = await self.store.accept([operation(**fields)], owner="owner")
        return accepted.operation.operation_id

    async def run(self, **fields):
        operation_id = await self.accept(**fields)
        await self.runner.run(operation_id)
        return await self.store.operation(operation_id)


def failing(*errors, made=None):
    """A handler that raises these, one an attempt, and then succeeds."""
    left = list(errors)
    made = made if made is not None else []

    async def handler(op):
        made.append((round(now(), 3), op.attempt, op.idempotency_key))
        if left:
            raise left.pop(0)
        return {"attempt": op.attempt}

    return handler


class TestAttempts:
    @virtual_time
    async def test_one_that_works(self):
        bench = Bench(failing())
        told = await bench.run()
        assert (told.status, told.result, told.attempts) == (OperationStatus.SUCCEEDED, {"attempt": 1}, 1)
        assert [o.status for o in bench.started] == [OperationStatus.RUNNING]

    @virtual_time
    async def test_what_is_safe_is_repeated_under_one_idempotency_key(self):
        made = []
        bench = Bench(failing(Refused(503), ConnectionRefusedError("no"), made=made), retry=PATIENT)
        told = await bench.run()
        assert (told.status, told.attempts, told.result) == (OperationStatus.SUCCEEDED, 3, {"attempt": 3})
        assert [attempt for _, attempt, _ in made] == [1, 2, 3]
        assert len({key for *_, key in made}) == 1
        assert 1.0 <= made[1][0] <= 1.6 and made[2][0] - made[1][0] >= 2.0

    @virtual_time
    async def test_each_failed_attempt_is_written_down_with_its_class_and_wait(self):
        bench = Bench(failing(Refused(503)), retry=PATIENT)
        await bench.run()
        events = [line.event for line in await bench.store.events()]
        (attempted,) = [event for event in events if event.name == "on_operation_attempted"]
        assert attempted.reason == "unavailable"
        assert attempted.detail["attempt"] == 1
        assert attempted.detail["http_status"] == 503
        assert 1.0 <= attempted.detail["wait_secs"] <= 1.6
        assert [o.attempts for o in bench.attempted] == [2]

    @virtual_time
    async def test_used_up_attempts_fail_as_the_last_one_did_and_a_person_may_replay_them(self):
        bench = Bench(failing(*[Refused(503)] * 3), retry=PATIENT)
        told = await bench.run()
        assert (told.status, told.outcome_class, told.attempts) == (
            OperationStatus.FAILED,
            "unavailable",
            3,
        )
        assert bench.settled[0][2] == 503
        (letter,) = await bench.store.dead_letters()
        assert letter.operation.operation_id == told.operation_id

    @pytest.mark.parametrize("error", [ToolError("no"), Refused(404), KeyError("bug")], ids=repr)
    @virtual_time
    async def test_a_no_and_a_bug_are_final(self, error):
        made = []
        told = await Bench(failing(error, made=made), retry=PATIENT).run()
        assert told.status is OperationStatus.FAILED
        assert len(made) == 1

    @virtual_time
    async def test_what_may_have_taken_effect_is_unknown_and_not_repeated(self):
        made = []
        told = await Bench(failing(TimeoutError("no answer"), made=made), retry=PATIENT).run()
        assert (told.status, told.outcome_class) == (OperationStatus.UNKNOWN, "ambiguous")
        assert "could not be confirmed" in told.error
        assert len(made) == 1

    @virtual_time
    async def test_it_is_repeated_where_that_is_declared_harmless(self):
        told = await Bench(failing(TimeoutError()), retry=PATIENT, idempotent=True).run()
        assert (told.status, told.attempts) == (OperationStatus.SUCCEEDED, 2)

    @virtual_time
    async def test_a_busy_service_is_left_alone_for_as_long_as_it_asks(self):
        made = []
        bench = Bench(failing(Refused(429, {"Retry-After": "7"}), made=made), retry=PATIENT)
        told = await bench.run()
        assert told.status is OperationStatus.SUCCEEDED
        assert 7.0 <= made[1][0] <= 8.0

    @virtual_time
    async def test_a_wait_past_the_deadline_fails_at_once(self):
        bench = Bench(failing(Refused(429, {"Retry-After": "60"})), retry=PATIENT)
        told = await bench.run(timeout_secs=30.0)
        assert (told.status, told.outcome_class) == (OperationStatus.FAILED, "rate_limited")
        assert bench.settled[0][0] == 0.0


class TestClaims:
    @virtual_time
    async def test_arguments_that_no_longer_fit_are_a_failure(self):
        made = []

        async def handler(op, day: int):
            made.append(day)

        told = await Bench(handler).run(arguments={"date": "friday"})
        assert told.status is OperationStatus.FAILED
        assert "handler was called with wrong arguments" in told.error
        assert made == []

    @virtual_time
    async def test_a_tool_that_is_not_here_is_left_to_others_and_named_once(self):
        lines = []
        sink = logger.add(lambda message: lines.append(str(message)), level="ERROR")
        bench = Bench(failing())
        for _ in range(2):
            told = await bench.run(tool="elsewhere", batch_id="b", intent_key="")
            assert (told.status, told.attempts) == (OperationStatus.ACCEPTED, 0)
        logger.remove(sink)
        assert len(lines) == 1 and "elsewhere" in lines[0]

    @virtual_time
    async def test_what_was_settled_or_never_was_is_not_run(self):
        made = []
        bench = Bench(failing(made=made))
        operation_id = await bench.accept()
        await bench.store.finish(operation_id, outcomes.CANCELLED)
        await bench.runner.run(operation_id)
        await bench.runner.run("op-nowhere")
        assert made == [] and bench.settled == []

    @virtual_time
    async def test_a_lost_claim_ends_quietly(self):
        made = []
        bench = Bench(failing(Refused(503), made=made), retry=PATIENT)
        operation_id = await bench.accept()
        record_attempt = bench.store.record_attempt

        async def cancelled_meanwhile(*args, **kwargs):
            await bench.store.finish(operation_id, outcomes.CANCELLED)
            return await record_attempt(*args, **kwargs)

        bench.store.record_attempt = cancelled_meanwhile
        await bench.runner.run(operation_id)
        assert len(made) == 1 and bench.settled == [] and bench.attempted == []

    @virtual_time
    async def test_a_store_that_is_away_is_asked_until_it_is_back(self):
        store = FailingStore()
        store.failures["claim"] = 3
        bench = Bench(failing(), store=store)
        told = await bench.run()
        assert told.status is OperationStatus.SUCCEEDED
        assert bench.settled[0][0] == pytest.approx(0.1 + 0.2 + 0.4)

    @virtual_time
    async def test_a_store_that_hangs_is_not_waited_for(self):
        store = FailingStore()
        store.hangs["claim"] = 1
        bench = Bench(failing(), store=store)
        assert (await bench.run()).status is OperationStatus.SUCCEEDED
        assert bench.settled[0][0] == pytest.approx(5.1)

    @virtual_time
    async def test_what_was_run_before_has_only_the_rest_of_its_time(self):
        left = []

        async def handler(op):
            left.append(op.remaining_secs())

        bench = Bench(handler, idempotent=True)
        operation_id = await bench.accept(timeout_secs=30.0)
        await bench.store.renew("dead", 5.0)
        await bench.store.claim(operation_id, owner="dead")
        await asyncio.sleep(12.0)
        await bench.store.recover()
        await bench.runner.run(operation_id)
        assert left == [pytest.approx(18.0)]


class TestShutdown:
    async def cancelled(self, bench, after_secs, **fields):
        operation_id = await bench.accept(**fields)
        running = asyncio.create_task(bench.runner.run(operation_id))
        await asyncio.sleep(after_secs)
        running.cancel()
        await asyncio.wait([running])
        return await bench.store.operation(operation_id)

    @virtual_time
    async def test_how_far_a_running_one_got_is_not_known(self):
        async def handler(op):
            await asyncio.sleep(60)

        told = await self.cancelled(Bench(handler), 1.0)
        assert (told.status, told.error) == (OperationStatus.UNKNOWN, outcomes.ABANDONED.error)

    @virtual_time
    async def test_one_that_may_be_repeated_is_left_to_whoever_comes_next(self):
        async def handler(op):
            await asyncio.sleep(60)

        told = await self.cancelled(Bench(handler, idempotent=True), 1.0)
        assert told.status is OperationStatus.RUNNING

    @virtual_time
    async def test_between_two_attempts_it_has_failed_and_can_be_replayed(self):
        retry = Retry(max_attempts=2, initial_wait_secs=20.0)
        bench = Bench(failing(Refused(503)), retry=retry)
        told = await self.cancelled(bench, 1.0)
        assert (told.status, told.outcome_class) == (OperationStatus.FAILED, "unavailable")
        assert len(await bench.store.dead_letters()) == 1

    @virtual_time
    async def test_an_outcome_on_its_way_into_the_store_arrives(self):
        bench = Bench(failing())
        finish = bench.store.finish

        async def slowly(*args, **kwargs):
            await asyncio.sleep(2.0)
            return await finish(*args, **kwargs)

        bench.store.finish = slowly
        told = await self.cancelled(bench, 1.0)
        assert (told.status, told.result) == (OperationStatus.SUCCEEDED, {"attempt": 1})

    @virtual_time
    async def test_a_store_that_stays_away_does_not_keep_it_for_ever(self):
        bench = Bench(failing())

        async def never(*args, **kwargs):
            await asyncio.Event().wait()

        bench.store.finish = never
        running = asyncio.create_task(bench.runner.run(await bench.accept()))
        await asyncio.sleep(1.0)
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([running], timeout=1.0)
        assert running.done()
