# SPDX-License-Identifier: BSD-2-Clause
"""How the operations of a call begin their lives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.tool import ToolSpec


def requested(spec: ToolSpec, parts: Sequence[Mapping[str, Any]], **ids: Any) -> list[Operation]:
    """Return the operations of a call of an ``@async_tool``: one, or one for each item.

    Args:
        spec: The tool.
        parts: The validated arguments of each.
        **ids: The ids they share.
    """
    return [
        Operation(
            arguments=spec.jsonable(part),
            timeout_secs=spec.timeout_secs,
            item=index if spec.items else None,
            intent_key=spec.intent_key(part),
            intent_window_secs=spec.intent_window_secs,
            idempotent=spec.idempotent,
            **ids,
        )
        for index, part in enumerate(parts)
    ]


def adopted(arguments: Mapping[str, Any], timeout_secs: float, **ids: Any) -> Operation:
    """Return the operation of a native function that Pipecat runs."""
    return Operation(
        arguments=to_jsonable_python(arguments, fallback=str), timeout_secs=timeout_secs, adopted=True, **ids
    )
