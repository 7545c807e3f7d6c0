# SPDX-License-Identifier: BSD-2-Clause
"""An owner is kept alive whatever the store does, and what dead ones left behind is run again."""

import asyncio

import pytest
from loguru import logger

from pipecat_async_tools import OperationStatus, StoreError, async_tool
from pipecat_async_tools.operations.outcome import ABANDONED
from pipecat_async_tools.operations.sweeper import Sweeper
from pipecat_async_tools.operations.tool import specs_by_name
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation
from tests.stores import memory_store

LEASE_SECS = 9.0


@async_tool()
async def book(op):
    """Book."""


def now():
    return round(asyncio.get_running_loop().time(), 3)


class Bench:
    """A sweeper, and what it submitted when."""

    def __init__(self, store=None, **options):
        self.store = store or memory_store()
        self.submitted = []
        self.sweeper = Sweeper(
            store=self.store,
            owner="owner",
            lease_secs=LEASE_SECS,
            tools=specs_by_name([book]),
            submit=self.submit,
            **options,
        )

    async def submit(self, operation):
        self.submitted.append((now(), operation.operation_id))

    async def accept(self, *, owner="other", **fields):
        fields = {"tool": "book", "timeout_secs": 1000.0, "batch_id": f"batch-{owner}", **fields}
        (accepted,) = await self.store.accept([operation(**fields)], owner=owner)
        return accepted.operation.operation_id

    async def die_running(self, **fields):
        """Leave an operation behind whose owner is dead in two seconds."""
        await self.store.renew("dead", 2.0)
        operation_id = await self.accept(owner="dead", **fields)
        await self.store.claim(operation_id, owner="dead")
        return operation_id


def unreliable(store, name, error=None, *, hangs=False, times=10**6):
    """Make a method of a store fail or hang, and return the list of when it was asked."""
    method, asked = getattr(store, name), []

    async def call(*args, **kwargs):
        asked.append(now())
        if len(asked) <= times:
            if hangs:
                await asyncio.Event().wait()
            raise error
        return await method(*args, **kwargs)

    setattr(store, name, call)
    return asked


@pytest.fixture
def lines():
    found = []
    sink = logger.add(lambda message: found.append(message.record["message"]), level="INFO")
    yield found
    logger.remove(sink)


class TestLease:
    @virtual_time
    async def test_it_is_kept_for_as_long_as_the_sweeper_runs(self):
        bench = Bench()
        await bench.sweeper.start()
        await asyncio.sleep(100)
        assert await bench.store.hold_session("room", owner="owner") == 1
        await bench.sweeper.stop()
        await asyncio.sleep(LEASE_SECS + 0.1)
        with pytest.raises(StoreError):
            await bench.store.hold_session("another", owner="owner")

    @virtual_time
    async def test_one_that_hangs_does_not_make_the_next_one_late(self):
        bench = Bench()
        await bench.sweeper.start()
        asked = unreliable(bench.store, "renew", hangs=True, times=1)
        await asyncio.sleep(13)
        assert asked == [3.0, 6.0, 9.0, 12.0]
        assert await bench.store.hold_session("room", owner="owner") == 1

    @pytest.mark.parametrize("error", [StoreError("away"), RuntimeError("a bug")], ids=repr)
    @virtual_time
    async def test_nothing_that_a_sweep_meets_ends_it(self, error):
        bench = Bench()
        unreliable(bench.store, "recover", error)
        await bench.sweeper.start()
        await asyncio.sleep(100)
        assert await bench.store.hold_session("room", owner="owner") == 1

    @virtual_time
    async def test_an_executor_that_is_away_does_not_end_it_and_is_asked_again(self):
        bench = Bench()
        operation_id = await bench.accept()
        asked = unreliable(bench, "submit", ConnectionError("no queue"), times=1)
        bench.sweeper._submit = bench.submit
        await bench.sweeper.start()
        await asyncio.sleep(30)
        assert len(asked) == 2
        assert [i for _, i in bench.submitted] == [operation_id]

    @virtual_time
    async def test_an_outage_is_said_once_and_so_is_its_end(self, lines):
        bench = Bench()
        await bench.sweeper.start()
        asked = unreliable(bench.store, "renew", StoreError("the disk is on fire"), times=5)
        unreliable(bench.store, "recover", StoreError("the disk is on fire"), times=1)
        await asyncio.sleep(40)
        assert len(asked) > 5
        assert [line for line in lines if "on fire" in line] == [lines[0]]
        assert [line for line in lines if "works again" in line] == [lines[1]]
        assert len(lines) == 2

    @virtual_time
    async def test_one_thing_that_never_works_is_not_said_again_whenever_another_does(self, lines):
        bench = Bench()
        unreliable(bench.store, "recover", StoreError("no such table"))
        await bench.sweeper.start()
        await asyncio.sleep(100)
        assert len(lines) == 1


class TestSweeping:
    @virtual_time
    async def test_what_a_dead_owner_ran_is_run_again_as_soon_as_it_is_found(self):
        bench = Bench()
        operation_id = await bench.die_running(idempotent=True)
        await bench.sweeper.start()
        await asyncio.sleep(LEASE_SECS + 1)
        assert bench.submitted == [(LEASE_SECS, operation_id)]

    @virtual_time
    async def test_what_may_have_taken_effect_is_unknown_instead(self):
        bench = Bench()
        operation_id = await bench.die_running()
        await bench.sweeper.start()
        await asyncio.sleep(LEASE_SECS + 1)
        assert bench.submitted == []
        told = await bench.store.operation(operation_id)
        assert (told.status, told.error) == (OperationStatus.UNKNOWN, ABANDONED.error)

    @virtual_time
    async def test_what_nobody_claimed_is_run_here_after_a_lease_and_only_once(self):
        bench = Bench()
        await bench.sweeper.start()
        await asyncio.sleep(1)
        operation_id = await bench.accept()
        await asyncio.sleep(100)
        # It waits for its turn here: it is overdue at every sweep.
        assert bench.submitted == [(2 * LEASE_SECS, operation_id)]

    @virtual_time
    async def test_what_was_started_and_came_back_is_run_again(self):
        bench = Bench()
        operation_id = await bench.accept(idempotent=True)
        await bench.sweeper.start()
        await asyncio.sleep(LEASE_SECS + 1)
        await bench.store.renew("dead", 2.0)
        await bench.store.claim(operation_id, owner="dead")
        await asyncio.sleep(LEASE_SECS)
        assert bench.submitted == [(LEASE_SECS, operation_id), (2 * LEASE_SECS, operation_id)]

    @virtual_time
    async def test_what_cannot_be_run_here_is_left_alone(self):
        bench = Bench(session_id="room")
        await bench.accept(tool="elsewhere")
        await bench.accept(session_id="another", batch_id="another")
        mine = await bench.accept(session_id="room", batch_id="mine")
        await bench.sweeper.start()
        await asyncio.sleep(3 * LEASE_SECS)
        assert [i for _, i in bench.submitted] == [mine]

    @virtual_time
    async def test_a_dead_owner_submits_nothing_before_it_is_alive_again(self):
        bench = Bench()
        await bench.accept()
        unreliable(bench.store, "renew", StoreError("away"), times=8)
        await bench.sweeper.start()
        await asyncio.sleep(50)
        (submitted,) = bench.submitted
        assert submitted[0] > 0
        assert await bench.store.hold_session("room", owner="owner") == 1

    @virtual_time
    async def test_a_drain_begins_nothing_and_keeps_the_lease(self):
        bench = Bench()
        await bench.sweeper.start()
        await bench.sweeper.drain()
        await bench.accept()
        await asyncio.sleep(100)
        await bench.sweeper.look()
        assert bench.submitted == []
        assert await bench.store.hold_session("room", owner="owner") == 1
        await bench.sweeper.stop()

    @virtual_time
    async def test_what_is_replayed_is_run_at_a_look_and_nothing_else(self):
        bench = Bench()
        await bench.sweeper.start()
        await asyncio.sleep(1)
        await bench.store.renew("alive", 100.0)
        replayed = await bench.accept(owner="alive")
        await bench.store.claim(replayed, owner="alive")
        await bench.store.finish(replayed, ABANDONED)
        (letter,) = await bench.store.dead_letters()
        await bench.accept(owner="alive", batch_id="fresh")
        await bench.sweeper.look()
        assert bench.submitted == []
        await bench.store.replay(letter.letter_id)
        await bench.sweeper.look()
        await bench.sweeper.look()
        assert bench.submitted == [(1.0, replayed)]


@virtual_time
async def test_nothing_is_remembered_of_what_was_claimed():
    store, submitted = memory_store(), []

    async def claim(operation):
        submitted.append(operation.operation_id)
        await store.claim(operation.operation_id, owner="here")

    async def gone(op):
        """Be gone."""

    tools = specs_by_name([async_tool()(gone)])
    sweeper = Sweeper(store=store, owner="here", lease_secs=1.0, tools=tools, submit=claim)
    await sweeper.start()
    for number in range(20):
        batch = f"batch-{number}"
        await store.accept([operation(tool="gone", batch_id=batch, timeout_secs=9e9)], owner="there")
    await asyncio.sleep(10)
    await sweeper.stop()
    assert len(submitted) == 20
    assert sweeper._submitted == {}
