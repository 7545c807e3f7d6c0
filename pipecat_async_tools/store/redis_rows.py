# SPDX-License-Identifier: BSD-2-Clause
"""Rows as the Redis scripts take and return them: flat lists of names and values.

Values that Lua has no type for (JSON data, floats) stay text that no script looks into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from pydantic_core import to_jsonable_python

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome, timed_out
from pipecat_async_tools.store.rows import (
    BatchRow,
    DeadLetter,
    DeliveryRow,
    Finished,
    LoggedEvent,
    SessionRow,
    TellingEnd,
    TellingRecord,
    why_dead,
)

OPERATION_FIELDS = tuple(f.name for f in fields(Operation))
EVENT_FIELDS = tuple(f.name for f in fields(Event))

_OPERATION_TEXT = frozenset(
    {
        "operation_id",
        "session_id",
        "turn_id",
        "batch_id",
        "tool_call_id",
        "tool",
        "intent_key",
        "idempotency_key",
        "status",
        "error",
        "outcome_class",
        "progress",
    }
)
_MANY_ATTEMPTS = 1_000_000_007


def json_text(value: Any) -> str:
    """Return JSON data as text of ASCII characters."""
    return json.dumps(value, default=to_jsonable_python, separators=(",", ":"))


def optional(text: str | None) -> str:
    """Return an argument that may be missing."""
    return "-" if text is None else f"+{text}"


def listed(items: Sequence[str]) -> list[str | int]:
    """Return the arguments for a list."""
    return [len(items), *items]


# Arguments


def operation_arguments(operations: Sequence[Operation]) -> list[str | int]:
    """Return the arguments for new operations."""
    # Beside the record, what the store says of it when its time runs out while nobody runs it.
    arguments = listed([*OPERATION_FIELDS, "timeout_error"])
    arguments.append(len(operations))
    for operation in operations:
        arguments += [optional(_operation_text(operation, name)) for name in OPERATION_FIELDS]
        arguments.append(optional(timed_out(operation.timeout_secs).error))
    return arguments


def outcome_arguments(outcome: Outcome) -> list[str]:
    """Return the arguments for an outcome, with the reasons for a dead letter if it is one."""
    succeeded = outcome.status is OperationStatus.SUCCEEDED
    has_result = succeeded or outcome.result is not None
    return [
        str(outcome.status),
        str(outcome.outcome_class),
        optional(json_text(outcome.result) if has_result else None),
        optional(outcome.error),
        optional(_why_dead(outcome, 1)),
        optional(_why_dead(outcome, _MANY_ATTEMPTS)),
    ]


def end_arguments(end: TellingEnd) -> list[str]:
    """Return the arguments for the end of a telling."""
    return [
        end.delivery_id,
        end.state,
        end.reason,
        end.heard,
        end.text,
        end.record.outcome,
        json_text(asdict(end.record)),
    ]


def event_arguments(event: Event) -> list[str]:
    """Return the arguments for an event."""
    texts = {name: getattr(event, name) for name in EVENT_FIELDS}
    texts["at"] = None
    texts["detail"] = json_text(event.detail) if event.detail else None
    return [optional(texts[name]) for name in EVENT_FIELDS]


def _operation_text(operation: Operation, name: str) -> str | None:
    value = getattr(operation, name)
    if value is None:
        return None
    return str(value) if name in _OPERATION_TEXT else json_text(value)


def _why_dead(outcome: Outcome, attempts: int) -> str | None:
    settled = Operation(
        session_id="",
        turn_id="",
        batch_id="",
        tool_call_id="",
        tool="",
        timeout_secs=0.0,
        status=outcome.status,
        outcome_class=str(outcome.outcome_class),
        attempts=attempts,
    )
    why = why_dead(settled)
    # How many they were is known to the row alone: the script writes it in.
    return why.replace(str(_MANY_ATTEMPTS), "{attempts}") if why else None


# Answers


def operation_of(flat: Sequence[str]) -> Operation | None:
    """Read an operation; None when there is none."""
    row = _row(flat)
    if not row:
        return None
    record: dict[str, Any] = {name: _value(name, row[name]) for name in OPERATION_FIELDS if name in row}
    record["status"] = OperationStatus(row["status"])
    return Operation(**record)


def known_operation(flat: Sequence[str]) -> Operation:
    """Read an operation that is there."""
    operation = operation_of(flat)
    assert operation is not None
    return operation


def batch_of(answer: Sequence[Any]) -> BatchRow:
    """Read a batch."""
    flat, expected, operation_ids = answer
    row = _row(flat)
    closed_at = row.get("closed_at")
    return BatchRow(
        batch_id=row["batch_id"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        owner=row["owner"],
        expected=tuple(expected),
        operation_ids=tuple(operation_ids),
        opened_at=float(row["opened_at"]),
        closed_at=float(closed_at) if closed_at else None,
        native=row.get("native") == "true",
    )


def delivery_of(answer: Sequence[Any]) -> DeliveryRow:
    """Read a delivery with its operations."""
    flat, operations, tellings = answer
    row = _row(flat)
    return DeliveryRow(
        delivery_id=row["delivery_id"],
        session_id=row["session_id"],
        batch_id=row["batch_id"],
        turn_id=row["turn_id"],
        operations=tuple(known_operation(operation) for operation in operations),
        state=row["state"],  # pyright: ignore[reportArgumentType]
        reason=row["reason"],
        ready_at=float(row["ready_at"]),
        correction=row.get("correction") == "true",
        telling_id=row.get("telling_id"),
        mode=row.get("mode"),  # pyright: ignore[reportArgumentType]
        tellings=tuple(TellingRecord(**json.loads(telling)) for telling in tellings),
        heard=row.get("heard", ""),
        text=row.get("text", ""),
    )


def finished_of(answer: Sequence[Any]) -> Finished:
    """Read what the end of an operation led to."""
    operation, corrected, delivery, letter_id = answer
    return Finished(
        operation=known_operation(operation),
        corrected=bool(corrected),
        delivery=delivery_of(delivery) if delivery else None,
        dead_letter=letter_id or None,
    )


def letter_of(answer: Sequence[Any]) -> DeadLetter:
    """Read a dead letter with what it is about."""
    flat, operation, delivery = answer
    row = _row(flat)
    closed_at = row.get("closed_at")
    return DeadLetter(
        letter_id=row["letter_id"],
        kind=row["kind"],  # pyright: ignore[reportArgumentType]
        session_id=row["session_id"],
        reason=row["reason"],
        operation=operation_of(operation) if operation else None,
        delivery=delivery_of(delivery) if delivery else None,
        opened_at=float(row["opened_at"]),
        closed_at=float(closed_at) if closed_at else None,
        note=row.get("note", ""),
    )


def session_of(answer: Sequence[Any]) -> SessionRow:
    """Read a session."""
    session_id, owner, first_at, last_at, operations, running, open_deliveries, dead_letters = answer
    return SessionRow(
        session_id=session_id,
        owner=owner or None,
        first_at=float(first_at),
        last_at=float(last_at),
        operations=operations,
        running=running,
        open_deliveries=open_deliveries,
        dead_letters=dead_letters,
    )


def logged_event_of(answer: Sequence[Any]) -> LoggedEvent:
    """Read a line of the log."""
    position, flat = answer
    row = _row(flat)
    event: dict[str, Any] = {
        **row,
        "at": float(row["at"]),
        "detail": json.loads(row.get("detail", "{}")),
    }
    return LoggedEvent(position=position, event=Event(**event))


def _row(flat: Sequence[str]) -> Mapping[str, str]:
    # An empty list comes as {}: Lua knows one kind of table.
    return dict(zip(flat[::2], flat[1::2])) if flat else {}


def _value(name: str, text: str) -> Any:
    return text if name in _OPERATION_TEXT else json.loads(text)
