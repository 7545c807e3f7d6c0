# SPDX-License-Identifier: BSD-2-Clause
"""Runs one operation: claim, attempt, settle. What every executor calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from loguru import logger

from pipecat_async_tools.operations import outcome
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.operations.tool import OperationContext, ToolSpec
from pipecat_async_tools.store.base import Claim


class Settle(Protocol):
    """Settles an operation under the fence of its claim."""

    async def __call__(self, operation_id: str, outcome: Outcome, *, fence: int | None = None) -> None:
        """Settle an operation."""
        ...


class Runner:
    """Turns an operation id into a settled operation."""

    def __init__(
        self,
        *,
        claim: Callable[[str], Awaitable[Claim | None]],
        tools: Mapping[str, ToolSpec],
        settle: Settle,
        on_started: Callable[[Operation], None],
        on_progress: Callable[[str, str], Awaitable[None]],
    ):
        """Initialize the runner.

        Args:
            claim: Moves an operation to running; None when it cannot be run any more.
            tools: The handlers by name.
            settle: Settles an operation.
            on_started: Called when an attempt starts.
            on_progress: Called with the operation id and the text of a progress.
        """
        self._claim = claim
        self._tools = tools
        self._settle = settle
        self._on_started = on_started
        self._on_progress = on_progress

    async def run(self, operation_id: str) -> None:
        """Run an operation to its end. A handler's failure is an outcome, never an exception here."""
        claim = await self._claim(operation_id)
        if claim is None:
            return
        self._on_started(claim.operation)
        await self._settle(operation_id, await self._attempt(claim), fence=claim.fence)

    async def _attempt(self, claim: Claim) -> Outcome:
        operation = claim.operation
        try:
            result = await self._tools[operation.tool].handler(
                self._context(operation), **operation.arguments
            )
        except asyncio.CancelledError:
            return self._cancelled()
        except Exception as e:
            logger.debug(f"{operation.operation_id} ({operation.tool}) raised {type(e).__name__}")
            return outcome.failed(e)
        return outcome.succeeded(result)

    def _cancelled(self) -> Outcome:
        # A cancel or a deadline settled the operation before it cancelled this task, so what is
        # left is a shutdown, or a handler whose own inner task was cancelled.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return outcome.ABANDONED
        return outcome.failed(RuntimeError("The handler cancelled itself."))

    def _context(self, operation: Operation) -> OperationContext:
        loop = asyncio.get_running_loop()
        deadline = (
            loop.time() + operation.timeout_secs - ((operation.started_at or 0) - operation.accepted_at)
        )

        async def progress(text: str) -> None:
            await self._on_progress(operation.operation_id, text)

        return OperationContext(
            operation_id=operation.operation_id,
            session_id=operation.session_id,
            turn_id=operation.turn_id,
            batch_id=operation.batch_id,
            tool_call_id=operation.tool_call_id,
            idempotency_key=f"{operation.session_id}:{operation.operation_id}",
            attempt=operation.attempts,
            remaining_secs=lambda: max(0.0, deadline - loop.time()),
            progress=progress,
        )
