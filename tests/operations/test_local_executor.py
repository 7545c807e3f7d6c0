# SPDX-License-Identifier: BSD-2-Clause
"""Runs operations on the event loop: a bounded number, and none for ever."""

import asyncio

import pytest

from pipecat_async_tools import ConfigurationError, LocalExecutor
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation
from tests.operations.ledgers import now


class Work:
    """What the executor runs: it sleeps, and notes who is at it."""

    def __init__(self, *, secs=1.0):
        self.secs = secs
        self.running = 0
        self.most = 0
        self.started, self.ended, self.cancelled = [], [], []

    async def run(self, operation_id):
        self.started.append(operation_id)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.secs)
        except asyncio.CancelledError:
            self.cancelled.append(operation_id)
            raise
        finally:
            self.running -= 1
        self.ended.append(operation_id)


async def submitted(work, *ids, **options):
    executor = LocalExecutor(**options)
    await executor.start(work.run)
    for operation_id in ids:
        await executor.submit(operation(operation_id=operation_id))
    return executor


@pytest.mark.parametrize("wrong", [0, -3])
def test_no_room_for_any_is_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=f"max_concurrent={wrong}"):
        LocalExecutor(max_concurrent=wrong)


@virtual_time
async def test_submitting_does_not_wait():
    work = Work(secs=50)
    await submitted(work, "a", "b")
    assert now() == 0.0
    assert work.started == []
    await asyncio.sleep(1)
    assert work.started == ["a", "b"]


@virtual_time
async def test_a_bounded_number_run_at_a_time_in_their_order():
    work = Work(secs=1)
    await submitted(work, *"abcde", max_concurrent=2)
    await asyncio.sleep(2.5)
    assert (work.most, work.ended, work.running) == (2, ["a", "b", "c", "d"], 1)
    await asyncio.sleep(1)
    assert work.ended == list("abcde")


@virtual_time
async def test_one_that_raises_gives_its_place_back():
    done = []

    async def run(operation_id):
        if operation_id == "a":
            raise RuntimeError("a bug of ours")
        done.append(operation_id)

    executor = LocalExecutor(max_concurrent=1)
    await executor.start(run)
    for operation_id in "ab":
        await executor.submit(operation(operation_id=operation_id))
    await asyncio.sleep(1)
    assert done == ["b"]


@virtual_time
async def test_cancelling_what_runs():
    work = Work(secs=10)
    executor = await submitted(work, "a", "b")
    await asyncio.sleep(1)
    await executor.cancel("a")
    await asyncio.sleep(20)
    assert (work.cancelled, work.ended) == (["a"], ["b"])


@virtual_time
async def test_cancelling_what_is_queued():
    work = Work(secs=10)
    executor = await submitted(work, "a", "b", "c", max_concurrent=1)
    await asyncio.sleep(1)
    await executor.cancel("b")
    await asyncio.sleep(50)
    assert work.ended == ["a", "c"]


@virtual_time
async def test_cancelling_what_is_not_there():
    executor = await submitted(Work(), "a")
    await executor.cancel("nowhere")
    await asyncio.sleep(5)
    await executor.cancel("a")


@virtual_time
async def test_stop_waits_for_what_runs():
    work = Work(secs=3)
    executor = await submitted(work, "a", "b", max_concurrent=1)
    await executor.stop(10.0)
    assert (now(), work.ended) == (6.0, ["a", "b"])


@virtual_time
async def test_stop_waits_no_longer_than_it_may():
    work = Work(secs=50)
    executor = await submitted(work, "a", "b", max_concurrent=1)
    await executor.stop(2.0)
    assert now() == pytest.approx(2.0, abs=0.1)
    assert work.cancelled == ["a"]
    assert work.started == ["a"]


@virtual_time
async def test_stop_without_anything_returns_at_once():
    await LocalExecutor().stop(10.0)
    executor = await submitted(Work(secs=1), "a")
    await asyncio.sleep(2)
    await executor.stop(10.0)
    assert now() == 2.0


@virtual_time
async def test_stop_does_not_wait_for_what_ignores_its_cancellation():
    async def run(operation_id):
        end = now() + 500
        while now() < end:
            try:
                await asyncio.sleep(end - now())
            except asyncio.CancelledError:
                continue

    executor = LocalExecutor()
    await executor.start(run)
    await executor.submit(operation(operation_id="a"))
    await executor.stop(2.0)
    assert now() == pytest.approx(3.0, abs=0.1)


@virtual_time
async def test_started_again_it_keeps_what_it_runs():
    work, other = Work(), Work()
    executor = await submitted(work)
    await executor.start(other.run)
    await executor.submit(operation(operation_id="a"))
    await asyncio.sleep(2)
    assert (work.ended, other.ended) == (["a"], [])
