# SPDX-License-Identifier: BSD-2-Clause
"""Runs operations on the event loop of the bot."""

from __future__ import annotations

import asyncio

from loguru import logger

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.executors.base import Run
from pipecat_async_tools.operations.operation import Operation

_UNWIND_SECS = 1.0


class LocalExecutor:
    """The default executor: asyncio tasks, a bounded number at a time.

    The tasks belong to nobody's pipeline: an interruption or a hang-up cannot reach them.
    """

    def __init__(self, *, max_concurrent: int = 32):
        """Initialize the executor.

        Args:
            max_concurrent: Operations that run at the same time; further ones queue.

        Raises:
            ConfigurationError: ``max_concurrent`` is below 1.
        """
        if max_concurrent < 1:
            raise ConfigurationError(f"max_concurrent={max_concurrent}: pass 1 or more")
        self._slots = asyncio.Semaphore(max_concurrent)
        self._run: Run | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, run: Run) -> None:
        """Get ready to run operations with ``run``."""
        self._run = self._run or run

    async def submit(self, operation: Operation) -> None:
        """Start the operation, or queue it behind those that run; one that is here already stays."""
        operation_id = operation.operation_id
        if operation_id in self._tasks:
            return
        task = asyncio.create_task(self._run_in_slot(operation_id), name=f"operation {operation_id}")
        self._tasks[operation_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(operation_id, None))

    async def cancel(self, operation_id: str) -> None:
        """Cancel the handler of an operation. One that ignores it runs on, unheard."""
        if task := self._tasks.get(operation_id):
            task.cancel()

    async def stop(self, drain_secs: float) -> None:
        """Let what runs go on for at most ``drain_secs``, then cancel it."""
        if not self._tasks:
            return
        _, running = await asyncio.wait(list(self._tasks.values()), timeout=drain_secs)
        for task in running:
            task.cancel()
        if running:
            _, stuck = await asyncio.wait(running, timeout=_UNWIND_SECS)
            for task in stuck:
                # One that unwound as far as the store ends now.
                task.cancel()
                logger.warning(f"{task.get_name()} ignores its cancellation and is left behind")

    async def _run_in_slot(self, operation_id: str) -> None:
        assert self._run is not None, "start() comes before submit()"
        async with self._slots:
            await self._run(operation_id)
