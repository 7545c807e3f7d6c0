# SPDX-License-Identifier: BSD-2-Clause
"""What came of one attempt, and its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from pipecat_async_tools.operations.operation import OperationStatus


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
        result = to_jsonable_python(value)
    except Exception as e:
        # Not only serialization errors: a generator or a property of the value may raise anything.
        return Outcome(
            status=OperationStatus.FAILED,
            outcome_class=OutcomeClass.ERROR,
            error=f"The result of type {type(value).__name__} cannot be written as JSON: {e}",
        )
    return Outcome(status=OperationStatus.SUCCEEDED, outcome_class=OutcomeClass.SUCCESS, result=result)


def failed(error: BaseException) -> Outcome:
    """Return the outcome of a handler that raised."""
    return Outcome(
        status=OperationStatus.FAILED,
        outcome_class=_class_of(error),
        error=_words_of(error) or type(error).__name__,
    )


def reported_failure(error: str) -> Outcome:
    """Return the outcome of a native handler that raised, as Pipecat reports it."""
    return Outcome(status=OperationStatus.FAILED, outcome_class=OutcomeClass.ERROR, error=error)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # Some errors of HTTP clients cannot be printed when they were built without a request.
        return ""


def _class_of(error: BaseException) -> OutcomeClass:
    if isinstance(error, ToolError):
        return OutcomeClass.BUSINESS_ERROR
    for status in _http_statuses(error):
        if status == 429:
            return OutcomeClass.RATE_LIMITED
        if status in (408, 425):
            return OutcomeClass.TIMEOUT
        if 400 <= status < 500:
            return OutcomeClass.BUSINESS_ERROR
        if status >= 500:
            return OutcomeClass.UNAVAILABLE
    for cause in _causes(error):
        if isinstance(cause, ConnectionRefusedError):
            return OutcomeClass.UNAVAILABLE
        if isinstance(cause, TimeoutError):
            return OutcomeClass.TIMEOUT
    return OutcomeClass.ERROR


def _causes(error: BaseException) -> Iterator[BaseException]:
    # HTTP clients wrap what the socket raised, most of them twice.
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _http_statuses(error: BaseException) -> Iterator[int]:
    # Every HTTP client names the status its own way; none is a dependency of ours.
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "status"), (response, "status_code")):
        value = getattr(holder, name, None)
        if isinstance(value, int):
            yield value
