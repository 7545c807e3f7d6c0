# SPDX-License-Identifier: BSD-2-Clause
"""The port to whatever remembers operations; the coordination plane in one small file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to run an operation.

    Parameters:
        operation: The record, now running.
        fence: Goes with :meth:`Store.finish`: a result under an older fence is refused.
    """

    operation: Operation
    fence: int


class Store(Protocol):
    """Remembers operations and events. Its row is the truth; whoever holds a record holds a copy.

    Every method may raise :class:`~pipecat_async_tools.errors.StoreError`. Nothing on the audio path
    waits for one of them.
    """

    async def accept(self, operation: Operation) -> Operation:
        """Write a new operation and return it as stored, with its time of acceptance."""
        ...

    async def claim(self, operation_id: str) -> Claim | None:
        """Move an operation to running under a new fence; None when it cannot be run any more."""
        ...

    async def record_progress(self, operation_id: str, progress: str) -> Operation | None:
        """Keep the latest progress; None when the operation is settled already."""
        ...

    async def finish(
        self, operation_id: str, outcome: Outcome, *, fence: int | None = None
    ) -> Operation | None:
        """Settle an operation once (compare-and-set).

        Args:
            operation_id: The operation.
            outcome: How it ended.
            fence: The claim it was run under; None for a decision from outside (cancel, deadline).

        Returns:
            The settled record, or None when it was settled before or the fence is old.
        """
        ...

    async def correct(self, operation_id: str, outcome: Outcome) -> Operation | None:
        """Keep a success that came after a time-out, once; None when there is nothing to correct."""
        ...

    async def append(self, event: Event) -> None:
        """Write an event to the append-only log."""
        ...

    async def events(self, session_id: str) -> list[Event]:
        """Return the events of a session, oldest first."""
        ...
