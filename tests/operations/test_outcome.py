# SPDX-License-Identifier: BSD-2-Clause
"""What came of an attempt: results are data, failures have a class."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid

import pytest
from pydantic import BaseModel

from pipecat_async_tools import OperationStatus, OutcomeClass
from pipecat_async_tools.operations import outcome
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation
from tests.stores import memory_store


@dataclasses.dataclass
class Slot:
    day: datetime.date
    free: bool


class Person(BaseModel):
    name: str


class Colour(enum.Enum):
    RED = "red"


class TestResults:
    @pytest.mark.parametrize("value", [[], {}, 0, False, "", None, 0.0], ids=repr)
    def test_a_falsy_result_is_a_result(self, value):
        result = outcome.succeeded(value)
        assert result.status is OperationStatus.SUCCEEDED
        assert result.result == value
        assert type(result.result) is type(value)

    @pytest.mark.parametrize(
        ("value", "data"),
        [
            (datetime.date(2026, 12, 3), "2026-12-03"),
            (datetime.datetime(2026, 12, 3, 10, 30), "2026-12-03T10:30:00"),
            (Slot(datetime.date(2026, 12, 3), False), {"day": "2026-12-03", "free": False}),
            ([Slot(datetime.date(2026, 12, 3), True)], [{"day": "2026-12-03", "free": True}]),
            (Person(name="Anna"), {"name": "Anna"}),
            (Colour.RED, "red"),
            (decimal.Decimal("1.50"), "1.50"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            ((1, 2), [1, 2]),
            ({1: "one"}, {"1": "one"}),
        ],
        ids=repr,
    )
    def test_what_is_not_json_becomes_json(self, value, data):
        result = outcome.succeeded(value)
        assert (result.status, result.outcome_class) == (OperationStatus.SUCCEEDED, OutcomeClass.SUCCESS)
        assert result.result == data
        json.dumps(result.result)

    def circular():
        circle = []
        circle.append(circle)
        return circle

    def broken():
        yield 1
        raise RuntimeError("the cursor is closed")

    @pytest.mark.parametrize(
        "value", [object(), circular(), b"\xff", broken(), open], ids=lambda v: type(v).__name__
    )
    def test_what_cannot_become_json_is_a_failure_that_says_so(self, value):
        result = outcome.succeeded(value)
        assert (result.status, result.outcome_class) == (OperationStatus.FAILED, OutcomeClass.ERROR)
        assert f"result of type {type(value).__name__} cannot be written as JSON" in result.error
        assert result.result is None


class TestDeadline:
    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({}, OperationStatus.TIMED_OUT),
            ({"status": OperationStatus.RUNNING}, OperationStatus.UNKNOWN),
            ({"status": OperationStatus.RUNNING, "idempotent": True}, OperationStatus.TIMED_OUT),
            ({"status": OperationStatus.RUNNING, "adopted": True}, OperationStatus.TIMED_OUT),
        ],
        ids=["never started", "running", "running and repeatable", "run by Pipecat"],
    )
    def test_only_what_may_have_taken_effect_is_unknown(self, fields, status):
        result = outcome.deadline_passed(operation(timeout_secs=2.5, **fields))
        assert result.status is status
        assert "2.5 seconds" in result.error


class TestWords:
    def test_a_time_out_names_its_seconds(self):
        result = outcome.timed_out(2.5)
        assert (result.status, result.outcome_class) == (OperationStatus.TIMED_OUT, OutcomeClass.TIMEOUT)
        assert "2.5 seconds" in result.error

    @pytest.mark.parametrize(
        ("result", "status"),
        [
            (outcome.CANCELLED, OperationStatus.CANCELLED),
            (outcome.NEVER_STARTED, OperationStatus.CANCELLED),
            (outcome.ABANDONED, OperationStatus.UNKNOWN),
            (outcome.unconfirmed("no answer"), OperationStatus.UNKNOWN),
            (outcome.failed("no"), OperationStatus.FAILED),
        ],
    )
    def test_every_other_end_has_its_status_and_words(self, result, status):
        assert result.status is status
        assert result.error


class TestHalfACharacter:
    """No store can write one down, and what cannot be written down is never settled."""

    @pytest.mark.parametrize(
        "result",
        [
            outcome.succeeded({"name": "An\ud800na"}),
            outcome.failed("An\ud800na"),
            outcome.unconfirmed("An\ud800na"),
        ],
        ids=["result", "error", "unconfirmed"],
    )
    @virtual_time
    async def test_it_does_not_keep_an_outcome_out_of_the_store(self, result):
        store = memory_store()
        (accepted,) = await store.accept([operation()], owner="owner")
        await store.finish(accepted.operation.operation_id, result)
        told = await store.operation(accepted.operation.operation_id)
        assert told.status is result.status
        assert "An?na" in str(told.result or told.error)
