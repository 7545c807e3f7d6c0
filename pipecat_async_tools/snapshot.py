# SPDX-License-Identifier: BSD-2-Clause
"""A session at one moment, for interfaces and tests: the call's own view, and the store's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipecat_async_tools.batches.batch import BatchState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.operations.batch_scope import is_latch
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import BatchRow, DeliveryRow

SyncMode = Literal["idle", "waiting", "aggregating", "queued_final", "proactive", "next_turn"]


@dataclass(frozen=True, kw_only=True)
class BatchSnapshot:
    """A batch at one moment.

    Parameters:
        batch_id: The batch.
        turn_id: The caller's turn.
        operation_ids: Its operations.
        missing: Ids of the calls it still waits for.
        closed: Whether it has closed.
        held_open: Whether calls of later turns may still join it.
    """

    batch_id: str
    turn_id: str
    operation_ids: tuple[str, ...]
    missing: tuple[str, ...]
    closed: bool
    held_open: bool = False

    @classmethod
    def of(cls, batch: BatchState) -> BatchSnapshot:
        """Take the snapshot of a batch of this call."""
        return cls(
            batch_id=batch.batch_id,
            turn_id=batch.turn_id,
            operation_ids=tuple(batch.operations),
            missing=batch.missing,
            closed=batch.closed,
            held_open=batch.held_open,
        )

    @classmethod
    def of_row(cls, row: BatchRow, operations: Sequence[Operation]) -> BatchSnapshot:
        """Take the snapshot of a batch as the store has it."""
        running = [o.tool_call_id for o in operations if o.batch_id == row.batch_id and not o.is_settled]
        expected = [call_id for call_id in row.expected if not is_latch(call_id)]
        return cls(
            batch_id=row.batch_id,
            turn_id=row.turn_id,
            operation_ids=row.operation_ids,
            missing=(*expected, *dict.fromkeys(running)),
            closed=row.closed_at is not None,
            held_open=len(expected) < len(row.expected),
        )


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot:
    """A session at one moment.

    Parameters:
        session_id: The caller's session.
        operations: Its operations with their attempts, oldest first.
        batches: Its batches with what is missing, oldest first.
        deliveries: Its deliveries, oldest first, each with its state and reason, how it is told
            (``mode``), its tellings and the words heard.
    """

    session_id: str
    operations: tuple[Operation, ...]
    batches: tuple[BatchSnapshot, ...]
    deliveries: tuple[Envelope | DeliveryRow, ...]

    @property
    def sync_mode(self) -> SyncMode:
        """What stands between running work and the caller, in one word.

        "proactive": an update is being told by itself. "next_turn": one is to be told, or is being
        told, with the answer to the caller. "queued_final": one is complete and waits. "aggregating":
        some of a batch has ended and the rest is waited for. "waiting": work runs. "idle": nothing.
        """
        telling = [d.mode for d in self.deliveries if d.state == "telling"]
        if telling:
            return "next_turn" if "next_turn" in telling else "proactive"
        if any(d.state == "pending" for d in self.deliveries):
            return "queued_final"
        running = {o.operation_id for o in self.operations if not o.is_settled}
        for batch in self.batches:
            ended = [name for name in batch.operation_ids if name not in running]
            if not batch.closed and ended and (batch.missing or batch.held_open):
                return "aggregating"
        return "waiting" if running else "idle"


async def session_view(store: Store, session_id: str) -> SessionSnapshot:
    """Return a session as the store has it, for whoever is not in the call.

    Raises:
        StoreError: The store did not answer.
    """
    operations = await store.operations(session_id)
    batches = await store.batches(session_id)
    return SessionSnapshot(
        session_id=session_id,
        operations=tuple(operations),
        batches=tuple(BatchSnapshot.of_row(row, operations) for row in batches),
        deliveries=tuple(await store.deliveries(session_id)),
    )
