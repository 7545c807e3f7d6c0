# SPDX-License-Identifier: BSD-2-Clause
"""Transitions of dead letters: opened, sent on their way again, closed."""

from __future__ import annotations

from dataclasses import replace

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store.rows import DeadLetter, DeliveryRow
from pipecat_async_tools.store.transaction import Row, Transaction

COLUMNS = "letter_id, kind, subject_id, session_id, reason, opened_at, closed_at, note"


def open_letter(tx: Transaction, about: Operation | DeliveryRow, reason: str) -> str:
    """Open a dead letter, and return its id."""
    is_operation = isinstance(about, Operation)
    subject = about.operation_id if is_operation else about.delivery_id
    count = len(tx.rows("SELECT 1 FROM dead_letters WHERE subject_id = ?", subject))
    letter_id = f"dead-{subject}" + (f"-{count + 1}" if count else "")
    tx.rows(
        "INSERT INTO dead_letters (letter_id, kind, subject_id, session_id, reason, opened_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        letter_id,
        "operation" if is_operation else "delivery",
        subject,
        about.session_id,
        reason,
        tx.now,
    )
    _log(tx, "on_dead_letter_opened", about, letter_id, reason)
    return letter_id


def close_letters_of(tx: Transaction, subject_id: str, note: str) -> None:
    """Close the open letters about an operation or a delivery."""
    open_ones = tx.rows(
        "SELECT letter_id FROM dead_letters WHERE subject_id = ? AND closed_at IS NULL", subject_id
    )
    for (letter_id,) in open_ones:
        _close(tx, letter(tx, letter_id), note)


def close(tx: Transaction, letter_id: str, note: str) -> DeadLetter:
    """Close a dead letter by hand."""
    return _close(tx, _open_one(tx, letter_id), note)


def replay(tx: Transaction, letter_id: str) -> DeadLetter:
    """Send a dead letter on its way again."""
    dead = _open_one(tx, letter_id)
    if dead.operation is not None:
        _replay_operation(tx, dead.operation)
    elif dead.delivery is not None:
        if dead.delivery.state != "undeliverable":
            raise StoreError(f"{letter_id}: {dead.delivery.delivery_id} is {dead.delivery.state}")
        tx.put_delivery(replace(dead.delivery, state="pending", reason="replayed"))
        tx.rows(
            "UPDATE deliveries SET waiting_from = ? WHERE delivery_id = ?", tx.now, dead.delivery.delivery_id
        )
        tx.log_delivery("on_delivery_replayed", dead.delivery, "replayed by hand")
    return _close(tx, dead, "replayed")


def find(tx: Transaction, letter_id: str) -> DeadLetter | None:
    """Read a dead letter."""
    found = tx.row(f"SELECT {COLUMNS} FROM dead_letters WHERE letter_id = ?", letter_id)
    return letter_of(tx, found) if found is not None else None


def letter(tx: Transaction, letter_id: str) -> DeadLetter:
    """Read a dead letter that is there."""
    found = find(tx, letter_id)
    if found is None:
        raise StoreError(f"there is no dead letter {letter_id}")
    return found


def letter_of(tx: Transaction, row: Row) -> DeadLetter:
    """Read a dead letter from its columns."""
    letter_id, kind, subject_id, session_id, reason, opened_at, closed_at, note = row
    return DeadLetter(
        letter_id=letter_id,
        kind=kind,
        session_id=session_id,
        reason=reason,
        operation=tx.operation(subject_id) if kind == "operation" else None,
        delivery=tx.delivery(subject_id) if kind == "delivery" else None,
        opened_at=opened_at,
        closed_at=closed_at,
        note=note,
    )


def _open_one(tx: Transaction, letter_id: str) -> DeadLetter:
    tx.lock_of("dead_letters", "letter_id", letter_id)
    dead = letter(tx, letter_id)
    if dead.closed_at is not None:
        raise StoreError(f"{letter_id} is closed: {dead.note}")
    return dead


def _close(tx: Transaction, dead: DeadLetter, note: str) -> DeadLetter:
    tx.rows(
        "UPDATE dead_letters SET closed_at = ?, note = ? WHERE letter_id = ?", tx.now, note, dead.letter_id
    )
    about = dead.operation or dead.delivery
    assert about is not None
    _log(tx, "on_dead_letter_closed", about, dead.letter_id, note)
    return letter(tx, dead.letter_id)


def _replay_operation(tx: Transaction, operation: Operation) -> None:
    name = operation.operation_id
    if operation.adopted:
        raise StoreError(f"{name} was run by Pipecat itself and cannot be replayed; close its letter instead")
    if not operation.is_settled:
        raise StoreError(f"{name} is {operation.status}: there is nothing to replay")
    again = replace(
        operation,
        status=OperationStatus.ACCEPTED,
        replays=operation.replays + 1,
        accepted_at=tx.now,
        settled_at=None,
        result=None,
        error=None,
        outcome_class=None,
        progress=None,
        late=False,
    )
    _let_go(tx, name)
    tx.put_operation(again)
    tx.rows(
        "UPDATE operations SET owner = NULL, available_at = ?, untold = TRUE WHERE operation_id = ?",
        tx.now,
        name,
    )
    tx.rows("UPDATE batches SET closed_at = NULL WHERE batch_id = ?", operation.batch_id)
    tx.log_operation("on_operation_replayed", again, "replayed by hand")


def _let_go(tx: Transaction, operation_id: str) -> None:
    """Take an operation out of the pending deliveries that hold it."""
    holders = tx.deliveries(
        "state = 'pending' AND delivery_id IN (SELECT delivery_id FROM told WHERE operation_id = ?)",
        operation_id,
    )
    for row in holders:
        if len(row.operations) > 1:
            tx.rows(
                "DELETE FROM told WHERE delivery_id = ? AND operation_id = ?", row.delivery_id, operation_id
            )
        else:
            tx.put_delivery(replace(row, state="suppressed", reason="replayed"))
            tx.log_delivery("on_delivery_suppressed", row, "replayed")


def _log(tx: Transaction, name: str, about: Operation | DeliveryRow, letter_id: str, reason: str) -> None:
    if isinstance(about, Operation):
        tx.log_operation(name, about, reason, letter_id=letter_id)
    else:
        tx.log_delivery(name, about, reason, letter_id=letter_id)
