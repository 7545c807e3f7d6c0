# SPDX-License-Identifier: BSD-2-Clause
"""The operations that close together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

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
        scope: "group" makes a batch of the calls of one response; "session" lets calls of later
            responses join the batch while it is open, so that everything is told in one update.
        max_wait_secs: Seconds after which what has settled by then is told as a part, and the rest
            when the batch closes; None waits for all of it.
    """

    grace_secs: float = 0.3
    unstarted_timeout_secs: float = 5.0
    scope: Literal["group", "session"] = "group"
    max_wait_secs: float | None = None

    def __post_init__(self):
        if self.scope not in ("group", "session"):
            raise ConfigurationError(f"scope={self.scope!r}: pass 'group' or 'session'")
        if self.max_wait_secs is not None and self.max_wait_secs <= 0:
            raise ConfigurationError(f"max_wait_secs={self.max_wait_secs}: pass seconds above 0, or None")
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
        handed_over: Ids of the members that an earlier delivery holds.
        held_open: Whether calls of later responses may still join it.
        urgent: Whether its update is urgent, whatever its members are.
        parting: Whether a part of it is being taken out: until then it does not close.
    """

    batch_id: str
    turn_id: str
    expected: set[str]
    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    callbacks: list[ContextUpdated] = field(default_factory=list[ContextUpdated])
    closed: bool = False
    handed_over: set[str] = field(default_factory=set[str])
    held_open: bool = False
    urgent: bool = False
    parting: bool = False

    def join(self, call_ids: Iterable[str]) -> None:
        """Wait for the calls of a further response too."""
        self.expected.update(call_ids)

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

    def part(self, operations: Iterable[Operation]) -> tuple[ContextUpdated, ...]:
        """Hand over operations while the others are waited for, and return what members want to run."""
        self.handed_over.update(o.operation_id for o in operations)
        callbacks = tuple(self.callbacks)
        self.callbacks.clear()
        return callbacks

    @property
    def has_part(self) -> bool:
        """Whether something has settled that no delivery holds."""
        return any(o.is_settled and o.operation_id not in self.handed_over for o in self.operations.values())

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
        """Whether every announced call is accounted for, and nothing can join any more."""
        return not self.missing and not self.held_open and not self.parting
