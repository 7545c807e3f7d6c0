# SPDX-License-Identifier: BSD-2-Clause
"""The tool by which the model stops an operation, and which one it means."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipecat.adapters.llm.schemas.direct_function import DirectFunction
from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.tool import ToolSpec

CANCEL_TOOL = "cancel_operation"
"""Name of the tool."""

_WORD = re.compile(r"\w+", re.UNICODE)
# Words that say nothing about which operation is meant.
_EMPTY = frozenset(
    ("the", "a", "an", "my", "that", "this", "it", "please", "cancel", "stop", "of", "for", "to", "on")
)


@dataclass(frozen=True)
class Match:
    """Which operation a description means.

    Parameters:
        operation: The one; None when it is none, or not clear which.
        reason: Why there is none, in words for the model.
        choices: What it could mean, or what is running.
    """

    operation: Operation | None = None
    reason: str = ""
    choices: tuple[Operation, ...] = ()


def match(running: Sequence[Operation], *, operation_id: str, description: str) -> Match:
    """Find the operation that is meant.

    Args:
        running: What can be stopped.
        operation_id: Its id, if the model knows it.
        description: What it is about, in the caller's words; may be empty if only one is running.
    """
    choices = tuple(running)
    if operation_id:
        named = [o for o in running if o.operation_id == operation_id]
        return (
            Match(named[0]) if named else Match(None, "Nothing with that operation_id is running.", choices)
        )
    wanted = _words(description) - _EMPTY
    found = [o for o in running if wanted & _about(o)] if wanted else list(running)
    best = max((len(wanted & _about(o)) for o in found), default=0)
    found = [o for o in found if len(wanted & _about(o)) == best]
    if len(found) == 1:
        return Match(found[0])
    if not found:
        reason = "Nothing that fits is running." if running else "Nothing is running."
        return Match(None, reason, choices)
    return Match(None, "Several fit: ask which one, then give its operation_id.", tuple(found))


class CancelTool:
    """Stops operations for the model; it confirms nothing that the store does not say."""

    def __init__(self, *, ledger: OperationLedger, tools: Mapping[str, ToolSpec]):
        """Initialize the tool.

        Args:
            ledger: Keeps the operations.
            tools: The tools by name; those declared ``cancellable`` can be stopped.

        Raises:
            ConfigurationError: A tool of the application has its name.
        """
        self._ledger = ledger
        self._tools = tools
        if self.is_needed and CANCEL_TOOL in tools:
            raise ConfigurationError(
                f"tools: {CANCEL_TOOL} is the tool by which the model cancels; rename your own"
            )

    @property
    def is_needed(self) -> bool:
        """Whether there is a tool that can be stopped."""
        return any(spec.cancellable for spec in self._tools.values())

    async def cancel(self, description: str, operation_id: str) -> dict[str, Any]:
        """Stop the operation that is meant, and return the answer to the call."""
        running = self._ledger.running()
        found = match(
            list(filter(self._can_stop, running)), operation_id=operation_id, description=description
        )
        if found.operation is None:
            fixed = match(running, operation_id=operation_id, description=description).operation
            if fixed is not None and not self._can_stop(fixed):
                return {"status": "refused", "reason": f"{fixed.tool} cannot be stopped once it has begun."}
            choices = [_described(o) for o in found.choices]
            return {"status": "refused", "reason": found.reason, "running": choices}
        await self._ledger.cancel(found.operation.operation_id, silent=True)
        ended = self._ledger.get(found.operation.operation_id) or found.operation
        if ended.status is OperationStatus.CANCELLED:
            return {"status": "cancelled", **_described(ended)}
        reason = f"It had ended before: {ended.status}. Its outcome is told by itself."
        return {"status": "refused", "reason": reason, **_described(ended)}

    def _can_stop(self, operation: Operation) -> bool:
        spec = self._tools.get(operation.tool)
        return spec is not None and spec.cancellable

    def direct_function(self) -> DirectFunction:
        """Return the tool as Pipecat takes it in ``LLMContext(tools=[...])``."""

        async def cancel_operation(
            params: FunctionCallParams, description: str = "", operation_id: str = ""
        ) -> None:
            await params.result_callback(await self.cancel(description, operation_id))

        cancel_operation.__doc__ = _DOCSTRING
        return cancel_operation

    def flow_function(self) -> Callable[..., Awaitable[Any]]:
        """Return the tool as a node of ``pipecat.flows`` takes it; it stays on its node."""

        async def cancel_operation(
            flow_manager: Any, description: str = "", operation_id: str = ""
        ) -> tuple[Any, Any]:
            return await self.cancel(description, operation_id), None

        cancel_operation.__doc__ = _DOCSTRING
        return cancel_operation


_DOCSTRING = """Stop work that is still being done for the caller, when the caller says so.

Say that it was stopped only if the answer's status is "cancelled".

Args:
    description: What the work is about, in the caller's words.
    operation_id: The operation_id of the work, if you know it.
"""


def _described(operation: Operation) -> dict[str, Any]:
    return {
        "operation_id": operation.operation_id,
        "tool": operation.tool,
        "arguments": dict(operation.arguments),
    }


def _about(operation: Operation) -> set[str]:
    return _words(f"{operation.tool.replace('_', ' ')} {' '.join(map(str, operation.arguments.values()))}")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
