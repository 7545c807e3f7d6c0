# SPDX-License-Identifier: BSD-2-Clause
"""The ``Retry-After`` header, as clients keep it."""

import time
from email.utils import formatdate

import aiohttp
import httpx
import pytest
from multidict import CIMultiDict

from pipecat_async_tools.operations.retry_after import parse, retry_after_secs

REQUEST = httpx.Request("GET", "http://clinic.test/slots")


def httpx_error(headers):
    response = httpx.Response(429, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("no", request=REQUEST, response=response)


def aiohttp_error(headers):
    return aiohttp.ClientResponseError(None, (), status=429, headers=CIMultiDict(headers))


def plain_error(headers):
    error = OSError("no")
    error.headers = dict(headers)
    return error


@pytest.mark.parametrize("client", [httpx_error, aiohttp_error, plain_error], ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_it_is_found_whatever_its_case(client, name):
    assert retry_after_secs(client({name: "12"})) == 12.0


@pytest.mark.parametrize("client", [httpx_error, aiohttp_error, plain_error], ids=lambda c: c.__name__)
def test_without_it_there_is_none(client):
    assert retry_after_secs(client({"X-Other": "12"})) is None


def test_an_error_without_headers_has_none():
    assert retry_after_secs(RuntimeError("no")) is None


def test_a_date_is_as_far_away_as_it_is(monkeypatch):
    now = 1_796_100_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    assert parse(formatdate(now + 30, usegmt=True)) == pytest.approx(30.0)


def test_a_date_that_has_passed_asks_for_no_wait():
    assert parse("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5e3x", "٣"])
def test_what_is_neither_is_ignored(value):
    assert parse(value) is None
