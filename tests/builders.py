# SPDX-License-Identifier: BSD-2-Clause
"""Records for tests: everything has a default but what the test is about."""

from dataclasses import replace
from itertools import count
from typing import Any

from pipecat_async_tools import ChannelState, Envelope, Event, Operation, OperationStatus, TellingRecord
from pipecat_async_tools.events import Journal

FREE = ChannelState(quiet_secs=60.0)
"""A channel in which nothing has happened for a minute."""

_numbers = count(1)


def operation(tool: str = "check_availability", **fields: Any) -> Operation:
    """An operation that was accepted, unless its fields say otherwise."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "operation_id": f"op-{number}",
        "session_id": "room",
        "turn_id": "turn-1",
        "batch_id": "batch-1",
        "tool_call_id": f"call-{number}",
        "timeout_secs": 30.0,
    }
    return Operation(tool=tool, **{**defaults, **fields})


def succeeded(result: Any = "done", **fields: Any) -> Operation:
    """An operation that succeeded."""
    return operation(**{"status": OperationStatus.SUCCEEDED, "result": result, **fields})


def failed(error: str = "It broke.", **fields: Any) -> Operation:
    """An operation that failed, unless its status says otherwise."""
    return operation(**{"status": OperationStatus.FAILED, "error": error, **fields})


def envelope(*operations: Operation, **fields: Any) -> Envelope:
    """A delivery, of one success if no operations are given."""
    defaults: dict[str, Any] = {"batch_id": "batch-1", "turn_id": "turn-1", "ready_at": 0.0}
    return Envelope(operations=operations or (succeeded(),), **{**defaults, **fields})


def channel(**fields: Any) -> ChannelState:
    """A free channel, but for the fields given."""
    return replace(FREE, **fields)


def telling(outcome: str = "completed", heard: str = "", **fields: Any) -> TellingRecord:
    """How a telling went."""
    defaults: dict[str, Any] = {"telling_id": "telling-1", "started_at": 1.0, "ended_at": 2.0}
    return TellingRecord(outcome=outcome, heard=heard, **{**defaults, **fields})


class Notebook:
    """A journal, and what was written into it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.journal = Journal(session_id="room", now=lambda: 0.0, publish=self.events.append)

    @property
    def names(self) -> list[str]:
        """The names of the events, in their order."""
        return [event.name for event in self.events]
