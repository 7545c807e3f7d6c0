# SPDX-License-Identifier: BSD-2-Clause
"""The virtual clock: jumps when it may, stands still when it must, and never hangs."""

import asyncio
import socket
import threading
import time

import pytest

from pipecat_async_tools.testing import (
    VirtualClock,
    VirtualTimeError,
    VirtualTimeLoop,
    run_virtual,
    virtual_time,
)


@pytest.fixture
def three():
    return 3


def test_sleeping_costs_no_real_time():
    async def day():
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    started = time.monotonic()
    assert run_virtual(day()) == pytest.approx(86_400)
    assert time.monotonic() - started < 1


def test_timers_fire_in_order_at_their_times():
    async def wait(secs, log):
        await asyncio.sleep(secs)
        log.append((secs, asyncio.get_running_loop().time()))

    async def run():
        log = []
        await asyncio.gather(*(wait(secs, log) for secs in (3.0, 1.0, 2.0)))
        return log

    assert run_virtual(run()) == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


@virtual_time
async def test_a_time_out_is_virtual():
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), timeout=500)
    assert asyncio.get_running_loop().time() == pytest.approx(500)


@virtual_time
@pytest.mark.parametrize("secs", [1, 2])
async def test_the_decorator_keeps_fixtures_and_parameters(secs, three):
    await asyncio.sleep(secs * three)
    assert asyncio.get_running_loop().time() == pytest.approx(secs * 3)


@virtual_time(real_limit_secs=5)
async def test_time_stands_still_while_a_thread_works():
    log = []

    async def tick():
        await asyncio.sleep(0.001)
        log.append("timer")

    ticking = asyncio.create_task(tick())
    await asyncio.to_thread(lambda: (time.sleep(0.05), log.append("thread")))
    assert asyncio.get_running_loop().time() == 0.0
    await ticking
    assert log == ["thread", "timer"]


@virtual_time
async def test_a_cancelled_thread_call_is_waited_for_and_then_forgotten():
    release = threading.Event()
    loop = VirtualTimeLoop.running()
    working = loop.run_in_executor(None, release.wait)
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert loop.held
    release.set()
    await asyncio.sleep(1)
    assert not loop.held


@virtual_time
async def test_time_stands_still_while_held_for_an_answer_from_outside():
    loop = VirtualTimeLoop.running()
    answer = loop.create_future()
    thread = threading.Timer(0.05, lambda: loop.call_soon_threadsafe(answer.set_result, 42))
    thread.start()
    with loop.hold():
        assert await asyncio.wait_for(answer, timeout=0.001) == 42
    assert loop.time() == 0.0


@virtual_time
async def test_a_held_loop_waits_for_its_sockets():
    loop = VirtualTimeLoop.running()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    thread = threading.Timer(0.05, lambda: theirs.send(b"hi"))
    thread.start()
    with loop.hold():
        assert await loop.sock_recv(ours, 2) == b"hi"
    assert loop.time() == 0.0
    ours.close()
    theirs.close()


def test_a_deadlock_is_an_error_that_names_the_task():
    async def wait_for_ever():
        asyncio.current_task().set_name("the one that waits")
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeError, match=r"(?s)deadlock.*the one that waits at .*test_virtual_time"):
        run_virtual(wait_for_ever())


@pytest.mark.parametrize("pause", [0, 1])
def test_spinning_ends_at_the_real_limit(pause):
    async def spin():
        while True:
            await asyncio.sleep(pause)

    with pytest.raises(VirtualTimeError, match=r"still running after 0\.05 s of real time"):
        run_virtual(spin(), real_limit_secs=0.05)


def test_an_answer_that_never_comes_ends_at_the_real_limit():
    async def wait():
        with VirtualTimeLoop.running().hold():
            await asyncio.Event().wait()

    with pytest.raises(VirtualTimeError, match="real time"):
        run_virtual(wait(), real_limit_secs=0.05)


def test_what_is_left_behind_is_cancelled():
    left = []

    async def leave():
        async def linger():
            try:
                await asyncio.sleep(1000)
            finally:
                left.append("cancelled")

        left.append(asyncio.create_task(linger()))
        await asyncio.sleep(1)

    run_virtual(leave())
    assert left[1:] == ["cancelled"]


@virtual_time
async def test_the_wall_clock_follows():
    before = time.time()
    await asyncio.sleep(100)
    assert time.time() - before == pytest.approx(100)


def test_the_wall_clock_is_put_back():
    real = time.time
    run_virtual(asyncio.sleep(1))
    assert time.time is real


@virtual_time
async def test_pipecat_clock_counts_nanoseconds_and_is_never_zero():
    clock = VirtualClock()
    assert clock.get_time() == 0
    await asyncio.sleep(5)
    clock.start()
    assert clock.get_time() == 1
    await asyncio.sleep(0.25)
    assert clock.get_time() == 250_000_001


def test_a_real_loop_is_told_apart():
    async def ask():
        VirtualTimeLoop.running()

    with pytest.raises(VirtualTimeError, match="@virtual_time"):
        asyncio.run(ask())
