# SPDX-License-Identifier: BSD-2-Clause
"""One unit of slow work: its record, its statuses, and the moves between them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipecat_async_tools.errors import IllegalTransitionError


class OperationStatus(StrEnum):
    """Where an operation is in its life."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more happens to the operation."""
        return self not in (OperationStatus.ACCEPTED, OperationStatus.RUNNING)


_TERMINAL = frozenset(status for status in OperationStatus if status.is_terminal)
_LEGAL: Mapping[OperationStatus, frozenset[OperationStatus]] = {
    OperationStatus.ACCEPTED: _TERMINAL | {OperationStatus.RUNNING},
    OperationStatus.RUNNING: _TERMINAL,
}


def new_id(prefix: str) -> str:
    """Return a fresh id that says what it names, such as ``op-3f0c…``."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The record of one operation; the store's row is the truth, this is a copy of it.

    Parameters:
        operation_id: Names the operation in events, logs and the store.
        session_id: The caller's session.
        turn_id: The caller's turn the request came from.
        batch_id: The operations that are told together.
        tool_call_id: The provider's id of the call.
        tool: Name of the tool.
        arguments: Validated arguments, as JSON data.
        item: Which item of the call it is, counted from 0; None when the call is one operation.
        intent_key: Two requests with one key are one intent.
        intent_window_secs: Seconds after a success in which a repeat gets the stored result.
        idempotency_key: What the tool's service knows the effect by; stable over attempts, restarts
            and repeats of a request whose time ran out.
        idempotent: Whether it may be started again when nobody knows how far it got.
        adopted: Whether Pipecat runs the handler and we only keep the record.
        silent: The outcome goes into the context and is not told (a result with ``run_llm=False``).
        status: Where it is in its life.
        attempts: How often the handler was started.
        replays: How often it was started again by hand.
        timeout_secs: Seconds from acceptance to the deadline, over all attempts.
        accepted_at: Seconds, on the store's clock.
        started_at: Seconds, on the store's clock, of the first attempt.
        settled_at: Seconds, on the store's clock.
        result: What the handler returned, as JSON data.
        error: What went wrong, in words for the model.
        outcome_class: The class of the outcome (see :mod:`~pipecat_async_tools.operations.outcome`).
        progress: The latest progress text.
        late: It succeeded after its time-out; told as a correction if the failure was told.
    """

    operation_id: str = field(default_factory=lambda: new_id("op"))
    session_id: str
    turn_id: str
    batch_id: str
    tool_call_id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    item: int | None = None
    intent_key: str = ""
    intent_window_secs: float = 0.0
    idempotency_key: str = ""
    idempotent: bool = False
    adopted: bool = False
    silent: bool = False
    status: OperationStatus = OperationStatus.ACCEPTED
    attempts: int = 0
    replays: int = 0
    timeout_secs: float
    accepted_at: float = 0.0
    started_at: float | None = None
    settled_at: float | None = None
    result: Any = None
    error: str | None = None
    outcome_class: str | None = None
    progress: str | None = None
    late: bool = False

    def __post_init__(self):
        if not self.idempotency_key:
            object.__setattr__(self, "idempotency_key", f"{self.session_id}:{self.operation_id}")

    @property
    def deadline_at(self) -> float:
        """Seconds, on the store's clock, at which its time is up."""
        return self.accepted_at + self.timeout_secs

    @property
    def is_settled(self) -> bool:
        """Whether the operation reached a terminal status."""
        return self.status.is_terminal

    def moved(self, status: OperationStatus, **changes: Any) -> Operation:
        """Return the record after a legal move.

        Raises:
            IllegalTransitionError: The operation cannot go there from where it is.
        """
        if status not in _LEGAL.get(self.status, frozenset()):
            raise IllegalTransitionError(f"{self.operation_id} is {self.status} and cannot become {status}")
        return replace(self, status=status, **changes)
