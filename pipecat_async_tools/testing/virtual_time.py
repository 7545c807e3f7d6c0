# SPDX-License-Identifier: BSD-2-Clause
"""A whole asyncio program in virtual time.

On a `VirtualTimeLoop` a sleep costs nothing: when nothing is ready to run, the clock jumps to the next
timer. Time stands still while somebody outside the loop owes an answer: a thread started through the
loop (`run_in_executor`, `asyncio.to_thread`), or whatever runs inside `VirtualTimeLoop.hold`, such as a
thread of one's own or a request to a loopback server. When nothing is scheduled and nobody owes anything,
the program is deadlocked, and a `VirtualTimeError` says so.

`time.time` follows the virtual clock while `run_virtual` runs, since Pipecat reads it in a few places (for
example to space its `BotSpeakingFrame`). `time.monotonic` and `datetime.now` stay real.
"""

from __future__ import annotations

import asyncio
import functools
import random
import selectors
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, overload
from unittest import mock

from pipecat.clocks.base_clock import BaseClock

DEFAULT_REAL_LIMIT_SECS = 30.0
TIDY_UP_SECS = 5.0

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualTimeError(RuntimeError):
    """The program on a virtual loop cannot go on: it is deadlocked, or it used up its real time."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the loop's clock instead of waiting."""

    def __init__(self, loop: VirtualTimeLoop):
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.check_real_limit()
        events = super().select(0)
        if events or timeout == 0:
            return events
        if self._loop.held:
            return super().select(self._loop.real_secs_left)
        self._loop.jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0.0 and jumps from timer to timer.

    Args:
        real_limit_secs: Real seconds after which the loop gives up with a `VirtualTimeError`.
    """

    def __init__(self, *, real_limit_secs: float = DEFAULT_REAL_LIMIT_SECS):
        self._now = 0.0
        self._owed = 0
        self._real_limit_secs = real_limit_secs
        self._deadline = time.monotonic() + real_limit_secs
        super().__init__(_JumpingSelector(self))
        self._threads = ThreadPoolExecutor(thread_name_prefix="virtual-time")
        self.set_default_executor(self._threads)

    @staticmethod
    def running() -> VirtualTimeLoop:
        """The running loop.

        Raises:
            VirtualTimeError: The running loop keeps real time.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise VirtualTimeError(
                "this needs a virtual clock: run it with @virtual_time or run_virtual(...)"
            )
        return loop

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    @property
    def held(self) -> bool:
        """Whether somebody outside the loop owes an answer, so that time stands still."""
        return self._owed > 0

    @property
    def real_secs_left(self) -> float:
        """Real seconds left until the loop gives up."""
        return max(0.0, self._deadline - time.monotonic())

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep time standing still while something outside the loop owes an answer.

        No timer fires meanwhile, so a time-out inside the block never runs out.
        """
        self._owed += 1
        try:
            yield
        finally:
            self._owed -= 1

    def jump(self, secs: float | None) -> None:
        """Move the clock to the next timer.

        Args:
            secs: How far away the next timer is, in seconds; None if there is none.

        Raises:
            VirtualTimeError: There is no timer and nobody owes an answer.
        """
        if secs is None:
            self._give_up("deadlock: nothing is scheduled and nobody outside the loop owes an answer")
        else:
            self._now += secs

    def check_real_limit(self) -> None:
        """Give up if the loop has run for too long.

        Raises:
            VirtualTimeError: The real time of this loop is used up.
        """
        if time.monotonic() > self._deadline:
            self._give_up(f"still running after {self._real_limit_secs:g} s of real time")

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function in a thread; time stands still until it is done."""
        future = (executor or self._threads).submit(func, *args)
        self._owed += 1
        result = asyncio.wrap_future(future, loop=self)
        # After wrap_future: the result must be on its way to the loop before time may go on.
        future.add_done_callback(self._thread_done)
        return result

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Wait, in real time, for the loop's threads."""
        with self.hold():
            await super().shutdown_default_executor(*args)

    def _thread_done(self, _: Future[Any]) -> None:
        if not self.is_closed():
            self.call_soon_threadsafe(self._answered)

    def _answered(self) -> None:
        self._owed -= 1

    def _give_up(self, reason: str) -> None:
        self._deadline = time.monotonic() + TIDY_UP_SECS
        tasks = sorted(_describe(task) for task in asyncio.all_tasks(self))
        pending = "".join(f"\n  {task}" for task in tasks)
        raise VirtualTimeError(f"{reason} (virtual time {self._now:.3f} s). Pending tasks:{pending}")


class VirtualClock(BaseClock):
    """A Pipecat clock that reads the running loop's time, in nanoseconds."""

    def __init__(self) -> None:
        self._started_at: float | None = None

    def get_time(self) -> int:
        """Nanoseconds since `start`, counted from 1: Pipecat takes a time stamp of 0 for none at all."""
        if self._started_at is None:
            return 0
        return round((asyncio.get_running_loop().time() - self._started_at) * 1e9) + 1

    def start(self) -> None:
        """Start the clock now."""
        self._started_at = asyncio.get_running_loop().time()


def run_virtual(coro: Coroutine[Any, Any, T], *, real_limit_secs: float = DEFAULT_REAL_LIMIT_SECS) -> T:
    """Run a coroutine on a fresh virtual loop, cancel what it leaves behind, and close the loop.

    Args:
        coro: The coroutine to run.
        real_limit_secs: Real seconds it may take.

    Returns:
        What the coroutine returns.

    Raises:
        VirtualTimeError: It deadlocked, or took too long.
    """
    loop = VirtualTimeLoop(real_limit_secs=real_limit_secs)
    # Whole seconds, so that differences round the same way in every run.
    epoch = int(time.time())
    with (
        mock.patch.object(time, "time", lambda: epoch + loop.time()),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(coro)


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Seed Python's `random`, and put it back afterwards."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


@overload
def virtual_time(test: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, T]: ...
@overload
def virtual_time(
    *, real_limit_secs: float
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]: ...
def virtual_time(
    test: Callable[P, Coroutine[Any, Any, T]] | None = None,
    /,
    *,
    real_limit_secs: float = DEFAULT_REAL_LIMIT_SECS,
) -> Callable[P, T] | Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Turn an `async def` test into a plain one that runs in virtual time.

    Args:
        test: The test. Fixtures and parameters work as usual.
        real_limit_secs: Real seconds the test may take.
    """

    def decorate(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return run_virtual(test(*args, **kwargs), real_limit_secs=real_limit_secs)

        return run

    return decorate if test is None else decorate(test)


def _describe(task: asyncio.Task[Any]) -> str:
    stack = task.get_stack(limit=1)
    where = f" at {stack[0].f_code.co_filename}:{stack[0].f_lineno}" if stack else ""
    return f"{task.get_name()}{where}"
