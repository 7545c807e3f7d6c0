# SPDX-License-Identifier: BSD-2-Clause
"""The operations that close together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.operation import Operation

ContextUpdated = Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """When a response's calls are announced, and when their batch closes.

    Parameters:
        grace_secs: Seconds from the announcement within which a response whose calls are all over is
            answered natively, as if the package were not there; 0 announces everything.
        unstarted_timeout_secs: Seconds after which a call that was announced and never started is
            given up, counted from when everything else is settled.
    """

    grace_secs: float = 0.3
    unstarted_timeout_secs: float = 5.0

    def __post_init__(self):
        if self.grace_secs < 0:
            raise ConfigurationError(f"grace_secs={self.grace_secs}: pass seconds, 0 or more")
        if self.unstarted_timeout_secs <= 0:
            raise ConfigurationError(
                f"unstarted_timeout_secs={self.unstarted_timeout_secs}: pass seconds above 0"
            )


@dataclass
class BatchState:
    """A batch on its way to closing; membership comes from the announcement.

    Parameters:
        batch_id: The batch.
        turn_id: The caller's turn.
        expected: Announced calls that have neither become an operation nor been dismissed.
        operations: Members by operation id; an item list makes several of one call.
        callbacks: What members want to run once their outcome is in the context.
        closed: Whether it has closed; a call given up that starts after all opens it again.
        handed_over: Ids of the members that an earlier closing handed over.
    """

    batch_id: str
    turn_id: str
    expected: set[str]
    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    callbacks: list[ContextUpdated] = field(default_factory=list[ContextUpdated])
    closed: bool = False
    handed_over: set[str] = field(default_factory=set[str])

    def accept(self, operation: Operation) -> None:
        """Take in a member. A terminal state that was seen before stands."""
        self.expected.discard(operation.tool_call_id)
        if operation.operation_id not in self.operations:
            self.operations[operation.operation_id] = operation
            self.closed = False

    def dismiss(self, call_id: str) -> None:
        """Give up an announced call that is no operation."""
        self.expected.discard(call_id)

    def settle(self, operation: Operation, callback: ContextUpdated | None) -> None:
        """Note the end of a member; the first terminal state counts."""
        known = self.operations.get(operation.operation_id)
        if known is not None and known.is_settled:
            return
        self.expected.discard(operation.tool_call_id)
        self.operations[operation.operation_id] = operation
        if callback:
            self.callbacks.append(callback)

    def close(self) -> tuple[tuple[Operation, ...], tuple[ContextUpdated, ...]]:
        """Close it, and return the operations and callbacks that no earlier closing handed over."""
        self.closed = True
        rest = tuple(o for o in self.operations.values() if o.operation_id not in self.handed_over)
        self.handed_over.update(self.operations)
        callbacks = tuple(self.callbacks)
        self.callbacks.clear()
        return rest, callbacks

    @property
    def missing(self) -> tuple[str, ...]:
        """Call ids the batch still waits for."""
        running = [o.tool_call_id for o in self.operations.values() if not o.is_settled]
        return (*sorted(self.expected), *dict.fromkeys(running))

    @property
    def waits_for_unstarted_only(self) -> bool:
        """Whether every member is settled and only calls that never started keep it open."""
        return bool(self.expected) and all(o.is_settled for o in self.operations.values())

    @property
    def is_complete(self) -> bool:
        """Whether every announced call is accounted for."""
        return not self.missing
