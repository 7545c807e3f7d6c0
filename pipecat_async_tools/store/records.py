# SPDX-License-Identifier: BSD-2-Clause
"""Records as JSON text, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic_core import to_jsonable_python

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store.rows import TellingRecord


def dumped(value: Any) -> str:
    """Return JSON data as text."""
    return json.dumps(value, separators=(",", ":"))


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON data."""
    return to_jsonable_python({f.name: getattr(record, f.name) for f in fields(record)})


def operation_of(text: str) -> Operation:
    """Read an operation."""
    data: dict[str, Any] = json.loads(text)
    data["status"] = OperationStatus(data["status"])
    return Operation(**data)


def tellings_of(data: list[Mapping[str, Any]]) -> tuple[TellingRecord, ...]:
    """Read the tellings of a delivery."""
    return tuple(TellingRecord(**record) for record in data)


def event_of(text: str) -> Event:
    """Read an event."""
    return Event(**json.loads(text))


def event_text(event: Event) -> str:
    """Write an event, without what it does not say."""
    return dumped({name: value for name, value in fields_of(event).items() if value not in (None, "", {})})
