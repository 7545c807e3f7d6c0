# SPDX-License-Identifier: BSD-2-Clause
"""What came of one attempt, and its class."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from pipecat_async_tools.operations.operation import Operation, OperationStatus


class ToolError(Exception):
    """Raise this in a handler when the answer is no: it is told, and never retried.

    The message is written for the caller: "the doctor does not work on Sundays".
    """


class OutcomeClass(StrEnum):
    """Why an attempt ended as it did; what may be retried depends on it."""

    SUCCESS = "success"
    BUSINESS_ERROR = "business_error"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    AMBIGUOUS = "ambiguous"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of an operation.

    Parameters:
        status: The terminal status it leads to.
        outcome_class: Its class.
        result: JSON data, when it succeeded. Falsy values are results like any other.
        error: Words for the model and the operator, when it did not.
    """

    status: OperationStatus
    outcome_class: OutcomeClass
    result: Any = None
    error: str | None = None


CANCELLED = Outcome(
    status=OperationStatus.CANCELLED, outcome_class=OutcomeClass.CANCELLED, error="It was cancelled."
)
NEVER_STARTED = Outcome(
    status=OperationStatus.CANCELLED, outcome_class=OutcomeClass.CANCELLED, error="It was never started."
)
TURN_WITHDRAWN = Outcome(
    status=OperationStatus.CANCELLED,
    outcome_class=OutcomeClass.CANCELLED,
    error="The caller went on speaking before it began, so it was never started.",
)
ABANDONED = Outcome(
    status=OperationStatus.UNKNOWN,
    outcome_class=OutcomeClass.AMBIGUOUS,
    error="It was stopped before it ended; whether it took effect is not known.",
)


def timed_out(timeout_secs: float) -> Outcome:
    """Return the outcome of an operation that ran past its deadline."""
    return Outcome(
        status=OperationStatus.TIMED_OUT,
        outcome_class=OutcomeClass.TIMEOUT,
        error=f"There was no answer within {timeout_secs:g} seconds.",
    )


def succeeded(value: Any) -> Outcome:
    """Return the outcome of a handler that returned ``value``.

    Dates, dataclasses and models become JSON data; what cannot become any is a failure with a
    clear error, never a lost result.
    """
    try:
        data = to_jsonable_python(value)
        result = json.loads(_sound(json.dumps(data, ensure_ascii=False)))
    except Exception as e:
        # Not only serialization errors: a generator or a property of the value may raise anything.
        return Outcome(
            status=OperationStatus.FAILED,
            outcome_class=OutcomeClass.ERROR,
            error=f"The result of type {type(value).__name__} cannot be written as JSON: {e}",
        )
    return Outcome(status=OperationStatus.SUCCEEDED, outcome_class=OutcomeClass.SUCCESS, result=result)


def failed(error: str, outcome_class: OutcomeClass = OutcomeClass.ERROR) -> Outcome:
    """Return the outcome of an attempt that failed for good."""
    return Outcome(status=OperationStatus.FAILED, outcome_class=outcome_class, error=_sound(error))


def unconfirmed(error: str) -> Outcome:
    """Return the outcome of an attempt that may have taken effect and must not be repeated."""
    return Outcome(
        status=OperationStatus.UNKNOWN,
        outcome_class=OutcomeClass.AMBIGUOUS,
        error=_sound(f"It could not be confirmed whether it took effect: {error}"),
    )


def deadline_passed(operation: Operation) -> Outcome:
    """Return the outcome of an operation whose deadline passed while nobody reported its end.

    What was never started, may be repeated, or is run by Pipecat and still reports, has timed out.
    Whatever else is running may have taken effect.
    """
    running = operation.status is OperationStatus.RUNNING
    if running and not operation.idempotent and not operation.adopted:
        return unconfirmed(f"there was no answer within {operation.timeout_secs:g} seconds.")
    return timed_out(operation.timeout_secs)


def _sound(text: str) -> str:
    # Half a character cannot be written down, and what cannot be written down would never be settled.
    return text.encode("utf-8", "replace").decode("utf-8")
