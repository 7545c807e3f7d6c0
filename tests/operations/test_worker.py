# SPDX-License-Identifier: BSD-2-Clause
"""A process without a call: it runs what nobody runs, keeps deadlines, and gives up what nobody hears."""

import asyncio

import pytest
from loguru import logger

from pipecat_async_tools import ConfigurationError, OperationStatus, StoreError, Worker, async_tool
from pipecat_async_tools.operations.outcome import ABANDONED
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation
from tests.stores import FailingStore, memory_store


def now():
    return round(asyncio.get_running_loop().time(), 3)


def booking(secs=1.0, ran=None, **options):
    """A tool that takes its time."""

    @async_tool(**options)
    async def book(op):
        """Book."""
        if ran is not None:
            ran.append((now(), op.operation_id))
        await asyncio.sleep(secs)
        return "booked"

    return book


async def accept(store, *, owner="bot", **fields):
    fields = {"tool": "book", "timeout_secs": 100.0, "batch_id": f"batch-{now()}", **fields}
    (accepted,) = await store.accept([operation(**fields)], owner=owner)
    return accepted.operation.operation_id


async def dead_letter(store):
    """A dead letter of an operation that became unknown."""
    await store.renew("bot", 1000.0)
    operation_id = await accept(store)
    await store.claim(operation_id, owner="bot")
    await store.finish(operation_id, ABANDONED)
    (letter,) = await store.dead_letters()
    return letter.letter_id, operation_id


async def status_of(store, operation_id):
    return (await store.operation(operation_id)).status


class TestRunning:
    @virtual_time
    async def test_what_a_dead_bot_ran_is_finished(self):
        store = memory_store()
        await store.renew("bot", 5.0)
        operation_id = await accept(store, idempotent=True)
        await store.claim(operation_id, owner="bot")
        async with Worker(store=store, tools=[booking(idempotent=True)]):
            await asyncio.sleep(20)
        told = await store.operation(operation_id)
        assert (told.status, told.result, told.attempts) == (OperationStatus.SUCCEEDED, "booked", 2)
        assert len(await store.open_deliveries("room")) == 1

    @virtual_time
    async def test_what_was_never_started_is_run_whatever_its_session(self):
        store, ran = memory_store(), []
        ids = [await accept(store, session_id=f"room-{n}", batch_id=f"b-{n}") for n in range(3)]
        async with Worker(store=store, tools=[booking(ran=ran)]):
            await asyncio.sleep(20)
        assert sorted(i for _, i in ran) == sorted(ids)

    @virtual_time
    async def test_a_tool_that_is_not_here_is_left_alone(self):
        store = memory_store()
        operation_id = await accept(store, tool="elsewhere")
        async with Worker(store=store, tools=[booking()]):
            await asyncio.sleep(50)
        assert await status_of(store, operation_id) is OperationStatus.ACCEPTED

    @virtual_time
    async def test_two_workers_run_each_operation_once(self):
        store, ran = memory_store(), []
        ids = {await accept(store, batch_id=f"b-{n}") for n in range(5)}
        one, other = (Worker(store=store, tools=[booking(ran=ran)]) for _ in range(2))
        async with one, other:
            await asyncio.sleep(30)
        assert sorted(i for _, i in ran) == sorted(ids)

    @virtual_time
    async def test_what_is_replayed_by_hand_is_run_at_once(self):
        store, ran = memory_store(), []
        letter_id, operation_id = await dead_letter(store)
        worker = Worker(store=store, tools=[booking(ran=ran)])
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(3)
        await store.replay(letter_id)
        await asyncio.sleep(2)
        assert [i for _, i in ran] == [operation_id] and ran[0][0] < 3.5
        assert await status_of(store, operation_id) is OperationStatus.SUCCEEDED
        running.cancel()
        await asyncio.wait([running])


class TestDeadlines:
    @virtual_time
    async def test_a_handler_that_never_ends_is_given_up_at_the_deadline(self):
        store = memory_store()
        operation_id = await accept(store, timeout_secs=40.0)
        async with Worker(store=store, tools=[booking(secs=10_000)], drain_secs=0):
            await asyncio.sleep(39)
            assert await status_of(store, operation_id) is OperationStatus.RUNNING
            await asyncio.sleep(2)
            told = await store.operation(operation_id)
        assert (told.status, told.outcome_class) == (OperationStatus.UNKNOWN, "ambiguous")
        assert "40 seconds" in told.error

    @virtual_time
    async def test_so_is_one_whose_claim_was_answered_too_late(self):
        store = FailingStore()
        operation_id = await accept(store, timeout_secs=40.0)
        store.delays["claim"] = 6.0
        async with Worker(store=store, tools=[booking()]):
            await asyncio.sleep(45)
            assert await status_of(store, operation_id) is OperationStatus.UNKNOWN

    @virtual_time
    async def test_what_is_replayed_has_all_of_its_time_again(self):
        store, ran = memory_store(), []
        letter_id, operation_id = await dead_letter(store)
        await store.replay(letter_id)
        await asyncio.sleep(50)
        async with Worker(store=store, tools=[booking(secs=45, ran=ran)]):
            await asyncio.sleep(46)
        assert await status_of(store, operation_id) is OperationStatus.SUCCEEDED


class TestStopping:
    @virtual_time
    async def test_what_runs_may_go_on_for_a_while_and_nothing_new_is_begun(self):
        store, ran = memory_store(), []
        first = await accept(store)
        worker = Worker(store=store, tools=[booking(secs=25, ran=ran)], lease_secs=5, drain_secs=30)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(6)
        assert [i for _, i in ran] == [first]
        stopping = asyncio.create_task(worker.stop())
        second = await accept(store, batch_id="second")
        # Longer than a lease: it must be kept, or another process would take the operation away.
        await asyncio.sleep(15)
        assert (await store.recover()).finished == ()
        await stopping
        await running
        assert await status_of(store, first) is OperationStatus.SUCCEEDED
        assert await status_of(store, second) is OperationStatus.ACCEPTED

    @virtual_time
    async def test_what_runs_longer_is_unknown(self):
        store = memory_store()
        operation_id = await accept(store)
        async with Worker(store=store, tools=[booking(secs=90)], lease_secs=5, drain_secs=2):
            await asyncio.sleep(6)
        assert await status_of(store, operation_id) is OperationStatus.UNKNOWN

    @virtual_time
    async def test_a_bug_of_the_store_is_raised_and_not_slept_through(self):
        store = memory_store()

        async def watch(session_id=None):
            yield
            raise RuntimeError("a bug")

        store.watch = watch
        with pytest.raises(RuntimeError, match="a bug"):
            await Worker(store=store, tools=[booking()]).run()

    @virtual_time
    async def test_a_store_that_is_away_at_the_start_is_waited_for(self):
        store = memory_store()
        operation_id = await accept(store)
        renew, asked = store.renew, []

        async def away(*args, **kwargs):
            asked.append(now())
            if len(asked) < 4:
                raise StoreError("away")
            await renew(*args, **kwargs)

        store.renew = away
        async with Worker(store=store, tools=[booking()]):
            await asyncio.sleep(40)
        assert await status_of(store, operation_id) is OperationStatus.SUCCEEDED


class TestUndeliverable:
    async def owed(self, store):
        """A delivery whose caller is gone."""
        await store.renew("bot", 1000.0)
        operation_id = await accept(store)
        await store.claim(operation_id, owner="bot")
        return (await store.finish(operation_id, ABANDONED)).delivery.delivery_id

    @virtual_time
    async def test_what_nobody_hears_is_given_up_and_reported_once(self):
        store, reported = memory_store(), []
        delivery_id = await self.owed(store)

        async def report(row):
            reported.append((now(), row.delivery_id))

        options = {"undeliverable_after_secs": 60.0, "on_undeliverable": report}
        async with Worker(store=store, tools=[booking()], **options):
            await asyncio.sleep(50)
            assert reported == []
            await asyncio.sleep(100)
        assert [i for _, i in reported] == [delivery_id]
        (row,) = await store.deliveries("room")
        assert row.state == "undeliverable"

    @virtual_time
    async def test_a_report_that_fails_is_logged_and_the_worker_goes_on(self):
        store, lines = memory_store(), []
        sink = logger.add(lambda message: lines.append(str(message)), level="ERROR")
        delivery_id = await self.owed(store)

        async def report(row):
            raise OSError("no mail server")

        options = {"undeliverable_after_secs": 20.0, "on_undeliverable": report}
        async with Worker(store=store, tools=[booking()], **options):
            await asyncio.sleep(40)
            operation_id = await accept(store)
            await asyncio.sleep(25)
        logger.remove(sink)
        assert [line for line in lines if delivery_id in line and "OSError" in line]
        assert await status_of(store, operation_id) is OperationStatus.SUCCEEDED

    @virtual_time
    async def test_a_report_on_its_way_is_waited_for(self):
        store, reported = memory_store(), []
        await self.owed(store)

        async def report(row):
            await asyncio.sleep(3)
            reported.append(row.delivery_id)

        options = {"undeliverable_after_secs": 20.0, "on_undeliverable": report}
        async with Worker(store=store, tools=[booking()], **options):
            await asyncio.sleep(21)
        assert len(reported) == 1

    @virtual_time
    async def test_without_a_limit_it_waits_for_the_caller(self):
        store = memory_store()
        await self.owed(store)
        async with Worker(store=store, tools=[booking()]):
            await asyncio.sleep(900)
        assert len(await store.open_deliveries("room")) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("lease_secs", 0.5), ("drain_secs", -1), ("undeliverable_after_secs", 0)]
)
def test_a_number_that_cannot_be_is_refused_by_name(name, value):
    with pytest.raises(ConfigurationError, match=f"^{name}={value}: pass seconds"):
        Worker(store=memory_store(), tools=[booking()], **{name: value})


def test_a_url_is_not_a_store():
    with pytest.raises(ConfigurationError, match="store: pass a Store, such as store_from_url"):
        Worker(store="sqlite:///calls.db", tools=[booking()])
