# SPDX-License-Identifier: BSD-2-Clause
"""A store that lives as long as the process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.store.base import Claim

_CORRECTABLE = (OperationStatus.TIMED_OUT, OperationStatus.UNKNOWN)


class MemoryStore:
    """Keeps everything in dictionaries. Times are those of the running event loop."""

    def __init__(self):
        """Initialize an empty store."""
        self._operations: dict[str, Operation] = {}
        self._fences: dict[str, int] = {}
        self._events: defaultdict[str, list[Event]] = defaultdict(list)

    async def accept(self, operation: Operation) -> Operation:
        """Write a new operation and return it as stored, with its time of acceptance."""
        if operation.operation_id in self._operations:
            raise StoreError(f"{operation.operation_id} was accepted before")
        return self._put(replace(operation, accepted_at=self._now()))

    async def claim(self, operation_id: str) -> Claim | None:
        """Move an operation to running under a new fence; None when it cannot be run any more."""
        operation = self._get(operation_id)
        if operation.status is not OperationStatus.ACCEPTED:
            return None
        fence = self._fences[operation_id] = self._fences.get(operation_id, 0) + 1
        running = operation.moved(
            OperationStatus.RUNNING, started_at=self._now(), attempts=operation.attempts + 1
        )
        return Claim(operation=self._put(running), fence=fence)

    async def record_progress(self, operation_id: str, progress: str) -> Operation | None:
        """Keep the latest progress; None when the operation is settled already."""
        operation = self._get(operation_id)
        return None if operation.is_settled else self._put(replace(operation, progress=progress))

    async def finish(
        self, operation_id: str, outcome: Outcome, *, fence: int | None = None
    ) -> Operation | None:
        """Settle an operation once (compare-and-set)."""
        operation = self._get(operation_id)
        if operation.is_settled or (fence is not None and fence != self._fences.get(operation_id)):
            return None
        settled = operation.moved(
            outcome.status,
            settled_at=self._now(),
            result=outcome.result,
            error=outcome.error,
            outcome_class=str(outcome.outcome_class),
        )
        return self._put(settled)

    async def correct(self, operation_id: str, outcome: Outcome) -> Operation | None:
        """Keep a success that came after a time-out, once; None when there is nothing to correct."""
        operation = self._get(operation_id)
        if operation.status not in _CORRECTABLE or outcome.status is not OperationStatus.SUCCEEDED:
            return None
        corrected = replace(
            operation,
            status=outcome.status,
            settled_at=self._now(),
            result=outcome.result,
            error=None,
            outcome_class=str(outcome.outcome_class),
            late=True,
        )
        return self._put(corrected)

    async def append(self, event: Event) -> None:
        """Write an event to the append-only log."""
        self._events[event.session_id].append(event)

    async def events(self, session_id: str) -> list[Event]:
        """Return the events of a session, oldest first."""
        return list(self._events[session_id])

    def _get(self, operation_id: str) -> Operation:
        try:
            return self._operations[operation_id]
        except KeyError:
            raise StoreError(f"{operation_id} is not in this store") from None

    def _put(self, operation: Operation) -> Operation:
        self._operations[operation.operation_id] = operation
        return operation

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
