# SPDX-License-Identifier: BSD-2-Clause
"""What happened, with the ids and the reason: every transition and every decision of the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

EVENT_NAMES = (
    "on_operation_accepted",
    "on_operation_joined",
    "on_operation_refused",
    "on_operation_started",
    "on_operation_attempted",
    "on_operation_progressed",
    "on_operation_recovered",
    "on_operation_settled",
    "on_operation_corrected",
    "on_operation_replayed",
    "on_batch_opened",
    "on_batch_closed",
    "on_delivery_ready",
    "on_delivery_waiting",
    "on_delivery_started",
    "on_delivery_spoken",
    "on_delivery_interrupted",
    "on_delivery_withdrawn",
    "on_delivery_suppressed",
    "on_delivery_undeliverable",
    "on_delivery_replayed",
    "on_dead_letter_opened",
    "on_dead_letter_closed",
    "on_session_held",
    "on_session_released",
)

LOGGED_ONLY = frozenset(
    {
        "on_operation_recovered",
        "on_operation_replayed",
        "on_delivery_replayed",
        "on_dead_letter_closed",
        "on_session_held",
        "on_session_released",
    }
)
"""What other processes, and people, do to a session: it is in the store's log, and no handler gets it."""

NOT_LOGGED_BY_STORES = frozenset({"on_operation_refused", "on_delivery_waiting"})
"""What no store transition stands behind; everything else a store writes down by itself."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the story of a call.

    Parameters:
        name: One of :data:`EVENT_NAMES`.
        at: Seconds: on the clock of the running event loop when a handler gets it, on the store's
            clock when it was read from a store.
        session_id: The caller's session.
        turn_id: The caller's turn.
        operation_id: The operation, if it is about one.
        batch_id: The batch, if it is about one.
        delivery_id: The delivery, if it is about one.
        telling_id: The telling, if it is about one.
        intent_key: The intent of the operation.
        tool: The tool of the operation.
        reason: Why, in a few words.
        detail: JSON data that goes with it, such as the class and the wait of an attempt. Never
            arguments or results.
    """

    name: str
    at: float
    session_id: str
    turn_id: str | None = None
    operation_id: str | None = None
    batch_id: str | None = None
    delivery_id: str | None = None
    telling_id: str | None = None
    intent_key: str | None = None
    tool: str | None = None
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Journal:
    """Takes down events; nobody who records one ever waits for it."""

    def __init__(self, *, session_id: str, now: Callable[[], float], publish: Callable[[Event], None]):
        """Initialize the journal.

        Args:
            session_id: Written on every event.
            now: Returns the time in seconds.
            publish: Called with each event, at once; must not block.
        """
        self._session_id = session_id
        self._now = now
        self._publish = publish

    def record(
        self,
        name: str,
        *,
        turn_id: str | None = None,
        operation_id: str | None = None,
        batch_id: str | None = None,
        delivery_id: str | None = None,
        telling_id: str | None = None,
        intent_key: str | None = None,
        tool: str | None = None,
        reason: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Take down one event."""
        self._publish(
            Event(
                name=name,
                at=self._now(),
                session_id=self._session_id,
                turn_id=turn_id,
                operation_id=operation_id,
                batch_id=batch_id,
                delivery_id=delivery_id,
                telling_id=telling_id,
                intent_key=intent_key,
                tool=tool,
                reason=reason,
                detail=detail or {},
            )
        )
