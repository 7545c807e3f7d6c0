# SPDX-License-Identifier: BSD-2-Clause
"""The operations of one session: accepted, run, settled once, and none left open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from loguru import logger

from pipecat_async_tools.background import Background
from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Journal
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.insisting import STORE_TIMEOUT_SECS, in_time, insist
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.operations.runner import Runner
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.store.base import OnDuplicate, Store
from pipecat_async_tools.store.rows import Accepted, Finished


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

    def __init__(
        self,
        *,
        store: Store,
        owner: str,
        executor: Executor,
        tools: Mapping[str, ToolSpec],
        journal: Journal,
        stands: Callable[[str], Awaitable[bool]] | None = None,
    ):
        """Initialize the ledger.

        Args:
            store: Remembers the operations.
            owner: The name under which they are run.
            executor: Runs them.
            tools: The handlers by name.
            journal: Takes down what happens.
            stands: Waits until a turn of the caller stands, for tools that want it; None starts at once.
        """
        self._tools = tools
        self._stands = stands
        self._store = store
        self._owner = owner
        self._executor = executor
        self._journal = journal
        self._listener: OperationListener | None = None
        self._operations: dict[str, Operation] = {}
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._background = Background()
        self._accepting: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._runner = Runner(
            store=store,
            owner=owner,
            tools=tools,
            on_started=self._started,
            on_attempted=self._attempted,
            on_progress=self.progress,
            settle=self.settle,
        )

    def listen(self, listener: OperationListener) -> None:
        """Tell ``listener`` what becomes of operations."""
        self._listener = listener

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations of this session, oldest first, as last seen."""
        return tuple(self._operations.values())

    def running(self) -> tuple[Operation, ...]:
        """Return the operations that have not ended."""
        return tuple(o for o in self._operations.values() if not o.is_settled)

    def get(self, operation_id: str) -> Operation | None:
        """Return an operation as last seen."""
        return self._operations.get(operation_id)

    async def accept(
        self,
        operations: Sequence[Operation],
        *,
        expected: Sequence[str] = (),
        on_duplicate: OnDuplicate = "join",
    ) -> tuple[Accepted, ...]:
        """Write the operations of a call down and, unless Pipecat runs them, have them run.

        Args:
            operations: One, or one for each item of the call.
            expected: The call ids announced with this one.
            on_duplicate: What a request that is there already leads to.

        Raises:
            StoreError: They could not be written down in time; nothing was started.
        """
        accepting = asyncio.get_running_loop().create_future()
        self._accepting.add(accepting)
        try:
            write = self._store.accept(
                operations, owner=self._owner, expected=expected, on_duplicate=on_duplicate
            )
            answers = await in_time(write, "accept an operation")
            for answer in answers:
                await self._take_in(answer)
        except StoreError:
            self._background.spawn(self._take_back(operations))
            raise
        finally:
            self._accepting.discard(accepting)
            accepting.set_result(None)
        return answers

    async def run(self, operation: Operation) -> None:
        """Have an accepted operation run that nobody runs, such as one left by an earlier call."""
        self.note(operation)
        now = await in_time(self._store.now(), "tell the time")
        self._time(operation, operation.deadline_at - now)
        await self._executor.start(self._runner.run)
        await self._executor.submit(operation)

    def note(self, operation: Operation) -> None:
        """Keep the record of an operation that is run elsewhere, without a word."""
        self._operations.setdefault(operation.operation_id, operation)

    async def settle(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        silent: bool = False,
        http_status: int | None = None,
    ) -> None:
        """Settle an operation once; whoever comes second changes nothing, but may correct a time-out."""
        finished = await insist(
            lambda: self._store.finish(
                operation_id, outcome, fence=fence, silent=silent, http_status=http_status
            ),
            "settle an operation",
        )
        if finished is None:
            await self.look_again(operation_id)
        else:
            self._finished(finished)

    def settle_soon(self, operation_id: str, outcome: Outcome, *, silent: bool = False) -> None:
        """Settle an operation from code that must not wait, such as ``process_frame``."""
        self._background.spawn(self.settle(operation_id, outcome, silent=silent))

    async def look_again(self, operation_id: str) -> None:
        """See whether an operation was settled or corrected by another process."""
        seen = self._operations.get(operation_id)
        if seen is None:
            return
        stored = await insist(lambda: self._store.operation(operation_id), "read an operation")
        if stored is None or not stored.is_settled:
            return
        if not self._is_settled(operation_id):
            self._finished(Finished(operation=stored))
        elif stored.late and not self._operations[operation_id].late:
            self._finished(Finished(operation=stored, corrected=True))

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

    async def cancel(self, operation_id: str, *, silent: bool = False) -> bool:
        """Settle an operation as cancelled, then stop its handler.

        Args:
            operation_id: The operation.
            silent: Whether nothing is told of it.

        Returns:
            Whether it was cancelled; False when it is unknown here or had ended before.
        """
        operation = self._operations.get(operation_id)
        if operation is None or operation.is_settled:
            return False
        await self.settle(operation_id, outcomes.CANCELLED, silent=silent)
        await self._executor.cancel(operation_id)
        return self._operations[operation_id].status is OperationStatus.CANCELLED

    async def stop(self, drain_secs: float) -> None:
        """Let what runs go on for at most ``drain_secs``, then leave rows that are true to the facts.

        What was never started stays accepted, for whoever comes next. A store that does not answer is
        given up after ``STORE_TIMEOUT_SECS`` more: its rows are recovered once the lease has run out.
        """
        self._stopping = True
        await self._executor.stop(drain_secs)
        if self._accepting:
            # The call can end while the store still answers: what it accepts by then is not forgotten.
            await asyncio.wait(set(self._accepting), timeout=STORE_TIMEOUT_SECS)
        for operation in self.operations:
            if operation.status is OperationStatus.RUNNING and not operation.idempotent:
                # Pipecat's cleanup kills an adopted handler without a word, and one of ours may have
                # ignored its cancellation: how far it got is not known.
                self.settle_soon(operation.operation_id, outcomes.ABANDONED)
        if writing := self._background.running:
            _, unwritten = await asyncio.wait(writing, timeout=STORE_TIMEOUT_SECS)
            for task in unwritten:
                task.cancel()
            if unwritten:
                logger.error(f"the store did not answer: {len(unwritten)} outcomes were not written down")
        for timer in self._deadlines.values():
            timer.cancel()
        self._deadlines.clear()

    async def _take_in(self, answer: Accepted) -> None:
        if answer.replaced is not None:
            self._finished(Finished(operation=answer.replaced))
            await self._executor.cancel(answer.replaced.operation_id)
        operation = answer.operation
        if answer.duplicate is not None:
            self.note(operation)
            self._record(operation, "on_operation_joined", reason=answer.duplicate)
            return
        self._keep(operation, "on_operation_accepted")
        self._time(operation, operation.timeout_secs)
        if operation.adopted:
            self._record(operation, "on_operation_started", reason="attempt 1")
        elif self._stands is not None and self._tools[operation.tool].confirm_after_turn:
            self._background.spawn(self._start_when_it_stands(operation, self._stands))
        else:
            await self._start(operation)

    async def _start(self, operation: Operation) -> None:
        if not self._stopping:
            await self._executor.start(self._runner.run)
            await self._executor.submit(operation)

    async def _start_when_it_stands(
        self, operation: Operation, stands: Callable[[str], Awaitable[bool]]
    ) -> None:
        # A process that dies meanwhile leaves it accepted: the caller was told that it is being done.
        if await stands(operation.turn_id):
            await self._start(operation)
        else:
            await self.settle(operation.operation_id, outcomes.TURN_WITHDRAWN, silent=True)

    def _time(self, operation: Operation, secs: float) -> None:
        if timer := self._deadlines.pop(operation.operation_id, None):
            timer.cancel()
        self._deadlines[operation.operation_id] = asyncio.get_running_loop().call_later(
            max(0.0, secs), self._deadline_passed, operation
        )

    async def _take_back(self, operations: Sequence[Operation]) -> None:
        # The store may have written them down although its answer did not come in time: nobody was
        # promised anything, so nobody may run them. The write may also still be on its way.
        for _ in range(2):
            for operation in operations:
                operation_id = operation.operation_id
                await insist(
                    lambda operation_id=operation_id: self._store.finish(
                        operation_id, outcomes.NEVER_STARTED, silent=True
                    ),
                    "take back an operation",
                )
            await asyncio.sleep(STORE_TIMEOUT_SECS)

    def _finished(self, finished: Finished) -> None:
        operation = finished.operation
        if timer := self._deadlines.pop(operation.operation_id, None):
            timer.cancel()
        if operation.operation_id not in self._operations:
            return
        if finished.corrected:
            self._keep(operation, "on_operation_corrected", reason="succeeded after its time-out")
            if self._listener:
                self._listener.operation_corrected(operation)
        elif not self._is_settled(operation.operation_id):
            self._keep(operation, "on_operation_settled", reason=str(operation.status))
            if finished.dead_letter:
                self._record(operation, "on_dead_letter_opened", reason=finished.dead_letter)
            if self._listener:
                self._listener.operation_settled(operation)

    def _started(self, operation: Operation) -> None:
        # The answer of a slow store can arrive after the one that says the operation has ended.
        if not self._is_settled(operation.operation_id):
            self._keep(operation, "on_operation_started", reason=f"attempt {operation.attempts}")

    def _attempted(self, operation: Operation) -> None:
        if not self._is_settled(operation.operation_id):
            self._keep(operation, "on_operation_attempted", reason=f"attempt {operation.attempts - 1} failed")

    def _is_settled(self, operation_id: str) -> bool:
        known = self._operations.get(operation_id)
        return known is not None and known.is_settled

    def _deadline_passed(self, operation: Operation) -> None:
        self._background.spawn(self._time_out(operation.operation_id))

    async def _time_out(self, operation_id: str) -> None:
        await self.settle(operation_id, outcomes.deadline_passed(self._operations[operation_id]))
        await self._executor.cancel(operation_id)

    def _keep(self, operation: Operation, event: str, *, reason: str = "") -> None:
        self._operations[operation.operation_id] = operation
        self._record(operation, event, reason=reason)

    def _record(self, operation: Operation, event: str, *, reason: str = "") -> None:
        self._journal.record(
            event,
            turn_id=operation.turn_id,
            operation_id=operation.operation_id,
            batch_id=operation.batch_id,
            intent_key=operation.intent_key,
            tool=operation.tool,
            reason=reason,
        )
