# SPDX-License-Identifier: BSD-2-Clause
"""Whether an attempt is repeated, and how long that waits."""

import pytest

from pipecat_async_tools import OutcomeClass, Retry
from pipecat_async_tools.operations.failures import Failure
from pipecat_async_tools.operations.retrying import Schedule
from pipecat_async_tools.testing.virtual_time import seeded

UNAVAILABLE = Failure(outcome_class=OutcomeClass.UNAVAILABLE)


def waits(retry, failure=UNAVAILABLE, *, idempotent=False, remaining_secs=1000.0):
    """The waits of a run in which every attempt fails alike."""
    schedule = Schedule(retry, idempotent=idempotent)
    found = []
    while (wait := schedule.next_wait_secs(failure, remaining_secs)) is not None:
        found.append(wait)
        assert len(found) < 100
    return found


@pytest.mark.parametrize(
    ("outcome_class", "idempotent", "repeated"),
    [
        (OutcomeClass.UNAVAILABLE, False, True),
        (OutcomeClass.RATE_LIMITED, False, True),
        (OutcomeClass.TIMEOUT, False, True),
        (OutcomeClass.AMBIGUOUS, False, False),
        (OutcomeClass.AMBIGUOUS, True, True),
        (OutcomeClass.BUSINESS_ERROR, True, False),
        (OutcomeClass.ERROR, True, False),
    ],
)
def test_only_what_is_safe_is_repeated(outcome_class, idempotent, repeated):
    failure = Failure(outcome_class=outcome_class)
    assert bool(waits(Retry(max_attempts=2), failure, idempotent=idempotent)) is repeated


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_there_are_as_many_attempts_as_declared(attempts):
    assert len(waits(Retry(max_attempts=attempts))) == attempts - 1


def test_the_waits_double_up_to_the_cap_and_are_jittered():
    found = waits(Retry(max_attempts=8, initial_wait_secs=1.0, max_wait_secs=10.0))
    for wait, base in zip(found, [1, 2, 4, 8, 10, 10, 10], strict=True):
        assert base <= wait <= min(base + 0.5, 10.0)
    assert len({wait % 1 for wait in found[:4]}) == 4


def test_the_same_seed_gives_the_same_waits():
    def once():
        with seeded(7):
            return waits(Retry(max_attempts=5))

    assert once() == once()


def test_a_service_is_left_alone_for_as_long_as_it_asks():
    failure = Failure(outcome_class=OutcomeClass.RATE_LIMITED, retry_after_secs=20.0)
    retry = Retry(max_attempts=3, initial_wait_secs=0.5, max_wait_secs=2.0)
    for wait in waits(retry, failure):
        assert 20.0 < wait <= 20.5


def test_a_shorter_request_does_not_shorten_the_back_off():
    failure = Failure(outcome_class=OutcomeClass.RATE_LIMITED, retry_after_secs=0.0)
    (wait,) = waits(Retry(max_attempts=2, initial_wait_secs=3.0), failure)
    assert wait >= 3.0


def test_a_wait_that_would_pass_the_deadline_is_not_begun():
    failure = Failure(outcome_class=OutcomeClass.RATE_LIMITED, retry_after_secs=20.0)
    assert waits(Retry(max_attempts=3), failure, remaining_secs=19.0) == []
    assert len(waits(Retry(max_attempts=3), failure, remaining_secs=30.0)) == 2
