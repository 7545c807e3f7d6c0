# SPDX-License-Identifier: BSD-2-Clause
"""What a store answers with: copies of its rows. Every time is in seconds, on the store's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import OutcomeClass

DeliveryState = Literal["pending", "telling", "spoken", "suppressed", "undeliverable"]
TellingOutcome = Literal["completed", "interrupted", "withdrawn", "lost", "unheard", "uncovered"]
TellingMode = Literal["proactive", "next_turn"]
Duplicate = Literal["joined", "rejected"]

_WORTH_REPLAYING = frozenset(
    str(c) for c in (OutcomeClass.RATE_LIMITED, OutcomeClass.UNAVAILABLE, OutcomeClass.TIMEOUT)
)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """What became of a request.

    Parameters:
        operation: The operation: new, or the one that was there.
        duplicate: Why nothing new was accepted; None when ``operation`` is new.
        replaced: The operation that was cancelled in favour of this one.
    """

    operation: Operation
    duplicate: Duplicate | None = None
    replaced: Operation | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to run an operation.

    Parameters:
        operation: The record, now running.
        fence: Goes with what is written under the claim: under an older fence it is refused.
    """

    operation: Operation
    fence: int


@dataclass(frozen=True, kw_only=True)
class TellingRecord:
    """One attempt to say a delivery, as it went.

    Parameters:
        telling_id: The attempt.
        started_at: Seconds, on the event loop's clock, of its first audio; None when there was none.
        ended_at: Seconds, on the event loop's clock.
        heard: The words the caller could hear.
        outcome: How it went; "uncovered" is an answer that was heard and did not tell it.
        mode: Whether it was a telling of its own, or joined the answer to the caller.
    """

    telling_id: str
    started_at: float | None
    ended_at: float
    heard: str
    outcome: TellingOutcome
    mode: TellingMode = "proactive"


@dataclass(frozen=True, kw_only=True)
class TellingEnd:
    """How a telling ended for one of its deliveries.

    Parameters:
        delivery_id: The delivery.
        state: Where the delivery is now.
        reason: Why.
        record: The telling.
        heard: All the words heard of it so far in tellings that were cut off.
        text: All the words of the one cut off last.
    """

    delivery_id: str
    state: DeliveryState
    reason: str
    record: TellingRecord
    heard: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class DeliveryRow:
    """The update that a closed batch owes the caller.

    Parameters:
        delivery_id: The delivery.
        session_id: The caller's session.
        batch_id: The batch it came from.
        turn_id: The caller's turn the request came from.
        operations: What it tells, as the operations are now.
        state: How far it got.
        reason: Why it is where it is.
        ready_at: When it became pending for the first time.
        correction: Whether it corrects something that was told before.
        telling_id: The telling it is, or was last, under.
        mode: How it is being told, or was told last; None when it never was.
        tellings: The attempts to say it.
        heard: All the words heard of it in tellings that were cut off.
        text: All the words of the one cut off last.
    """

    delivery_id: str
    session_id: str
    batch_id: str
    turn_id: str
    operations: tuple[Operation, ...]
    state: DeliveryState = "pending"
    reason: str = ""
    ready_at: float
    correction: bool = False
    telling_id: str | None = None
    mode: TellingMode | None = None
    tellings: tuple[TellingRecord, ...] = ()
    heard: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What the end of an operation led to.

    Parameters:
        operation: The settled record.
        corrected: Whether it had timed out, or become unknown, before.
        delivery: The delivery that came of it, if one did.
        dead_letter: The id of the dead letter that came of it, if one did.
    """

    operation: Operation
    corrected: bool = False
    delivery: DeliveryRow | None = None
    dead_letter: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What was found lying about.

    Parameters:
        accepted: Operations that are to be run again.
        finished: Operations that were settled.
        deliveries: Deliveries of batches that no longer wait for what never started.
    """

    accepted: tuple[Operation, ...] = ()
    finished: tuple[Finished, ...] = ()
    deliveries: tuple[DeliveryRow, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """Operations that close together.

    Parameters:
        batch_id: The batch.
        session_id: The caller's session.
        turn_id: The caller's turn.
        owner: Who opened it.
        expected: Announced calls that have neither become an operation nor been dismissed.
        operation_ids: Its operations, oldest first.
        opened_at: When it was opened.
        closed_at: When it closed last; None while it is open.
        native: Whether its calls were answered with their results, so that it owes nothing.
    """

    batch_id: str
    session_id: str
    turn_id: str
    owner: str
    expected: tuple[str, ...] = ()
    operation_ids: tuple[str, ...] = ()
    opened_at: float
    closed_at: float | None = None
    native: bool = False


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """A caller's session at a glance.

    Parameters:
        session_id: The session.
        owner: Who holds it; None when nobody alive does.
        first_at: Its first event.
        last_at: Its latest event.
        operations: How many operations it has.
        running: How many of them are not settled.
        open_deliveries: How many deliveries the caller is owed.
        dead_letters: How many dead letters of it are not closed.
    """

    session_id: str
    owner: str | None
    first_at: float
    last_at: float
    operations: int
    running: int
    open_deliveries: int
    dead_letters: int


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """What only a person can settle.

    Parameters:
        letter_id: ``dead-{operation_id}`` or ``dead-{delivery_id}``, ``-{n}`` appended from the second on.
        kind: What it is about.
        session_id: The caller's session.
        reason: Why it is here.
        operation: The operation as it is now, if it is about one.
        delivery: The delivery as it is now, if it is about one.
        opened_at: Since when.
        closed_at: When it was closed; None while it is open.
        note: Why it was closed.
    """

    letter_id: str
    kind: Literal["operation", "delivery"]
    session_id: str
    reason: str
    operation: Operation | None = None
    delivery: DeliveryRow | None = None
    opened_at: float
    closed_at: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class LoggedEvent:
    """One line of the log.

    Parameters:
        position: Its place, to go on from; means nothing else.
        event: What happened.
    """

    position: str
    event: Event


def why_dead(operation: Operation) -> str | None:
    """Return why a settled operation needs a person; None when it does not.

    Unknown outcomes, and failures that were worth repeating and were repeated in vain. What the tool
    refused, a plain mistake in a handler, and a cancel are final: there is nothing to replay.
    """
    if operation.status is OperationStatus.UNKNOWN:
        return "whether it took effect is not known"
    if operation.status is OperationStatus.TIMED_OUT:
        return "its time ran out"
    if operation.status is OperationStatus.FAILED and operation.outcome_class in _WORTH_REPLAYING:
        attempts = "1 attempt" if operation.attempts == 1 else f"{operation.attempts} attempts"
        return f"{operation.outcome_class} after {attempts}"
    return None


def delivery_id(batch_id: str, late: Operation | None = None, *, corrected: bool = False) -> str:
    """Return the name of a delivery, which everyone who knows the batch can work out.

    Args:
        batch_id: The batch.
        late: The first operation of a delivery after the first of its batch; None for the first.
        corrected: Whether it corrects what was told of ``late`` before.
    """
    if late is None:
        return f"delivery-{batch_id}"
    again = f"-{late.replays}" if late.replays else ""
    return f"delivery-{batch_id}-{'corrected' if corrected else 'late'}-{late.operation_id}{again}"
