# SPDX-License-Identifier: BSD-2-Clause
"""Deleting what is over from an SQL store, in small steps, since a call may be going on meanwhile."""

from __future__ import annotations

from pipecat_async_tools.store.transaction import Transaction

Place = tuple[float, int]
"""How far a step came: a time, and a row of that time."""

START: Place = (0.0, 0)
_BATCHES_AT_ONCE = 100
_EVENTS_AT_ONCE = 2000


def prune_batches(
    tx: Transaction, older_than_secs: float, place: Place
) -> tuple[dict[str, int], Place | None]:
    """Delete the next batches that are over with all that hangs on them; the place is None at the end."""
    deleted = {"operations": 0, "deliveries": 0, "dead_letters": 0}
    some = tx.rows(
        "SELECT batch_id, session_id, closed_at, seq FROM batches "
        "WHERE closed_at < ? AND (closed_at, seq) > (?, ?) ORDER BY closed_at, seq LIMIT ?",
        tx.now - older_than_secs,
        *place,
        _BATCHES_AT_ONCE,
    )
    # In one order, so that two who prune at once do not wait for each other's sessions.
    for batch_id, session_id, closed_at, _ in sorted(some, key=lambda row: row[1]):
        tx.lock(session_id)
        if _is_over(tx, batch_id, closed_at):
            _delete_batch(tx, batch_id, deleted)
    return deleted, (some[-1][2], some[-1][3]) if len(some) == _BATCHES_AT_ONCE else None


def prune_events(
    tx: Transaction, older_than_secs: float, place: Place
) -> tuple[dict[str, int], Place | None]:
    """Delete the next events that are older than all that is left; the place is None at the end."""
    before = tx.now - older_than_secs
    some = tx.rows(
        "SELECT at, seq, session_id FROM events WHERE at < ? AND (at, seq) > (?, ?) ORDER BY at, seq LIMIT ?",
        before,
        *place,
        _EVENTS_AT_ONCE,
    )
    if not some:
        return {"events": 0}, None
    last = (some[-1][0], some[-1][1])
    gone = tx.rows(
        "DELETE FROM events WHERE (at, seq) > (?, ?) AND (at, seq) <= (?, ?) AND at < COALESCE("
        "(SELECT MIN(b.opened_at) FROM batches b WHERE b.session_id = events.session_id), ?) RETURNING 1",
        *place,
        *last,
        before,
    )
    return {"events": len(gone)}, last


def prune_sessions(tx: Transaction, older_than_secs: float) -> dict[str, int]:
    """Delete dead owners, and the sessions without anything."""
    # Since when nobody is there is still to be known when the owner is forgotten.
    tx.rows(
        "UPDATE sessions SET released_at = (SELECT lease_until FROM owners w WHERE w.owner = sessions.owner) "
        "WHERE owner IN (SELECT owner FROM owners WHERE lease_until <= ?)",
        tx.now,
    )
    tx.rows("DELETE FROM owners WHERE lease_until <= ?", tx.now)
    gone = tx.rows(
        "DELETE FROM sessions WHERE last_at < ? "
        "AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.session_id = sessions.session_id) "
        "AND NOT EXISTS (SELECT 1 FROM events e WHERE e.session_id = sessions.session_id) "
        "AND NOT EXISTS (SELECT 1 FROM owners w WHERE w.owner = sessions.owner) RETURNING 1",
        tx.now - older_than_secs,
    )
    return {"sessions": len(gone)}


def _is_over(tx: Transaction, batch_id: str, closed_at: float) -> bool:
    found = tx.row(
        """SELECT 1 FROM batches b WHERE batch_id = ? AND closed_at = ?
        AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.batch_id = b.batch_id
            AND (o.settled_at IS NULL OR o.intent_until >= ?))
        AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.batch_id = b.batch_id
            AND d.state IN ('pending', 'telling'))
        AND NOT EXISTS (SELECT 1 FROM operations o JOIN dead_letters l ON l.subject_id = o.operation_id
            WHERE o.batch_id = b.batch_id AND l.closed_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM deliveries d JOIN dead_letters l ON l.subject_id = d.delivery_id
            WHERE d.batch_id = b.batch_id AND l.closed_at IS NULL)""",
        batch_id,
        closed_at,
        tx.now,
    )
    return found is not None


def _delete_batch(tx: Transaction, batch_id: str, deleted: dict[str, int]) -> None:
    for table, key in (("operations", "operation_id"), ("deliveries", "delivery_id")):
        subjects = f"SELECT {key} FROM {table} WHERE batch_id = ?"
        letters = tx.rows(f"DELETE FROM dead_letters WHERE subject_id IN ({subjects}) RETURNING 1", batch_id)
        deleted["dead_letters"] += len(letters)
    tx.rows(
        "DELETE FROM told WHERE delivery_id IN (SELECT delivery_id FROM deliveries WHERE batch_id = ?)",
        batch_id,
    )
    for table in ("operations", "deliveries"):
        deleted[table] += len(tx.rows(f"DELETE FROM {table} WHERE batch_id = ? RETURNING 1", batch_id))
    tx.rows("DELETE FROM batches WHERE batch_id = ?", batch_id)
