# SPDX-License-Identifier: BSD-2-Clause
"""How the operations and updates of a call stand, in one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from pipecat_async_tools.console.durations import length
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store.rows import DeliveryRow

_STATUS = {
    OperationStatus.ACCEPTED: "accepted, not started",
    OperationStatus.RUNNING: "still running",
    OperationStatus.TIMED_OUT: "timed out",
    OperationStatus.UNKNOWN: "whether it took effect is not known",
}


def outcome(operation: Operation) -> str:
    """Return how an operation ended, or where it is: "succeeded, 2 attempts, 4.2 s"."""
    words = _STATUS.get(operation.status, str(operation.status))
    if operation.late:
        words += " after all"
    if operation.attempts > 1:
        words += f", {operation.attempts} attempts"
    if operation.settled_at is not None:
        words += f", {length(operation.settled_at - operation.accepted_at)}"
    return words


def delivery_state(row: DeliveryRow, events: Sequence[Event]) -> str:
    """Return what became of an update: "told once, 4.2 s after it was ready".

    Args:
        row: The delivery.
        events: The events of its session.
    """
    if row.state == "spoken":
        times = "told once" if len(row.tellings) <= 1 else f"told on try {len(row.tellings)}"
        after = _told_after(row, events)
        return times if after is None else f"{times}, {length(after)} after it was ready"
    if row.state == "pending":
        return f"not told yet: {_waits_for(row, events)}"
    if row.state == "telling":
        return "being told"
    if row.state == "suppressed":
        return f"not told: {row.reason}"
    return f"could not be told: {row.reason}"


def _told_after(row: DeliveryRow, events: Sequence[Event]) -> float | None:
    spoken_at = next(
        (e.at for e in events if e.name == "on_delivery_spoken" and e.delivery_id == row.delivery_id), None
    )
    if spoken_at is None:
        return None
    told = next((t for t in row.tellings if t.outcome == "completed"), None)
    # A telling is timed on the call's own clock: only its length can be taken over.
    lasted = told.ended_at - told.started_at if told is not None and told.started_at is not None else 0.0
    return max(0.0, spoken_at - lasted - row.ready_at)


def _waits_for(row: DeliveryRow, events: Sequence[Event]) -> str:
    mine = [e for e in events if e.name == "on_delivery_waiting" and e.delivery_id == row.delivery_id]
    return (mine[-1].reason if mine else row.reason) or "it waits for the caller"
