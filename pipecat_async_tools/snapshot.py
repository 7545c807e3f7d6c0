# SPDX-License-Identifier: BSD-2-Clause
"""A call at one moment, for interfaces and tests."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_async_tools.batches.batch import BatchState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.operations.operation import Operation


@dataclass(frozen=True, kw_only=True)
class BatchSnapshot:
    """A batch at one moment.

    Parameters:
        batch_id: The batch.
        turn_id: The caller's turn.
        operation_ids: Its operations.
        missing: Ids of the calls it still waits for.
        closed: Whether it has closed.
    """

    batch_id: str
    turn_id: str
    operation_ids: tuple[str, ...]
    missing: tuple[str, ...]
    closed: bool

    @classmethod
    def of(cls, batch: BatchState) -> BatchSnapshot:
        """Take the snapshot of a batch."""
        return cls(
            batch_id=batch.batch_id,
            turn_id=batch.turn_id,
            operation_ids=tuple(batch.operations),
            missing=batch.missing,
            closed=batch.closed,
        )


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot:
    """A call at one moment.

    Parameters:
        session_id: The caller's session.
        operations: Its operations, oldest first.
        batches: Its batches, oldest first.
        deliveries: Its deliveries, oldest first, each with its tellings.
    """

    session_id: str
    operations: tuple[Operation, ...]
    batches: tuple[BatchSnapshot, ...]
    deliveries: tuple[Envelope, ...]
