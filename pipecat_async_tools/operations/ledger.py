# SPDX-License-Identifier: BSD-2-Clause
"""The operations of one session: accepted, run, settled once, and none left open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from loguru import logger

from pipecat_async_tools.background import Background
from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Journal
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.operations.runner import Runner
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.store.base import Store

STORE_TIMEOUT_SECS = 5.0

T = TypeVar("T")


class OperationListener(Protocol):
    """Hears what becomes of operations."""

    def operation_settled(self, operation: Operation) -> None:
        """An operation reached a terminal status, for the first time."""
        ...

    def operation_corrected(self, operation: Operation) -> None:
        """An operation that had timed out succeeded after all."""
        ...

    def operation_progressed(self, operation: Operation) -> None:
        """A running operation reported progress."""
        ...


class OperationLedger:
    """Accepts operations, gives them to the executor and settles each exactly once.

    The deadline is absolute and kept here, so that it also holds for an operation that waits for a
    slot, ignores its cancellation, or is run by Pipecat.
    """

    def __init__(self, *, store: Store, executor: Executor, tools: Mapping[str, ToolSpec], journal: Journal):
        """Initialize the ledger.

        Args:
            store: Remembers the operations.
            executor: Runs them.
            tools: The handlers by name.
            journal: Takes down what happens.
        """
        self._store = store
        self._executor = executor
        self._journal = journal
        self._listener: OperationListener | None = None
        self._operations: dict[str, Operation] = {}
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._background = Background()
        self._runner = Runner(
            claim=lambda operation_id: self._insist(lambda: store.claim(operation_id), "claim an operation"),
            tools=tools,
            settle=self.settle,
            on_started=self._started,
            on_progress=self.progress,
        )

    def listen(self, listener: OperationListener) -> None:
        """Tell ``listener`` what becomes of operations."""
        self._listener = listener

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of this session, oldest first, as last seen."""
        return tuple(self._operations.values())

    def get(self, operation_id: str) -> Operation | None:
        """Return an operation as last seen."""
        return self._operations.get(operation_id)

    async def accept(self, operation: Operation) -> Operation:
        """Write an operation down and, unless Pipecat runs it, have it run.

        Raises:
            StoreError: It could not be written down in time; nothing was started.
        """
        accepted = await in_time(self._store.accept(operation), "accept an operation")
        self._keep(accepted, "on_operation_accepted")
        self._deadlines[accepted.operation_id] = asyncio.get_running_loop().call_later(
            accepted.timeout_secs, self._deadline_passed, accepted
        )
        if not accepted.adopted:
            await self._executor.start(self._runner.run)
            await self._executor.submit(accepted)
        return accepted

    async def settle(self, operation_id: str, outcome: Outcome, *, fence: int | None = None) -> None:
        """Settle an operation once; whoever comes second changes nothing, but may correct a time-out."""
        settled = await self._insist(lambda: self._store.finish(operation_id, outcome, fence=fence))
        if settled is None:
            await self._correct(operation_id, outcome)
            return
        if timer := self._deadlines.pop(operation_id, None):
            timer.cancel()
        self._keep(settled, "on_operation_settled", reason=str(settled.status))
        if self._listener:
            self._listener.operation_settled(settled)

    def settle_soon(self, operation_id: str, outcome: Outcome) -> None:
        """Settle an operation from code that must not wait, such as ``process_frame``."""
        self._background.spawn(self.settle(operation_id, outcome))

    async def progress(self, operation_id: str, text: str) -> None:
        """Keep the latest progress of a running operation; too late changes nothing."""
        try:
            running = await in_time(self._store.record_progress(operation_id, text), "record progress")
        except StoreError as e:
            # Progress is optional: the work goes on without it.
            logger.warning(f"{operation_id}: {e}")
            return
        if running is None or self._is_settled(operation_id):
            return
        self._keep(running, "on_operation_progressed")
        if self._listener:
            self._listener.operation_progressed(running)

    def progress_soon(self, operation_id: str, text: str) -> None:
        """Keep progress from code that must not wait."""
        self._background.spawn(self.progress(operation_id, text))

    async def cancel(self, operation_id: str) -> bool:
        """Settle an operation as cancelled, then stop its handler.

        Returns:
            Whether it was cancelled; False when it is unknown here or had ended before.
        """
        operation = self._operations.get(operation_id)
        if operation is None or operation.is_settled:
            return False
        await self.settle(operation_id, outcomes.CANCELLED)
        await self._executor.cancel(operation_id)
        return self._operations[operation_id].status is OperationStatus.CANCELLED

    async def stop(self, drain_secs: float) -> None:
        """Let what runs go on for at most ``drain_secs``, then leave rows that are true to the facts.

        A store that does not answer is given up after ``STORE_TIMEOUT_SECS`` more: its rows stay open.
        """
        await self._executor.stop(drain_secs)
        for operation in self.operations:
            if not operation.is_settled:
                self.settle_soon(operation.operation_id, _left_open(operation))
        if writing := self._background.running:
            _, unwritten = await asyncio.wait(writing, timeout=STORE_TIMEOUT_SECS)
            for task in unwritten:
                task.cancel()
            if unwritten:
                logger.error(f"the store did not answer: {len(unwritten)} outcomes were not written down")
        for timer in self._deadlines.values():
            timer.cancel()
        self._deadlines.clear()

    def _started(self, operation: Operation) -> None:
        # The answer of a slow store can arrive after the one that says the operation has ended.
        if not self._is_settled(operation.operation_id):
            self._keep(operation, "on_operation_started", reason=f"attempt {operation.attempts}")

    def _is_settled(self, operation_id: str) -> bool:
        known = self._operations.get(operation_id)
        return known is not None and known.is_settled

    def _deadline_passed(self, operation: Operation) -> None:
        self._background.spawn(self._time_out(operation))

    async def _time_out(self, operation: Operation) -> None:
        await self.settle(operation.operation_id, outcomes.timed_out(operation.timeout_secs))
        await self._executor.cancel(operation.operation_id)

    async def _correct(self, operation_id: str, outcome: Outcome) -> None:
        corrected = await self._insist(lambda: self._store.correct(operation_id, outcome))
        if corrected is None:
            return
        self._keep(corrected, "on_operation_corrected", reason="succeeded after its time-out")
        if self._listener:
            self._listener.operation_corrected(corrected)

    def _keep(self, operation: Operation, event: str, *, reason: str = "") -> None:
        self._operations[operation.operation_id] = operation
        self._journal.record(
            event,
            turn_id=operation.turn_id,
            operation_id=operation.operation_id,
            batch_id=operation.batch_id,
            intent_key=operation.intent_key,
            tool=operation.tool,
            reason=reason,
        )

    async def _insist(
        self, write: Callable[[], Coroutine[Any, Any, T]], what: str = "settle an operation"
    ) -> T:
        # An outcome that is not stored must not be told, and must not be lost either.
        wait_secs = 0.1
        while True:
            try:
                return await in_time(write(), what)
            except StoreError as e:
                logger.error(f"{e}; trying again in {wait_secs:g} s")
                await asyncio.sleep(wait_secs)
                wait_secs = min(wait_secs * 2, STORE_TIMEOUT_SECS)


def _left_open(operation: Operation) -> Outcome:
    # Pipecat's cleanup kills an adopted handler without a word, so how far it got is not known.
    started = operation.adopted or operation.status is OperationStatus.RUNNING
    return outcomes.ABANDONED if started else outcomes.NEVER_STARTED


async def in_time(write: Coroutine[Any, Any, T], what: str) -> T:
    """Return what the store answers.

    Args:
        write: What the store was asked.
        what: The same, in words.

    Raises:
        StoreError: It did not answer within ``STORE_TIMEOUT_SECS``.
    """
    try:
        return await asyncio.wait_for(write, STORE_TIMEOUT_SECS)
    except TimeoutError:
        raise StoreError(f"the store did not {what} within {STORE_TIMEOUT_SECS:g} s") from None
