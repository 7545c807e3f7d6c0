# SPDX-License-Identifier: BSD-2-Clause
"""What the commands answer to ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipecat_async_tools.console.endings import delivery_state, outcome
from pipecat_async_tools.console.masking import document
from pipecat_async_tools.console.reading import Call
from pipecat_async_tools.console.story import Line
from pipecat_async_tools.operations.operation import Operation


def of_operation(operation: Operation, call: Call, *, reveal: bool) -> dict[str, Any]:
    """Return an operation with everything that belongs to it."""
    name = operation.operation_id
    parts = {
        "operation": operation,
        "events": [e for e in call.events if e.operation_id == name],
        "batch": next((b for b in call.batches if b.batch_id == operation.batch_id), None),
        "deliveries": [d for d in call.deliveries if name in {o.operation_id for o in d.operations}],
    }
    return {key: document(value, reveal=reveal) for key, value in parts.items()}


def of_call(call: Call, lines: Sequence[Line], *, reveal: bool) -> dict[str, Any]:
    """Return the story of a call and how it stands."""
    return {
        "session_id": call.session_id,
        "started_at": call.started_at,
        "story": [
            {"at": line.at, "secs": round(line.at - call.started_at, 3), "tone": line.tone, "text": line.text}
            for line in lines
        ],
        "operations": [
            {"operation_id": o.operation_id, "tool": o.tool, "status": str(o.status), "outcome": outcome(o)}
            for o in call.operations
        ],
        "deliveries": [
            {"delivery_id": d.delivery_id, "state": d.state, "outcome": delivery_state(d, call.events)}
            for d in call.deliveries
        ],
        "dead_letters": document(call.dead_letters, reveal=reveal),
        "events": document(call.events, reveal=reveal),
    }
