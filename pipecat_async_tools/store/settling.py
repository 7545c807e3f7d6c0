# SPDX-License-Identifier: BSD-2-Clause
"""Transitions at the end of operations: settled once, their batch closed, its delivery made, corrections."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED, Outcome, timed_out
from pipecat_async_tools.store import records
from pipecat_async_tools.store.letters import close_letters_of, open_letter
from pipecat_async_tools.store.rows import DeliveryRow, DeliveryState, Finished, delivery_id, why_dead
from pipecat_async_tools.store.transaction import Transaction

_CORRECTABLE = (OperationStatus.TIMED_OUT, OperationStatus.UNKNOWN)


def finish(
    tx: Transaction,
    operation_id: str,
    outcome: Outcome,
    fence: int | None,
    silent: bool,
    http_status: int | None,
) -> Finished | None:
    """Settle an operation, or correct one that was given up too early."""
    if not tx.lock_of("operations", "operation_id", operation_id):
        return None
    operation = tx.operation(operation_id)
    if operation is None:
        return None
    if operation.is_settled:
        return _correct(tx, operation, outcome)
    found = tx.row("SELECT fence FROM operations WHERE operation_id = ?", operation_id)
    if fence is not None and found is not None and found[0] != fence:
        return None
    return settle(tx, operation, outcome, silent=silent, http_status=http_status)


def settle(
    tx: Transaction,
    operation: Operation,
    outcome: Outcome,
    *,
    silent: bool = False,
    http_status: int | None = None,
) -> Finished:
    """Settle an operation that is not settled, whose session is locked."""
    settled = operation.moved(
        outcome.status,
        settled_at=tx.now,
        result=outcome.result,
        error=outcome.error,
        outcome_class=str(outcome.outcome_class),
        silent=silent or operation.silent,
    )
    tx.put_operation(settled)
    tx.log_operation(
        "on_operation_settled",
        settled,
        str(settled.status),
        attempt=settled.attempts,
        outcome_class=settled.outcome_class,
        http_status=http_status,
    )
    why = why_dead(settled)
    letter = open_letter(tx, settled, why) if why else None
    delivery = close_if_complete(tx, settled.batch_id)
    return Finished(operation=settled, delivery=delivery, dead_letter=letter)


def dismiss(tx: Transaction, batch_id: str, call_ids: Sequence[str]) -> DeliveryRow | None:
    """Take calls off what a batch waits for."""
    return take_off(tx, batch_id, call_ids) if tx.lock_of("batches", "batch_id", batch_id) else None


def take_off(tx: Transaction, batch_id: str, call_ids: Sequence[str] | None) -> DeliveryRow | None:
    """Take calls (all, if None) off what a batch waits for, whose session is locked."""
    found = tx.row("SELECT expected FROM batches WHERE batch_id = ?", batch_id)
    if found is None:
        return None
    left = [] if call_ids is None else [c for c in json.loads(found[0]) if c not in call_ids]
    tx.rows("UPDATE batches SET expected = ? WHERE batch_id = ?", records.dumped(left), batch_id)
    return close_if_complete(tx, batch_id)


def answer_natively(tx: Transaction, batch_id: str) -> None:
    """Note that a batch owes no update."""
    if not tx.lock_of("batches", "batch_id", batch_id):
        return
    tx.rows("UPDATE batches SET native = TRUE WHERE batch_id = ?", batch_id)
    for row in tx.deliveries("batch_id = ? AND state = 'pending'", batch_id):
        tx.put_delivery(replace(row, state="suppressed", reason="answered at once"))
        tx.log_delivery("on_delivery_suppressed", row, "answered at once")


def recover_operation(tx: Transaction, operation_id: str) -> Finished | Operation | None:
    """See to an operation whose owner is dead or whose time is up, if that is still so."""
    if not tx.lock_of("operations", "operation_id", operation_id):
        return None
    operation = tx.operation(operation_id)
    if operation is None or operation.is_settled:
        return None
    late = tx.now >= operation.deadline_at
    if operation.status is OperationStatus.ACCEPTED:
        return settle(tx, operation, timed_out(operation.timeout_secs)) if late else None
    found = tx.row("SELECT owner FROM operations WHERE operation_id = ?", operation_id)
    if found is not None and is_alive(tx, found[0]):
        return None
    if operation.adopted or not operation.idempotent:
        return settle(tx, operation, ABANDONED)
    if late:
        return settle(tx, operation, timed_out(operation.timeout_secs))
    tx.rows(
        "UPDATE operations SET owner = NULL, available_at = ? WHERE operation_id = ?", tx.now, operation_id
    )
    again = tx.put_operation(replace(operation, status=OperationStatus.ACCEPTED))
    tx.log_operation("on_operation_recovered", again, "its process was gone")
    return again


def recover_batch(tx: Transaction, batch_id: str) -> DeliveryRow | None:
    """Let a batch of a dead owner wait no longer for what never started."""
    if not tx.lock_of("batches", "batch_id", batch_id):
        return None
    found = tx.row("SELECT owner FROM batches WHERE batch_id = ?", batch_id)
    if found is None or is_alive(tx, found[0]):
        return None
    return take_off(tx, batch_id, None)


def is_alive(tx: Transaction, owner: str | None) -> bool:
    """Whether an owner's lease has not run out."""
    found = tx.row("SELECT lease_until FROM owners WHERE owner = ?", owner) if owner else None
    return found is not None and found[0] > tx.now


def close_if_complete(tx: Transaction, batch_id: str) -> DeliveryRow | None:
    """Close a batch whose every member is accounted for, and return the delivery it makes."""
    found = tx.row(
        "SELECT expected, closed_at, native, session_id, turn_id FROM batches WHERE batch_id = ?", batch_id
    )
    if found is None or found[1] is not None or found[0] != "[]":
        return None
    unsettled = tx.row(
        "SELECT 1 FROM operations WHERE batch_id = ? AND status IN ('accepted', 'running') LIMIT 1", batch_id
    )
    if unsettled is not None:
        return None
    _, _, native, session_id, turn_id = found
    tx.rows("UPDATE batches SET closed_at = ? WHERE batch_id = ?", tx.now, batch_id)
    tx.log(
        Event(name="on_batch_closed", at=tx.now, session_id=session_id, turn_id=turn_id, batch_id=batch_id)
    )
    return _owe_the_rest(tx, batch_id, native=native)


def deliver_part(tx: Transaction, batch_id: str) -> DeliveryRow | None:
    """Make a delivery of what has settled of a batch that is open and goes on."""
    if not tx.lock_of("batches", "batch_id", batch_id):
        return None
    found = tx.row("SELECT closed_at, native FROM batches WHERE batch_id = ?", batch_id)
    if found is None or found[0] is not None or found[1]:
        return None
    return _owe_the_rest(tx, batch_id, native=False, reason="partial")


def _owe_the_rest(tx: Transaction, batch_id: str, *, native: bool, reason: str = "") -> DeliveryRow | None:
    """Make a delivery of the settled operations of a batch that no delivery holds yet."""
    untold = tx.rows(
        "SELECT record FROM operations WHERE batch_id = ? AND untold = TRUE ORDER BY seq", batch_id
    )
    left = [records.operation_of(row[0]) for row in untold]
    # What was answered at once needs no telling; what was replayed since then does.
    left = [o for o in left if o.is_settled and (not native or o.replays)]
    if not left:
        return None
    first = tx.row("SELECT 1 FROM deliveries WHERE batch_id = ? LIMIT 1", batch_id) is None
    return _owe(tx, delivery_id(batch_id, None if first else left[0]), left, reason=reason)


def _owe(
    tx: Transaction,
    name: str,
    operations: Sequence[Operation],
    *,
    correction: bool = False,
    state: DeliveryState = "pending",
    reason: str = "",
) -> DeliveryRow:
    row = DeliveryRow(
        delivery_id=name,
        session_id=operations[0].session_id,
        batch_id=operations[0].batch_id,
        turn_id=operations[0].turn_id,
        operations=tuple(operations),
        state=state,
        reason=reason,
        ready_at=tx.now,
        correction=correction,
    )
    tx.add_delivery(row)
    event = "on_delivery_ready" if state == "pending" else "on_delivery_suppressed"
    tx.log_delivery(event, row, reason or ("correction" if correction else ""))
    return row


def _correct(tx: Transaction, operation: Operation, outcome: Outcome) -> Finished | None:
    if operation.status not in _CORRECTABLE or outcome.status is not OperationStatus.SUCCEEDED:
        return None
    corrected = replace(
        operation,
        status=outcome.status,
        settled_at=tx.now,
        result=outcome.result,
        error=None,
        outcome_class=str(outcome.outcome_class),
        late=True,
    )
    tx.put_operation(corrected)
    tx.log_operation("on_operation_corrected", corrected, "succeeded after all")
    close_letters_of(tx, operation.operation_id, "succeeded after all")
    # One that was replayed and is still to be told is held by none, whatever told it before.
    holders = tx.deliveries(
        "delivery_id IN (SELECT t.delivery_id FROM told t JOIN operations o "
        "ON o.operation_id = t.operation_id WHERE t.operation_id = ? AND o.untold = FALSE)",
        operation.operation_id,
    )
    delivery = tell_correction(tx, holders[-1], corrected) if holders else None
    return Finished(operation=corrected, corrected=True, delivery=delivery)


def tell_correction(tx: Transaction, holder: DeliveryRow, operation: Operation) -> DeliveryRow | None:
    """Decide how a correction is told, by what became of the delivery that holds the operation."""
    if holder.state == "pending":
        return None
    if holder.state == "telling":
        waiting = tx.waiting_corrections(holder.delivery_id)
        tx.put_delivery(holder, [*waiting, operation.operation_id])
        return None
    name = delivery_id(operation.batch_id, operation, corrected=True)
    if holder.state == "spoken":
        return _owe(tx, name, [operation], correction=True)
    never = "it was never told"
    return _owe(tx, name, [operation], correction=True, state="suppressed", reason=never)
