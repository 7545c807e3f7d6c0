# SPDX-License-Identifier: BSD-2-Clause
"""Runs one operation: claim, attempts, settle. What every executor calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from loguru import logger

from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.failures import Failure, classify
from pipecat_async_tools.operations.insisting import insist
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome, OutcomeClass
from pipecat_async_tools.operations.retrying import Schedule
from pipecat_async_tools.operations.tool import OperationContext, ToolSpec
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import Claim


class Settle(Protocol):
    """Settles an operation under the fence of its claim."""

    async def __call__(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        http_status: int | None = None,
    ) -> None:
        """Settle an operation."""
        ...


class Runner:
    """Turns an operation id into a settled operation."""

    def __init__(
        self,
        *,
        store: Store,
        owner: str,
        tools: Mapping[str, ToolSpec],
        settle: Settle,
        on_started: Callable[[Operation], None],
        on_attempted: Callable[[Operation], None],
        on_progress: Callable[[str, str], Awaitable[None]],
    ):
        """Initialize the runner.

        Args:
            store: Remembers the operations.
            owner: The name under which they are run.
            tools: The handlers by name.
            settle: Settles an operation.
            on_started: Called when an operation starts.
            on_attempted: Called when an attempt failed and another one follows.
            on_progress: Called with the operation id and the text of a progress.
        """
        self._store = store
        self._owner = owner
        self._tools = tools
        self._settle = settle
        self._on_started = on_started
        self._on_attempted = on_attempted
        self._on_progress = on_progress
        self._missed: set[str] = set()

    async def run(self, operation_id: str) -> None:
        """Run an operation to its end. A handler's failure is an outcome, never an exception here.

        An operation of a tool that is not here is left alone: another process may have it.
        """
        stored = await insist(lambda: self._store.operation(operation_id), "read an operation")
        if stored is None or not self._knows(stored.tool):
            return
        claim = await insist(lambda: self._store.claim(operation_id, owner=self._owner), "claim an operation")
        if claim is None:
            return
        self._on_started(claim.operation)
        await _Run(self, claim).to_the_end()

    def _knows(self, tool: str) -> bool:
        if tool not in self._tools and tool not in self._missed:
            self._missed.add(tool)
            logger.error(f"{self._owner}: {tool} is no tool of this process; others have to run it")
        return tool in self._tools

    # What a run needs

    def spec_of(self, operation: Operation) -> ToolSpec:
        """Return the tool of an operation."""
        return self._tools[operation.tool]

    async def used_secs(self, operation: Operation) -> float:
        """Return how much of its time a claimed operation has used up, by the store's clock."""
        if operation.attempts == 1 and operation.started_at is not None:
            return max(0.0, operation.started_at - operation.accepted_at)
        # It was started before: only the store knows how long ago it was accepted.
        return max(0.0, await insist(self._store.now, "tell the time") - operation.accepted_at)

    async def settle(self, claim: Claim, outcome: Outcome, http_status: int | None) -> None:
        """Settle a claimed operation."""
        await self._settle(claim.operation.operation_id, outcome, fence=claim.fence, http_status=http_status)

    async def attempted(self, claim: Claim, failure: Failure, wait_secs: float) -> Operation | None:
        """Note a failed attempt; None if the claim is lost."""
        operation = await insist(
            lambda: self._store.record_attempt(
                claim.operation.operation_id,
                fence=claim.fence,
                wait_secs=round(wait_secs, 3),
                outcome=outcomes.failed(failure.words, failure.outcome_class),
                http_status=failure.http_status,
            ),
            "note an attempt",
        )
        if operation is not None:
            self._on_attempted(operation)
        return operation

    async def progress(self, operation_id: str, text: str) -> None:
        """Pass on progress."""
        await self._on_progress(operation_id, text)


class _Run:
    """One claimed operation on its way to its end."""

    def __init__(self, runner: Runner, claim: Claim):
        self._runner = runner
        self._claim = claim
        self._spec = runner.spec_of(claim.operation)
        self._schedule = Schedule(self._spec.retry, idempotent=claim.operation.idempotent)
        self._deadline = _now() + claim.operation.timeout_secs
        self._failed: _End | None = None

    async def to_the_end(self) -> None:
        try:
            end = await self._attempts()
        except asyncio.CancelledError:
            end = self._end_of_cancelled()
        if end is not None:
            await self._write(end)

    async def _attempts(self) -> _End | None:
        """Return how it ended; None if the claim was lost."""
        operation = self._claim.operation
        self._deadline -= await self._runner.used_secs(operation)
        try:
            arguments = self._spec.validate(operation.arguments)
        except ValueError as e:
            # Written down by another version of the tool.
            return outcomes.failed(str(e)), None
        while True:
            try:
                result = await self._spec.handler(self._context(operation), **arguments)
            except Exception as e:
                logger.debug(f"{operation.operation_id} ({operation.tool}) raised {type(e).__name__}")
                failure = classify(e)
            else:
                return outcomes.succeeded(result), None
            end = _outcome_of(failure), failure.http_status
            wait_secs = self._schedule.next_wait_secs(failure, self._deadline - _now())
            if wait_secs is None:
                return end
            self._failed = end
            again = await self._runner.attempted(self._claim, failure, wait_secs)
            if again is None:
                return None
            await asyncio.sleep(wait_secs)
            self._failed = None
            operation = again

    def _end_of_cancelled(self) -> _End | None:
        # A cancel or a deadline settled the operation before it cancelled this task, so what is
        # left is a shutdown, or a handler whose own inner task was cancelled.
        if not _is_cancelled():
            return outcomes.failed("The handler cancelled itself."), None
        if self._claim.operation.idempotent:
            logger.debug(f"{self._claim.operation.operation_id} is left to whoever comes next")
            return None
        # Between two attempts nothing is on its way, and how the last one ended is known.
        return self._failed or (outcomes.ABANDONED, None)

    async def _write(self, end: _End) -> None:
        writing = asyncio.ensure_future(self._runner.settle(self._claim, *end))
        if _is_cancelled():
            await writing
            return
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A shutdown while the outcome is on its way into the store must not make it unknown.
            await writing

    def _context(self, operation: Operation) -> OperationContext:
        async def progress(text: str) -> None:
            await self._runner.progress(operation.operation_id, text)

        return OperationContext(
            operation_id=operation.operation_id,
            session_id=operation.session_id,
            turn_id=operation.turn_id,
            batch_id=operation.batch_id,
            tool_call_id=operation.tool_call_id,
            idempotency_key=operation.idempotency_key,
            attempt=operation.attempts,
            remaining_secs=lambda: max(0.0, self._deadline - _now()),
            progress=progress,
        )


_End = tuple[Outcome, int | None]


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _outcome_of(failure: Failure) -> Outcome:
    if failure.outcome_class is OutcomeClass.AMBIGUOUS:
        return outcomes.unconfirmed(failure.words)
    return outcomes.failed(failure.words, failure.outcome_class)


def _now() -> float:
    return asyncio.get_running_loop().time()
