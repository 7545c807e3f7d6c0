# SPDX-License-Identifier: BSD-2-Clause
"""One transaction on an SQL store, and what every transition needs of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store import records
from pipecat_async_tools.store.rows import DeliveryRow

Row = Sequence[Any]

_WITH_WINDOW = (OperationStatus.SUCCEEDED, OperationStatus.UNKNOWN, OperationStatus.TIMED_OUT)


class Database(Protocol):
    """What a dialect brings: rows by SQL text with ``?`` for values, the time, and a lock."""

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Run a statement and return its rows."""
        ...

    def time(self) -> float:
        """Return the time on the database's clock, in seconds since the epoch."""
        ...

    def lock(self, session_id: str) -> None:
        """Let nobody else change the session until the transaction is over."""
        ...


class Transaction:
    """Rows as records, for the transitions; the log is written at the end."""

    def __init__(self, database: Database):
        """Initialize a transaction that has begun.

        Args:
            database: Where it runs.
        """
        self._database = database
        self._logged: list[Event] = []

    @cached_property
    def now(self) -> float:
        """The time of the transaction."""
        # Read when it is first asked for, behind the lock: whoever waits for it comes later.
        return self._database.time()

    @property
    def changed(self) -> set[str]:
        """The sessions in which something happened."""
        return {event.session_id for event in self._logged}

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""
        return self._database.rows(sql, values)

    def row(self, sql: str, *values: Any) -> Row | None:
        """Run a statement and return its first row, if there is one."""
        return next(iter(self.rows(sql, *values)), None)

    def lock(self, session_id: str) -> None:
        """Let nobody else change the session until the transaction is over."""
        self._database.lock(session_id)

    def lock_of(self, table: str, column: str, value: str) -> bool:
        """Lock the session a row belongs to; False if there is no such row."""
        found = self.row(f"SELECT session_id FROM {table} WHERE {column} = ?", value)
        if found is not None:
            self.lock(found[0])
        return found is not None

    # Events

    def log(self, event: Event) -> None:
        """Write an event at the end; its time is the transaction's."""
        self._logged.append(replace(event, at=self.now))

    def write_log(self) -> None:
        """Write what was logged; the last thing that a transaction does."""
        if self._logged:
            places = ", ".join(["(?, ?, ?)"] * len(self._logged))
            values = [(event.session_id, event.at, records.event_text(event)) for event in self._logged]
            self.rows(
                f"INSERT INTO events (session_id, at, record) VALUES {places}",
                *(value for row in values for value in row),
            )
        for session_id in self.changed:
            self.rows(
                "INSERT INTO sessions (session_id, first_at, last_at) VALUES (?, ?, ?) "
                "ON CONFLICT (session_id) DO UPDATE SET last_at = excluded.last_at",
                session_id,
                self.now,
                self.now,
            )

    def log_operation(self, name: str, operation: Operation, reason: str = "", **detail: Any) -> None:
        """Write an event about an operation."""
        self.log(
            Event(
                name=name,
                at=self.now,
                session_id=operation.session_id,
                turn_id=operation.turn_id,
                operation_id=operation.operation_id,
                batch_id=operation.batch_id,
                intent_key=operation.intent_key or None,
                tool=operation.tool,
                reason=reason,
                detail=detail,
            )
        )

    def log_delivery(
        self, name: str, row: DeliveryRow, reason: str = "", telling: str | None = None, **detail: Any
    ) -> None:
        """Write an event about a delivery."""
        self.log(
            Event(
                name=name,
                at=self.now,
                session_id=row.session_id,
                turn_id=row.turn_id,
                batch_id=row.batch_id,
                delivery_id=row.delivery_id,
                telling_id=telling,
                reason=reason,
                detail=detail,
            )
        )

    # Operations

    def operation(self, operation_id: str) -> Operation | None:
        """Read an operation."""
        found = self.row("SELECT record FROM operations WHERE operation_id = ?", operation_id)
        return records.operation_of(found[0]) if found else None

    def operations(self, column: str, value: str) -> list[Operation]:
        """Read the operations of a batch or a session, oldest first."""
        found = self.rows(f"SELECT record FROM operations WHERE {column} = ? ORDER BY seq", value)
        return [records.operation_of(row[0]) for row in found]

    def add_operation(self, operation: Operation, owner: str | None) -> None:
        """Write a new operation."""
        taken = self.row("SELECT 1 FROM operations WHERE operation_id = ?", operation.operation_id)
        if taken is not None:
            raise StoreError(f"{operation.operation_id} was accepted before")
        self.rows(
            "INSERT INTO operations (operation_id, session_id, batch_id, status, intent, adopted, owner, "
            "available_at, deadline_at, untold, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            operation.operation_id,
            operation.session_id,
            operation.batch_id,
            str(operation.status),
            intent_of(operation),
            operation.adopted,
            owner,
            self.now,
            operation.deadline_at,
            True,
            records.dumped(records.fields_of(operation)),
        )

    def put_operation(self, operation: Operation) -> Operation:
        """Write what an operation has become."""
        settled_at = operation.settled_at
        if settled_at is None or operation.status not in _WITH_WINDOW or intent_of(operation) is None:
            intent_until = None
        else:
            intent_until = settled_at + operation.intent_window_secs
        self.rows(
            "UPDATE operations SET status = ?, deadline_at = ?, settled_at = ?, intent_until = ?, record = ? "
            "WHERE operation_id = ?",
            str(operation.status),
            operation.deadline_at,
            settled_at,
            intent_until,
            records.dumped(records.fields_of(operation)),
            operation.operation_id,
        )
        return operation

    # Deliveries

    def deliveries(self, where: str, *values: Any) -> list[DeliveryRow]:
        """Read deliveries with their operations, oldest first."""
        found = self.rows(
            "SELECT delivery_id, session_id, batch_id, state, telling_id, ready_at, record "
            f"FROM deliveries WHERE {where} ORDER BY seq",
            *values,
        )
        return [self._delivery(row) for row in found]

    def delivery(self, delivery_id: str) -> DeliveryRow | None:
        """Read a delivery."""
        return next(iter(self.deliveries("delivery_id = ?", delivery_id)), None)

    def add_delivery(self, row: DeliveryRow) -> None:
        """Write a new delivery."""
        self.rows(
            "INSERT INTO deliveries (delivery_id, session_id, batch_id, state, telling_id, ready_at, "
            "waiting_from, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            row.delivery_id,
            row.session_id,
            row.batch_id,
            row.state,
            row.telling_id,
            row.ready_at,
            row.ready_at,
            _delivery_text(row, ()),
        )
        for place, operation in enumerate(row.operations):
            self.rows("UPDATE operations SET untold = FALSE WHERE operation_id = ?", operation.operation_id)
            self.rows(
                "INSERT INTO told (delivery_id, place, operation_id) VALUES (?, ?, ?)",
                row.delivery_id,
                place,
                operation.operation_id,
            )

    def put_delivery(self, row: DeliveryRow, waiting: Sequence[str] = ()) -> DeliveryRow:
        """Write what a delivery has become, and which corrections wait for its telling to end."""
        self.rows(
            "UPDATE deliveries SET state = ?, telling_id = ?, record = ? WHERE delivery_id = ?",
            row.state,
            row.telling_id,
            _delivery_text(row, waiting),
            row.delivery_id,
        )
        return row

    def waiting_corrections(self, delivery_id: str) -> list[str]:
        """Read the operations whose correction waits for a telling to end."""
        found = self.row("SELECT record FROM deliveries WHERE delivery_id = ?", delivery_id)
        return json.loads(found[0])["waiting"] if found else []

    def _delivery(self, row: Row) -> DeliveryRow:
        delivery_id, session_id, batch_id, state, telling_id, ready_at, text = row
        data = json.loads(text)
        return DeliveryRow(
            delivery_id=delivery_id,
            session_id=session_id,
            batch_id=batch_id,
            turn_id=data["turn_id"],
            operations=tuple(self._told(delivery_id)),
            state=state,
            reason=data["reason"],
            ready_at=ready_at,
            correction=data["correction"],
            mode=data.get("mode"),
            telling_id=telling_id,
            tellings=records.tellings_of(data["tellings"]),
            heard=data["heard"],
            text=data["text"],
        )

    def _told(self, delivery_id: str) -> Iterator[Operation]:
        found = self.rows(
            "SELECT o.record FROM told t JOIN operations o ON o.operation_id = t.operation_id "
            "WHERE t.delivery_id = ? ORDER BY t.place",
            delivery_id,
        )
        return (records.operation_of(row[0]) for row in found)


def intent_of(operation: Operation) -> str | None:
    """Return what an operation is found by when a repeat comes; None when it never is."""
    if operation.adopted or not operation.intent_key:
        return None
    # A key holds arguments of any length, which an index does not.
    return hashlib.sha256(operation.intent_key.encode("utf-8", "surrogatepass")).hexdigest()


def _delivery_text(row: DeliveryRow, waiting: Sequence[str]) -> str:
    return records.dumped(
        {
            "turn_id": row.turn_id,
            "reason": row.reason,
            "correction": row.correction,
            "mode": row.mode,
            "tellings": [records.fields_of(telling) for telling in row.tellings],
            "heard": row.heard,
            "text": row.text,
            "waiting": list(waiting),
        }
    )
