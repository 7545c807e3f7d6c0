# SPDX-License-Identifier: BSD-2-Clause
"""``Worker``: runs operations of any session, in a process without a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from loguru import logger

from pipecat_async_tools.background import Background
from pipecat_async_tools.call_options import check_secs
from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.executors.local import LocalExecutor
from pipecat_async_tools.operations.insisting import STORE_TIMEOUT_SECS, in_time, insist
from pipecat_async_tools.operations.operation import Operation, new_id
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.operations.runner import Runner
from pipecat_async_tools.operations.sweeper import Sweeper
from pipecat_async_tools.operations.tool import ToolHandler, specs_by_name
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import DeliveryRow

Undeliverable = Callable[[DeliveryRow], Awaitable[None]]

# Changes come in flocks: one look is enough for all that came this close together.
_LOOK_APART_SECS = 0.2


class Worker:
    """Runs what was accepted and is run by nobody: of dead bots, replayed by hand, or never started.

    It does not speak: the outcome is told by whichever bot holds the session, or the next one that does::

        async with Worker(store=store_from_url("postgresql://…"), tools=[book]) as worker:
            await worker.run()
    """

    def __init__(
        self,
        *,
        store: Store,
        tools: Sequence[ToolHandler],
        executor: Executor | None = None,
        lease_secs: float = 10.0,
        drain_secs: float = 10.0,
        undeliverable_after_secs: float | None = None,
        on_undeliverable: Undeliverable | None = None,
    ):
        """Initialize the worker.

        Args:
            store: Remembers the operations; shared with the bots.
            tools: Functions decorated with ``@async_tool``; operations of others are left alone.
            executor: Runs operations; None runs them on this event loop.
            lease_secs: Seconds after which what a dead process ran is free for others, and after which
                what nobody claimed is run here.
            drain_secs: Seconds that running operations may go on after :meth:`stop`.
            undeliverable_after_secs: Seconds without a caller after which a pending delivery is given
                up; None never.
            on_undeliverable: Called with each delivery given up, to send a message instead.

        Raises:
            ConfigurationError: An argument has a value it cannot have.
            ToolDefinitionError: A tool was not decorated.
        """
        if isinstance(store, str):
            raise ConfigurationError("store: pass a Store, such as store_from_url('sqlite:///calls.db')")
        check_secs(
            lease_secs=lease_secs, drain_secs=drain_secs, undeliverable_after_secs=undeliverable_after_secs
        )
        self._store = store
        self._executor = executor or LocalExecutor()
        self._drain_secs = drain_secs
        self._undeliverable_after_secs = undeliverable_after_secs
        self._on_undeliverable = on_undeliverable
        self._background = Background()
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._running: asyncio.Task[None] | None = None
        owner = new_id("worker")
        specs = specs_by_name(tools)
        self._runner = Runner(
            store=store,
            owner=owner,
            tools=specs,
            settle=self._settle,
            on_started=lambda operation: None,
            on_attempted=lambda operation: None,
            on_progress=self._progress,
        )
        self._sweeper = Sweeper(
            store=store,
            owner=owner,
            lease_secs=lease_secs,
            tools=specs,
            submit=self._submit,
            also=self._give_up,
        )

    async def __aenter__(self) -> Worker:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def run(self) -> None:
        """Work until cancelled, or until :meth:`stop`."""
        await self._start()
        running = self._running = asyncio.create_task(self._look_at_changes())
        try:
            await asyncio.wait([running])
        finally:
            await self.stop()
        if not running.cancelled():
            running.result()

    async def stop(self) -> None:
        """Let running operations go on for at most ``drain_secs``, then leave rows true to the facts."""
        if self._running is not None:
            self._running.cancel()
        # Nothing new is begun while what runs is waited for; its lease is kept until the last moment.
        await self._sweeper.drain()
        await self._executor.stop(self._drain_secs)
        for timer in self._deadlines.values():
            timer.cancel()
        self._deadlines.clear()
        if reporting := self._background.running:
            _, unheard = await asyncio.wait(reporting, timeout=STORE_TIMEOUT_SECS)
            for task in unheard:
                task.cancel()
        await self._sweeper.stop()

    async def _start(self) -> None:
        await self._executor.start(self._runner.run)
        await self._sweeper.start()

    async def _look_at_changes(self) -> None:
        # What is replayed by hand need not wait for the next sweep.
        async for _ in self._store.watch():
            await self._sweeper.look()
            await asyncio.sleep(_LOOK_APART_SECS)

    async def _submit(self, operation: Operation) -> None:
        # From here on, not from its start: the answer to a claim can be lost on its way.
        self._keep_deadline(operation, await in_time(self._store.now(), "tell the time"))
        await self._executor.submit(operation)

    def _keep_deadline(self, operation: Operation, now: float) -> None:
        self._drop_deadline(operation.operation_id)
        self._deadlines[operation.operation_id] = asyncio.get_running_loop().call_later(
            max(0.0, operation.deadline_at - now),
            lambda: self._background.spawn(self._time_out(operation.operation_id)),
        )

    def _drop_deadline(self, operation_id: str) -> None:
        if timer := self._deadlines.pop(operation_id, None):
            timer.cancel()

    async def _time_out(self, operation_id: str) -> None:
        operation = await insist(lambda: self._store.operation(operation_id), "read an operation")
        if operation is None or operation.is_settled:
            self._drop_deadline(operation_id)
            return
        now = await insist(self._store.now, "tell the time")
        if operation.deadline_at > now:
            # It was replayed since, or the store's clock is behind.
            self._keep_deadline(operation, now)
            return
        await self._settle(operation_id, outcomes.deadline_passed(operation))
        await self._executor.cancel(operation_id)

    async def _settle(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        http_status: int | None = None,
    ) -> None:
        await insist(
            lambda: self._store.finish(operation_id, outcome, fence=fence, http_status=http_status),
            "settle an operation",
        )
        self._drop_deadline(operation_id)

    async def _progress(self, operation_id: str, text: str) -> None:
        with contextlib.suppress(StoreError):
            await in_time(self._store.record_progress(operation_id, text), "record progress")

    async def _give_up(self) -> None:
        if self._undeliverable_after_secs is None:
            return
        rows = await in_time(
            self._store.give_up_deliveries(self._undeliverable_after_secs), "give up deliveries"
        )
        for row in rows:
            self._background.spawn(self._report(row))

    async def _report(self, row: DeliveryRow) -> None:
        if self._on_undeliverable is None:
            return
        try:
            await self._on_undeliverable(row)
        except Exception as e:
            logger.error(f"on_undeliverable raised {type(e).__name__} for {row.delivery_id}")
