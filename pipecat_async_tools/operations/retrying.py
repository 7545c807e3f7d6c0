# SPDX-License-Identifier: BSD-2-Clause
"""Whether, and when, a failed attempt is repeated."""

from __future__ import annotations

import tenacity

from pipecat_async_tools.operations.failures import Failure
from pipecat_async_tools.operations.outcome import OutcomeClass
from pipecat_async_tools.operations.retry import Retry

_SAFE = frozenset({OutcomeClass.RATE_LIMITED, OutcomeClass.UNAVAILABLE, OutcomeClass.TIMEOUT})
_LEAST_JITTER_SECS = 0.05


class Schedule:
    """The attempts of one run: exponential back-off with jitter and a cap, within a deadline."""

    def __init__(self, retry: Retry, *, idempotent: bool):
        """Initialize the schedule.

        Args:
            retry: How often, and how patiently.
            idempotent: Whether an attempt that may have taken effect may be repeated.
        """
        self._retry = retry
        self._idempotent = idempotent
        self._made = 0
        self._back_off = tenacity.wait_exponential_jitter(
            initial=retry.initial_wait_secs,
            max=retry.max_wait_secs,
            jitter=max(retry.initial_wait_secs / 2, _LEAST_JITTER_SECS),
        )

    def next_wait_secs(self, failure: Failure, remaining_secs: float) -> float | None:
        """Return how long to wait before the next attempt, or None if there is none.

        Args:
            failure: How the attempt failed.
            remaining_secs: Seconds until the deadline; a wait that would pass it is not begun.
        """
        self._made += 1
        if self._made >= self._retry.max_attempts or not self._may_repeat(failure):
            return None
        wait = self._back_off(self._state())
        if failure.retry_after_secs is not None:
            # At least as long as it asked for, and not all callers at the same instant.
            wait = max(wait, failure.retry_after_secs + wait / 10)
        return wait if wait < remaining_secs else None

    def _may_repeat(self, failure: Failure) -> bool:
        if failure.outcome_class is OutcomeClass.AMBIGUOUS:
            return self._idempotent
        return failure.outcome_class in _SAFE

    def _state(self) -> tenacity.RetryCallState:
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = self._made
        return state
