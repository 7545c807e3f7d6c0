# SPDX-License-Identifier: BSD-2-Clause
"""What is read of an SQL store without changing it."""

from __future__ import annotations

import json

from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store import records
from pipecat_async_tools.store.letters import COLUMNS, letter_of
from pipecat_async_tools.store.rows import BatchRow, DeadLetter, SessionRow
from pipecat_async_tools.store.transaction import Transaction


def overdue(tx: Transaction, after_secs: float, limit: int) -> list[Operation]:
    """Read the operations that nobody has claimed for too long."""
    found = tx.rows(
        "SELECT record FROM operations WHERE status = 'accepted' AND adopted = FALSE "
        "AND available_at <= ? AND deadline_at > ? ORDER BY available_at, seq LIMIT ?",
        tx.now - after_secs,
        tx.now,
        limit,
    )
    return [records.operation_of(row[0]) for row in found]


def left_operations(tx: Transaction, limit: int) -> list[str]:
    """Read the ids of operations that nobody runs, or whose time is up."""
    dead = tx.rows(
        "SELECT operation_id FROM operations o LEFT JOIN owners w ON w.owner = o.owner "
        "WHERE status = 'running' AND (w.lease_until IS NULL OR w.lease_until <= ?) LIMIT ?",
        tx.now,
        limit,
    )
    late = tx.rows(
        "SELECT operation_id FROM operations WHERE status = 'accepted' AND deadline_at <= ? LIMIT ?",
        tx.now,
        limit,
    )
    return [row[0] for row in [*dead, *late]][:limit]


def left_batches(tx: Transaction, limit: int) -> list[str]:
    """Read the ids of batches that wait for calls of a dead owner."""
    found = tx.rows(
        "SELECT batch_id FROM batches b LEFT JOIN owners w ON w.owner = b.owner "
        "WHERE expected <> '[]' AND (w.lease_until IS NULL OR w.lease_until <= ?) LIMIT ?",
        tx.now,
        limit,
    )
    return [row[0] for row in found]


def unheld_deliveries(tx: Transaction, unheld_secs: float, session_id: str | None) -> list[str]:
    """Read the ids of deliveries that have waited for so long, whose session nobody alive holds."""
    mine, values = _only(session_id, "d.session_id")
    found = tx.rows(
        "SELECT d.delivery_id FROM deliveries d JOIN sessions s ON s.session_id = d.session_id "
        f"LEFT JOIN owners w ON w.owner = s.owner WHERE {mine}d.state IN ('pending', 'telling') "
        "AND d.waiting_from <= ? AND (w.lease_until IS NULL OR w.lease_until <= ?) "
        "ORDER BY d.waiting_from, d.seq",
        *values,
        tx.now - unheld_secs,
        tx.now,
    )
    return [row[0] for row in found]


def batches(tx: Transaction, session_id: str) -> list[BatchRow]:
    """Read the batches of a session."""
    found = tx.rows(
        "SELECT batch_id, session_id, turn_id, owner, expected, opened_at, closed_at, native "
        "FROM batches WHERE session_id = ? ORDER BY seq",
        session_id,
    )
    return [
        BatchRow(
            batch_id=batch_id,
            session_id=session,
            turn_id=turn_id,
            owner=owner,
            expected=tuple(json.loads(expected)),
            operation_ids=tuple(o.operation_id for o in tx.operations("batch_id", batch_id)),
            opened_at=opened_at,
            closed_at=closed_at,
            native=bool(native),
        )
        for batch_id, session, turn_id, owner, expected, opened_at, closed_at, native in found
    ]


def dead_letters(
    tx: Transaction, session_id: str | None, include_closed: bool, limit: int
) -> list[DeadLetter]:
    """Read dead letters."""
    mine, values = _only(session_id, "session_id")
    which = "TRUE" if include_closed else "closed_at IS NULL"
    found = tx.rows(
        f"SELECT {COLUMNS} FROM dead_letters WHERE {mine}{which} ORDER BY seq LIMIT ?", *values, limit
    )
    return [letter_of(tx, row) for row in found]


def sessions(tx: Transaction, limit: int) -> list[SessionRow]:
    """Read the sessions, the latest first."""
    found = tx.rows(
        """SELECT s.session_id, CASE WHEN w.lease_until > ? THEN s.owner END, s.first_at, s.last_at,
            (SELECT COUNT(*) FROM operations o WHERE o.session_id = s.session_id),
            (SELECT COUNT(*) FROM operations o WHERE o.session_id = s.session_id AND o.settled_at IS NULL),
            (SELECT COUNT(*) FROM deliveries d
                WHERE d.session_id = s.session_id AND d.state IN ('pending', 'telling')),
            (SELECT COUNT(*) FROM dead_letters l
                WHERE l.session_id = s.session_id AND l.closed_at IS NULL)
        FROM (SELECT * FROM sessions ORDER BY last_at DESC LIMIT ?) s
        LEFT JOIN owners w ON w.owner = s.owner ORDER BY s.last_at DESC""",
        tx.now,
        limit,
    )
    names = list(SessionRow.__dataclass_fields__)
    return [SessionRow(**dict(zip(names, row, strict=True))) for row in found]


def _only(session_id: str | None, column: str) -> tuple[str, list[str]]:
    return ("", []) if session_id is None else (f"{column} = ? AND ", [session_id])
