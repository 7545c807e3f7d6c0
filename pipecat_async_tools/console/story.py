# SPDX-License-Identifier: BSD-2-Clause
"""The story of a call in plain words: what happened, when, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from pipecat_async_tools.console.durations import length
from pipecat_async_tools.console.masking import shown
from pipecat_async_tools.console.names import Names
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED, OutcomeClass
from pipecat_async_tools.store.rows import DeliveryRow, TellingRecord

Tone = Literal["plain", "good", "bad", "waiting"]

AT_ONCE_SECS = 0.5
"""What starts this soon after it was accepted started at once."""

_GONE = "its process was gone"
_TONES: Mapping[str, Tone] = {
    "on_operation_refused": "bad",
    "on_operation_attempted": "bad",
    "on_operation_recovered": "bad",
    "on_operation_corrected": "good",
    "on_delivery_waiting": "waiting",
    "on_delivery_withdrawn": "waiting",
    "on_delivery_spoken": "good",
    "on_delivery_interrupted": "bad",
    "on_delivery_suppressed": "waiting",
    "on_delivery_undeliverable": "bad",
    "on_dead_letter_opened": "bad",
}
_CUT_OFF = {
    "interrupted": "the caller cut it off",
    "lost": "no words came of it",
    "unheard": "no sound of it reached the caller",
}
_CLASSES = {"error": "an error in the tool", "business_error": "the tool said no"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened.

    Parameters:
        at: Seconds, on the store's clock.
        text: What, in plain words.
        tone: How it is to be taken.
    """

    at: float
    text: str
    tone: Tone = "plain"


def tell(
    events: Sequence[Event],
    operations: Sequence[Operation],
    deliveries: Sequence[DeliveryRow],
    *,
    reveal: bool = False,
) -> list[Line]:
    """Return the story of a session, one line for each thing that happened.

    Args:
        events: The events of the session, in their order.
        operations: Its operations.
        deliveries: Its deliveries.
        reveal: Whether the words that the caller heard are shown.
    """
    story = _Story(events, operations, deliveries, reveal=reveal)
    lines: list[Line] = []
    for _, together in groupby(enumerate(events), key=lambda e: _moment(*e)):
        line = story.line([event for _, event in together])
        if line is not None:
            lines.append(line)
    return lines


def _moment(index: int, event: Event) -> tuple[object, ...]:
    """Return what the events of one telling have in common; every other event stands alone."""
    return (event.name, event.telling_id, event.reason) if event.telling_id else (index,)


class _Story:
    def __init__(
        self,
        events: Sequence[Event],
        operations: Sequence[Operation],
        deliveries: Sequence[DeliveryRow],
        *,
        reveal: bool,
    ):
        self._names = Names(operations, deliveries)
        self._operations = {operation.operation_id: operation for operation in operations}
        self._deliveries = {row.delivery_id: row for row in deliveries}
        self._reveal = reveal
        self._accepted: dict[str, float] = {}
        self._holder: str | None = None
        starts = [e for e in events if e.name == "on_operation_started"]
        self._starts = {e.operation_id or "": e for e in reversed(starts)}
        self._ready = {e.batch_id for e in events if e.name == "on_delivery_ready"}
        self._tell: Mapping[str, Callable[[Event], str | None]] = {
            "on_operation_accepted": self._on_accepted,
            "on_operation_joined": self._on_joined,
            "on_operation_refused": self._on_refused,
            "on_operation_started": self._on_started,
            "on_operation_attempted": self._on_attempted,
            "on_operation_progressed": lambda e: f"{self._names.operation(e)} reported progress",
            "on_operation_recovered": lambda e: f"{self._names.operation(e)}: {_GONE}: it is run again",
            "on_operation_settled": self._on_settled,
            "on_operation_corrected": lambda e: f"{self._names.operation(e)} succeeded after all",
            "on_operation_replayed": self._on_replayed,
            "on_batch_closed": self._on_closed,
            "on_dead_letter_opened": self._on_letter_opened,
            "on_dead_letter_closed": self._on_letter_closed,
            "on_session_held": self._on_held,
            "on_session_released": lambda e: "the process let go of the call",
        }

    def line(self, together: Sequence[Event]) -> Line | None:
        event = together[0]
        if event.name.startswith("on_delivery_"):
            text = self._on_delivery(event, together)
        else:
            text = self._tell.get(event.name, lambda e: None)(event)
        return Line(at=event.at, text=text, tone=self._tone(event)) if text else None

    def _tone(self, event: Event) -> Tone:
        if event.name == "on_operation_settled":
            return "good" if event.reason == OperationStatus.SUCCEEDED else "bad"
        return _TONES.get(event.name, "plain")

    # Operations

    def _on_accepted(self, event: Event) -> str:
        self._accepted[event.operation_id or ""] = event.at
        at_once = ", and started at once" if self._started_at_once(event) else ""
        return f"{self._names.operation(event)} was asked for: accepted{at_once}"

    def _started_at_once(self, event: Event) -> bool:
        first = self._starts.get(event.operation_id or "")
        accepted_at = self._accepted.get(event.operation_id or "")
        if first is None or accepted_at is None:
            return False
        return first.at - accepted_at <= AT_ONCE_SECS

    def _on_joined(self, event: Event) -> str:
        became = "turned away" if event.reason == "rejected" else "nothing new was started"
        return f"{self._names.operation(event)} was asked for again: {became}, it is the same request"

    def _on_refused(self, event: Event) -> str:
        return f"{event.tool} was asked for and refused: {shown(event.reason, reveal=self._reveal)}"

    def _on_started(self, event: Event) -> str | None:
        if event is not self._starts.get(event.operation_id or ""):
            return f"{self._names.operation(event)} started again ({event.reason})"
        if self._started_at_once(event):
            return None
        return f"{self._names.operation(event)} started"

    def _on_attempted(self, event: Event) -> str:
        wait_secs = float(event.detail.get("wait_secs") or 0.0)
        again = f"in {length(wait_secs)}" if wait_secs else "at once"
        what = _failure(event)
        return (
            f"{self._names.operation(event)}: attempt {event.detail.get('attempt', '?')}: {what}, "
            f"trying again {again}{self._error(event)}"
        )

    def _error(self, event: Event) -> str:
        error = str(event.detail.get("error") or "")
        return f" ({error})" if error and self._reveal else ""

    def _on_settled(self, event: Event) -> str:
        attempt = event.detail.get("attempt") or 0
        tries = f" on attempt {attempt}" if attempt > 1 else ""
        accepted_at = self._accepted.get(event.operation_id or "", event.at)
        took = f" after {length(event.at - accepted_at)}"
        name = self._names.operation(event)
        match event.reason:
            case OperationStatus.SUCCEEDED:
                return f"{name} succeeded{tries}{took}"
            case OperationStatus.TIMED_OUT:
                return f"{name} timed out{tries}{took}"
            case OperationStatus.CANCELLED:
                return f"{name} was cancelled{took}"
            case OperationStatus.UNKNOWN:
                gone = f": {_GONE}: " if self._was_abandoned(event) else f"{took}: "
                return f"{name} ended{gone}whether it took effect is not known"
            case _:
                return f"{name} failed{tries}{took}: {_failure(event)}"

    def _was_abandoned(self, event: Event) -> bool:
        operation = self._operations.get(event.operation_id or "")
        return operation is not None and operation.error == ABANDONED.error

    def _on_replayed(self, event: Event) -> str:
        self._accepted[event.operation_id or ""] = event.at
        return f"{self._names.operation(event)} was sent on its way again by hand"

    def _on_closed(self, event: Event) -> str | None:
        # Its update is ready at the same moment, and that line says so.
        if event.batch_id in self._ready:
            return None
        return "everything that was asked for together has ended; there is nothing to tell"

    # Deliveries

    def _on_delivery(self, event: Event, together: Sequence[Event]) -> str:
        what = self._names.deliveries(e.delivery_id for e in together)
        be, them = ("are", "them") if len(together) > 1 else ("is", "it")
        match event.name:
            case "on_delivery_ready":
                return self._on_ready(event, what)
            case "on_delivery_waiting":
                return f"{what} waits: {event.reason}"
            case "on_delivery_started" if event.detail.get("mode") == "next_turn":
                return f"{what} {be} to be told with the answer to the caller"
            case "on_delivery_started":
                return f"the bot begins to tell {what}"
            case "on_delivery_spoken":
                joined = " with the answer to the caller" if self._joined(event) else ""
                return f"{what} {'were' if them == 'them' else 'was'} told{joined}{self._heard(event)}"
            case "on_delivery_interrupted":
                return f"{what}: {_CUT_OFF.get(event.reason, event.reason)}{self._heard(event)}"
            case "on_delivery_withdrawn" if event.reason == "uncovered":
                return f"the answer to the caller was heard, and did not tell {what}{self._heard(event)}"
            case "on_delivery_withdrawn" if self._joined(event):
                return f"no answer came that told {what}"
            case "on_delivery_withdrawn":
                return f"{what} {be} held back: the caller began to speak before the first word"
            case "on_delivery_suppressed":
                return f"{what} {be} not told: {event.reason}"
            case "on_delivery_replayed":
                return f"{what} {be} to be told again: sent on the way again by hand"
            case _:
                return f"{what} could not be told: {event.reason}"

    def _on_ready(self, event: Event, what: str) -> str:
        row = self._deliveries.get(event.delivery_id or "")
        count = len(row.operations) if row is not None and not row.correction else 0
        if event.reason == "partial":
            return f"a part of what was asked for together has ended: {what} is ready to be told"
        ended = f"all {count} that were asked for together have ended: " if count > 1 else ""
        return f"{ended}{what} is ready to be told"

    def _telling(self, event: Event) -> TellingRecord | None:
        row = self._deliveries.get(event.delivery_id or "")
        tellings = row.tellings if row is not None else ()
        return next((t for t in tellings if t.telling_id == event.telling_id), None)

    def _joined(self, event: Event) -> bool:
        telling = self._telling(event)
        return telling is not None and telling.mode == "next_turn"

    def _heard(self, event: Event) -> str:
        telling = self._telling(event)
        heard = telling.heard if telling is not None else ""
        return f"; the caller heard: {shown(heard, reveal=self._reveal)}" if heard else ""

    # Dead letters and sessions

    def _on_letter_opened(self, event: Event) -> str:
        return (
            f"a person has to look at this: {event.detail.get('letter_id', 'a dead letter')}: {event.reason}"
        )

    def _on_letter_closed(self, event: Event) -> str:
        return f"{event.detail.get('letter_id', 'a dead letter')} was closed: {event.reason}"

    def _on_held(self, event: Event) -> str | None:
        # The reason is the owner. That somebody holds the call at first is no news.
        before, self._holder = self._holder, event.reason
        if before is None:
            return None
        who = "the same process" if before == event.reason else "another process"
        return f"the call was picked up again by {who}"


def _failure(event: Event) -> str:
    """Return "503 unavailable", "timeout", "the tool said no" and the like."""
    outcome_class = str(event.detail.get("outcome_class") or OutcomeClass.ERROR)
    words = _CLASSES.get(outcome_class, outcome_class.replace("_", " "))
    status = event.detail.get("http_status")
    return f"{status} {words}" if status else words
