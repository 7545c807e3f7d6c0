# SPDX-License-Identifier: BSD-2-Clause
"""The tables of the SQL stores, and how an older database becomes a newer one."""

from __future__ import annotations

# What is searched for is a column; the rest of a record is JSON. `{serial}` numbers rows in the order
# in which they were written, `{logged}` is what else a dialect needs to read its log in order.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE owners (owner TEXT PRIMARY KEY, lease_until DOUBLE PRECISION NOT NULL)",
        """CREATE TABLE sessions (
            session_id TEXT PRIMARY KEY, owner TEXT, fence BIGINT NOT NULL DEFAULT 0,
            released_at DOUBLE PRECISION, first_at DOUBLE PRECISION NOT NULL,
            last_at DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX sessions_last ON sessions (last_at)",
        """CREATE TABLE operations (
            seq {serial}, operation_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
            batch_id TEXT NOT NULL, status TEXT NOT NULL, intent TEXT,
            adopted BOOLEAN NOT NULL, owner TEXT, fence BIGINT NOT NULL DEFAULT 0,
            available_at DOUBLE PRECISION NOT NULL, deadline_at DOUBLE PRECISION NOT NULL,
            settled_at DOUBLE PRECISION, intent_until DOUBLE PRECISION,
            untold BOOLEAN NOT NULL, record TEXT NOT NULL)""",
        "CREATE INDEX operations_session ON operations (session_id, seq)",
        "CREATE INDEX operations_batch ON operations (batch_id, seq)",
        "CREATE INDEX operations_intent ON operations (session_id, intent, seq) WHERE intent IS NOT NULL",
        "CREATE INDEX operations_accepted ON operations (available_at, seq) WHERE status = 'accepted'",
        "CREATE INDEX operations_deadline ON operations (deadline_at) WHERE status = 'accepted'",
        "CREATE INDEX operations_running ON operations (owner) WHERE status = 'running'",
        """CREATE TABLE batches (
            seq {serial}, batch_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
            turn_id TEXT NOT NULL, owner TEXT NOT NULL, expected TEXT NOT NULL,
            opened_at DOUBLE PRECISION NOT NULL, closed_at DOUBLE PRECISION, native BOOLEAN NOT NULL)""",
        "CREATE INDEX batches_session ON batches (session_id, seq)",
        "CREATE INDEX batches_opened ON batches (session_id, opened_at)",
        "CREATE INDEX batches_closed ON batches (closed_at, seq) WHERE closed_at IS NOT NULL",
        "CREATE INDEX batches_waiting ON batches (owner) WHERE expected <> '[]'",
        """CREATE TABLE deliveries (
            seq {serial}, delivery_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
            batch_id TEXT NOT NULL, state TEXT NOT NULL, telling_id TEXT,
            ready_at DOUBLE PRECISION NOT NULL, waiting_from DOUBLE PRECISION NOT NULL,
            record TEXT NOT NULL)""",
        "CREATE INDEX deliveries_session ON deliveries (session_id, seq)",
        "CREATE INDEX deliveries_batch ON deliveries (batch_id)",
        "CREATE INDEX deliveries_telling ON deliveries (telling_id) WHERE telling_id IS NOT NULL",
        """CREATE INDEX deliveries_open ON deliveries (session_id, seq)
            WHERE state IN ('pending', 'telling')""",
        """CREATE INDEX deliveries_waiting ON deliveries (waiting_from, seq)
            WHERE state IN ('pending', 'telling')""",
        """CREATE TABLE told (
            delivery_id TEXT NOT NULL, place INTEGER NOT NULL, operation_id TEXT NOT NULL,
            PRIMARY KEY (delivery_id, place))""",
        "CREATE INDEX told_operation ON told (operation_id)",
        """CREATE TABLE dead_letters (
            seq {serial}, letter_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, subject_id TEXT NOT NULL,
            session_id TEXT NOT NULL, reason TEXT NOT NULL, opened_at DOUBLE PRECISION NOT NULL,
            closed_at DOUBLE PRECISION, note TEXT NOT NULL DEFAULT '')""",
        "CREATE INDEX dead_letters_subject ON dead_letters (subject_id)",
        "CREATE INDEX dead_letters_open ON dead_letters (seq) WHERE closed_at IS NULL",
        "CREATE INDEX dead_letters_session ON dead_letters (session_id, seq)",
        """CREATE TABLE events (
            seq {serial}, {logged} session_id TEXT NOT NULL, at DOUBLE PRECISION NOT NULL,
            record TEXT NOT NULL)""",
        "CREATE INDEX events_session ON events (session_id, {log_order})",
        "CREATE INDEX events_order ON events ({log_order})",
        "CREATE INDEX events_at ON events (at, seq)",
    ),
)
