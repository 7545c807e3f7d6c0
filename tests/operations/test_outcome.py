# SPDX-License-Identifier: BSD-2-Clause
"""What came of an attempt: results are data, failures have a class."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid

import aiohttp
import httpx
import openai
import pytest
from pydantic import BaseModel

from pipecat_async_tools import OperationStatus, OutcomeClass, ToolError
from pipecat_async_tools.operations import outcome

REQUEST = httpx.Request("GET", "http://clinic.test/slots")


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


def http_status_error(status):
    return httpx.HTTPStatusError("no", request=REQUEST, response=httpx.Response(status, request=REQUEST))


def aiohttp_error(status):
    return aiohttp.ClientResponseError(request_info=None, history=(), status=status)


def openai_error(status):
    response = httpx.Response(status, request=REQUEST)
    return openai.APIStatusError("no", response=response, body=None)


class RequestsResponse:
    """As that of ``requests``: false when the status is an error."""

    def __init__(self, status):
        self.status_code = status

    def __bool__(self):
        return self.status_code < 400


def requests_error(status):
    error = OSError("no")
    error.response = RequestsResponse(status)
    return error


CLIENTS = [http_status_error, aiohttp_error, openai_error, requests_error]


def raised_from(error, *causes):
    """An error with a chain of causes, as clients wrap what the socket raised."""
    outer = error
    for cause in causes:
        outer.__cause__ = cause
        outer = cause
    return error


class TestClasses:
    @pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
    @pytest.mark.parametrize(
        ("status", "outcome_class"),
        [
            (400, OutcomeClass.BUSINESS_ERROR),
            (404, OutcomeClass.BUSINESS_ERROR),
            (499, OutcomeClass.BUSINESS_ERROR),
            (408, OutcomeClass.TIMEOUT),
            (425, OutcomeClass.TIMEOUT),
            (429, OutcomeClass.RATE_LIMITED),
            (500, OutcomeClass.UNAVAILABLE),
            (503, OutcomeClass.UNAVAILABLE),
            (302, OutcomeClass.ERROR),
        ],
    )
    def test_by_the_status_of_the_answer(self, client, status, outcome_class):
        result = outcome.failed(client(status))
        assert result.outcome_class is outcome_class
        assert result.status is OperationStatus.FAILED

    @pytest.mark.parametrize(
        ("error", "outcome_class"),
        [
            (ToolError("no"), OutcomeClass.BUSINESS_ERROR),
            (ConnectionRefusedError("no"), OutcomeClass.UNAVAILABLE),
            (TimeoutError("no"), OutcomeClass.TIMEOUT),
            (aiohttp.ServerTimeoutError("no"), OutcomeClass.TIMEOUT),
            (KeyError("no"), OutcomeClass.ERROR),
            (
                raised_from(httpx.ConnectError("no"), OSError(), ConnectionRefusedError()),
                OutcomeClass.UNAVAILABLE,
            ),
            (raised_from(httpx.ReadTimeout("no"), OSError(), TimeoutError()), OutcomeClass.TIMEOUT),
            (
                raised_from(openai.APITimeoutError(request=REQUEST), httpx.ReadTimeout("no"), TimeoutError()),
                OutcomeClass.TIMEOUT,
            ),
            (raised_from(ToolError("no"), TimeoutError()), OutcomeClass.BUSINESS_ERROR),
            (raised_from(http_status_error(404), TimeoutError()), OutcomeClass.BUSINESS_ERROR),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_by_the_kind_of_the_error(self, error, outcome_class):
        assert outcome.failed(error).outcome_class is outcome_class

    def test_by_what_it_was_raised_from(self):
        try:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                raise RuntimeError("no clinic") from None
        except RuntimeError as hidden:
            assert outcome.failed(hidden).outcome_class is OutcomeClass.ERROR
        try:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                raise RuntimeError("no clinic")  # noqa: B904
        except RuntimeError as seen:
            assert outcome.failed(seen).outcome_class is OutcomeClass.UNAVAILABLE

    def test_a_circle_of_causes_ends(self):
        first, second = RuntimeError("a"), RuntimeError("b")
        first.__cause__, second.__cause__ = second, first
        assert outcome.failed(first).outcome_class is OutcomeClass.ERROR


class TestWords:
    def test_a_failure_is_told_in_its_own_words(self):
        assert outcome.failed(ToolError("the doctor does not work on Sundays")).error == (
            "the doctor does not work on Sundays"
        )

    def test_one_without_words_is_told_by_its_name(self):
        assert outcome.failed(RuntimeError()).error == "RuntimeError"

    def test_one_that_cannot_be_printed_is_told_by_its_name(self):
        class Mute(Exception):
            def __str__(self):
                raise AttributeError("no request")

        assert outcome.failed(Mute()).error == "Mute"

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
            (outcome.reported_failure("no"), OperationStatus.FAILED),
        ],
    )
    def test_every_other_end_has_its_status_and_words(self, result, status):
        assert result.status is status
        assert result.error
