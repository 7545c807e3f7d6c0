# SPDX-License-Identifier: BSD-2-Clause
"""Transitions of operations until they end: accepted once under their intent, claimed, attempted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome, OutcomeClass
from pipecat_async_tools.store import records
from pipecat_async_tools.store.base import OnDuplicate
from pipecat_async_tools.store.rows import Accepted, Claim
from pipecat_async_tools.store.settling import settle, take_off
from pipecat_async_tools.store.transaction import Transaction, intent_of

REPLACED = Outcome(
    status=OperationStatus.CANCELLED,
    outcome_class=OutcomeClass.CANCELLED,
    error="It was replaced by a newer request.",
)


def accept(
    tx: Transaction,
    operations: Sequence[Operation],
    owner: str,
    expected: Sequence[str],
    on_duplicate: OnDuplicate,
) -> tuple[Accepted, ...]:
    """Accept the operations of one call."""
    first = operations[0]
    tx.lock(first.session_id)
    _open_batch(tx, first, owner, expected)
    answers = tuple(_accept_one(tx, operation, owner, on_duplicate) for operation in operations)
    if any(answer.duplicate is None for answer in answers):
        tx.rows("UPDATE batches SET closed_at = NULL WHERE batch_id = ?", first.batch_id)
    take_off(tx, first.batch_id, [first.tool_call_id])
    return answers


def claim(tx: Transaction, operation_id: str, owner: str) -> Claim | None:
    """Take an accepted operation."""
    if not tx.lock_of("operations", "operation_id", operation_id):
        return None
    operation = tx.operation(operation_id)
    if operation is None or operation.adopted or operation.status is not OperationStatus.ACCEPTED:
        return None
    if tx.now >= operation.deadline_at:
        return None
    tx.rows("UPDATE operations SET owner = ?, fence = fence + 1 WHERE operation_id = ?", owner, operation_id)
    running = operation.moved(
        OperationStatus.RUNNING,
        started_at=operation.started_at if operation.started_at is not None else tx.now,
        attempts=operation.attempts + 1,
    )
    _log_started(tx, tx.put_operation(running))
    return Claim(operation=running, fence=fence_of(tx, operation_id))


def record_attempt(
    tx: Transaction,
    operation_id: str,
    fence: int,
    wait_secs: float,
    outcome: Outcome,
    http_status: int | None,
) -> Operation | None:
    """Note that an attempt failed and another follows."""
    if not tx.lock_of("operations", "operation_id", operation_id):
        return None
    operation = tx.operation(operation_id)
    if operation is None or operation.is_settled or fence_of(tx, operation_id) != fence:
        return None
    tx.log_operation(
        "on_operation_attempted",
        operation,
        str(outcome.outcome_class),
        attempt=operation.attempts,
        outcome_class=str(outcome.outcome_class),
        http_status=http_status,
        wait_secs=wait_secs,
        error=outcome.error,
    )
    return tx.put_operation(replace(operation, attempts=operation.attempts + 1))


def record_progress(tx: Transaction, operation_id: str, progress: str) -> Operation | None:
    """Keep the latest progress."""
    if not tx.lock_of("operations", "operation_id", operation_id):
        return None
    operation = tx.operation(operation_id)
    if operation is None or operation.is_settled:
        return None
    tx.log_operation("on_operation_progressed", operation)
    return tx.put_operation(replace(operation, progress=progress))


def fence_of(tx: Transaction, operation_id: str) -> int:
    """Return the fence of an operation that is there."""
    found = tx.row("SELECT fence FROM operations WHERE operation_id = ?", operation_id)
    assert found is not None
    return found[0]


def _open_batch(tx: Transaction, first: Operation, owner: str, expected: Sequence[str]) -> None:
    found = tx.row("SELECT expected FROM batches WHERE batch_id = ?", first.batch_id)
    if found is not None:
        # It must not close by what a duplicate is replaced for, before the new one is in it.
        awaited = records.dumped([*json.loads(found[0]), first.tool_call_id])
        tx.rows("UPDATE batches SET expected = ? WHERE batch_id = ?", awaited, first.batch_id)
        return
    tx.rows(
        "INSERT INTO batches (batch_id, session_id, turn_id, owner, expected, opened_at, native) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        first.batch_id,
        first.session_id,
        first.turn_id,
        owner,
        records.dumped(list(dict.fromkeys([*expected, first.tool_call_id]))),
        tx.now,
        False,
    )
    tx.log(
        Event(
            name="on_batch_opened",
            at=tx.now,
            session_id=first.session_id,
            turn_id=first.turn_id,
            batch_id=first.batch_id,
        )
    )


def _accept_one(tx: Transaction, operation: Operation, owner: str, on_duplicate: OnDuplicate) -> Accepted:
    earlier = _earlier(tx, operation)
    if earlier is None:
        return Accepted(operation=_add(tx, operation, owner))
    if earlier.status is OperationStatus.TIMED_OUT:
        # Nobody knows how far it got, but its service does, by this key.
        again = replace(operation, idempotency_key=earlier.idempotency_key)
        return Accepted(operation=_add(tx, again, owner))
    if on_duplicate == "replace" and not earlier.is_settled:
        replaced = settle(tx, earlier, REPLACED, silent=True).operation
        return Accepted(operation=_add(tx, operation, owner), replaced=replaced)
    duplicate = "rejected" if on_duplicate == "reject" else "joined"
    tx.log_operation("on_operation_joined", earlier, duplicate)
    return Accepted(operation=earlier, duplicate=duplicate)


def _earlier(tx: Transaction, operation: Operation) -> Operation | None:
    """Find the operation of the same intent: one that is not settled, or stands, or ran out of time."""
    intent = intent_of(operation)
    if intent is None:
        return None
    found = tx.row(
        "SELECT record FROM operations WHERE session_id = ? AND intent = ? "
        "AND (settled_at IS NULL OR intent_until >= ?) ORDER BY CASE WHEN settled_at IS NULL THEN 0 "
        "WHEN status = 'timed_out' THEN 2 ELSE 1 END, seq DESC LIMIT 1",
        operation.session_id,
        intent,
        tx.now,
    )
    return records.operation_of(found[0]) if found else None


def _add(tx: Transaction, operation: Operation, owner: str) -> Operation:
    accepted = replace(operation, accepted_at=tx.now)
    if not operation.adopted:
        tx.add_operation(accepted, None)
        tx.log_operation("on_operation_accepted", accepted)
        return accepted
    running = accepted.moved(OperationStatus.RUNNING, started_at=tx.now, attempts=1)
    tx.add_operation(running, owner)
    tx.log_operation("on_operation_accepted", accepted)
    _log_started(tx, running)
    return running


def _log_started(tx: Transaction, operation: Operation) -> None:
    attempt = operation.attempts
    tx.log_operation("on_operation_started", operation, f"attempt {attempt}", attempt=attempt)
