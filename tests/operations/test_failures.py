# SPDX-License-Identifier: BSD-2-Clause
"""What an exception means: by the answer, by the kind, and by what real clients raise at real sockets."""

import asyncio
import contextlib
import socket

import aiohttp
import httpx
import openai
import pytest
import requests

from pipecat_async_tools import OutcomeClass, ToolError
from pipecat_async_tools.operations.failures import classify

REQUEST = httpx.Request("GET", "http://clinic.test/slots")


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
        failure = classify(client(status))
        assert failure.outcome_class is outcome_class
        assert failure.http_status == (status if outcome_class is not OutcomeClass.ERROR else None)

    @pytest.mark.parametrize(
        ("error", "outcome_class"),
        [
            (ToolError("no"), OutcomeClass.BUSINESS_ERROR),
            (ConnectionRefusedError("no"), OutcomeClass.UNAVAILABLE),
            (TimeoutError("no"), OutcomeClass.AMBIGUOUS),
            (aiohttp.ServerTimeoutError("no"), OutcomeClass.AMBIGUOUS),
            (KeyError("no"), OutcomeClass.ERROR),
            (
                raised_from(httpx.ConnectError("no"), OSError(), ConnectionRefusedError()),
                OutcomeClass.UNAVAILABLE,
            ),
            (raised_from(httpx.ReadTimeout("no"), OSError(), TimeoutError()), OutcomeClass.AMBIGUOUS),
            (
                raised_from(openai.APITimeoutError(request=REQUEST), httpx.ReadTimeout("no"), TimeoutError()),
                OutcomeClass.AMBIGUOUS,
            ),
            (raised_from(ToolError("no"), TimeoutError()), OutcomeClass.BUSINESS_ERROR),
            (raised_from(http_status_error(404), TimeoutError()), OutcomeClass.BUSINESS_ERROR),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_by_the_kind_of_the_error(self, error, outcome_class):
        assert classify(error).outcome_class is outcome_class

    @pytest.mark.parametrize(
        ("members", "outcome_class"),
        [
            ([http_status_error(503), ToolError("no")], OutcomeClass.BUSINESS_ERROR),
            ([http_status_error(503), http_status_error(429)], OutcomeClass.UNAVAILABLE),
            ([ToolError("no"), TimeoutError(), KeyError("no")], OutcomeClass.AMBIGUOUS),
        ],
    )
    def test_a_group_is_its_worst_member(self, members, outcome_class):
        assert classify(ExceptionGroup("several", members)).outcome_class is outcome_class

    def test_by_what_it_was_raised_from(self):
        try:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                raise RuntimeError("no clinic") from None
        except RuntimeError as hidden:
            assert classify(hidden).outcome_class is OutcomeClass.ERROR
        try:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError:
                raise RuntimeError("no clinic")  # noqa: B904
        except RuntimeError as seen:
            assert classify(seen).outcome_class is OutcomeClass.UNAVAILABLE

    def test_a_circle_of_causes_ends(self):
        first, second = RuntimeError("a"), RuntimeError("b")
        first.__cause__, second.__cause__ = second, first
        assert classify(first).outcome_class is OutcomeClass.ERROR


class TestWords:
    def test_a_failure_is_told_in_its_own_words(self):
        error = ToolError("the doctor does not work on Sundays")
        assert classify(error).words == "the doctor does not work on Sundays"

    def test_one_without_words_is_told_by_its_name(self):
        assert classify(RuntimeError()).words == "RuntimeError"

    def test_one_that_cannot_be_printed_is_told_by_its_name(self):
        class Mute(Exception):
            def __str__(self):
                raise AttributeError("no request")

        assert classify(Mute()).words == "Mute"


async def with_httpx(url):
    async with httpx.AsyncClient(timeout=0.3) as client:
        (await client.post(url, json={})).raise_for_status()


async def with_aiohttp(url):
    timeout = aiohttp.ClientTimeout(sock_read=0.3, sock_connect=0.3)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, json={}, raise_for_status=True) as response,
    ):
        await response.read()


async def with_openai(url):
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=0.3)
    await client.models.list()


async def with_requests(url):
    response = await asyncio.to_thread(requests.post, url, json={}, timeout=0.3)
    response.raise_for_status()


async def hang_up(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def break_off(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()


async def say_nothing(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(1)
    writer.close()


async def be_busy(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n"
        b"Content-Type: application/json\r\nConnection: close\r\n\r\n{}"
    )
    await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def server(handle):
    """A service on this machine that treats every request alike."""

    async def calmly(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handle(reader, writer)

    serving = await asyncio.start_server(calmly, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}"
    finally:
        serving.close()


REAL_CLIENTS = [with_httpx, with_aiohttp, with_openai, with_requests]


@pytest.mark.parametrize("client", REAL_CLIENTS, ids=lambda client: client.__name__)
class TestRealClients:
    async def _failure(self, client, url):
        with pytest.raises(Exception) as caught:
            await client(url)
        return classify(caught.value)

    def _at_a_server(self, client, handle):
        async def ask():
            async with server(handle) as url:
                return await self._failure(client, url)

        return asyncio.run(ask())

    def test_nobody_listens(self, client):
        async def ask():
            async with server(hang_up) as url:
                pass
            return await self._failure(client, url)

        assert asyncio.run(ask()).outcome_class is OutcomeClass.UNAVAILABLE

    def test_the_name_is_not_known(self, client):
        failure = asyncio.run(self._failure(client, "http://no-such-clinic.invalid/slots"))
        assert failure.outcome_class is OutcomeClass.UNAVAILABLE

    @pytest.mark.parametrize("handle", [hang_up, break_off, say_nothing], ids=lambda h: h.__name__)
    def test_the_answer_does_not_come_or_not_whole(self, client, handle):
        assert self._at_a_server(client, handle).outcome_class is OutcomeClass.AMBIGUOUS

    def test_the_service_is_busy_and_says_for_how_long(self, client):
        failure = self._at_a_server(client, be_busy)
        assert (failure.outcome_class, failure.http_status) == (OutcomeClass.RATE_LIMITED, 429)
        assert failure.retry_after_secs == 7.0


def raised_during(first, second):
    """``second`` as it is raised while ``first`` is being handled: no wrapping, two things went wrong."""
    try:
        try:
            raise first
        except Exception:
            raise second  # noqa: B904
    except Exception as error:
        return error


class TestWhatWentWrongBefore:
    """A request that may have taken effect outweighs a later one that did not: it must not be repeated."""

    @pytest.mark.parametrize(
        ("first", "second", "outcome_class"),
        [
            (httpx.ReadTimeout("no"), httpx.ConnectError("no"), OutcomeClass.AMBIGUOUS),
            (httpx.ConnectError("no"), httpx.ReadTimeout("no"), OutcomeClass.AMBIGUOUS),
            (httpx.ConnectError("no"), TimeoutError(), OutcomeClass.AMBIGUOUS),
            (httpx.ReadTimeout("no"), http_status_error(503), OutcomeClass.AMBIGUOUS),
            (httpx.ReadTimeout("no"), KeyError("bug"), OutcomeClass.AMBIGUOUS),
            (httpx.ReadTimeout("no"), http_status_error(404), OutcomeClass.BUSINESS_ERROR),
            (httpx.ReadTimeout("no"), ToolError("no"), OutcomeClass.BUSINESS_ERROR),
            (httpx.ConnectError("no"), http_status_error(503), OutcomeClass.UNAVAILABLE),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
    )
    def test_by_both(self, first, second, outcome_class):
        assert classify(raised_during(first, second)).outcome_class is outcome_class

    @pytest.mark.parametrize("client", [with_httpx, with_openai, with_requests], ids=lambda c: c.__name__)
    def test_a_request_cut_off_and_then_a_fallback_that_refuses(self, client):
        async def ask():
            async with server(hang_up) as gone:
                pass
            async with server(hang_up) as url:
                try:
                    await client(url)
                except Exception:
                    await client(gone)

        with pytest.raises(Exception) as caught:
            asyncio.run(ask())
        assert classify(caught.value).outcome_class is OutcomeClass.AMBIGUOUS


class TestWrapped:
    def test_an_answer_keeps_its_status_and_its_wait(self):
        response = httpx.Response(503, request=REQUEST, headers={"Retry-After": "3"})
        answer = httpx.HTTPStatusError("no", request=REQUEST, response=response)
        failure = classify(raised_from(RuntimeError("the booking failed"), answer))
        assert (failure.outcome_class, failure.http_status) == (OutcomeClass.UNAVAILABLE, 503)
        assert (failure.retry_after_secs, failure.words) == (3.0, "the booking failed")

    def test_a_group_keeps_the_longest_wait(self):
        def busy(secs):
            response = httpx.Response(429, request=REQUEST, headers={"Retry-After": str(secs)})
            return httpx.HTTPStatusError("no", request=REQUEST, response=response)

        assert classify(ExceptionGroup("several", [busy(2), busy(9)])).retry_after_secs == 9.0

    def test_a_wrong_address_is_a_bug(self):
        assert classify(httpx.UnsupportedProtocol("no")).outcome_class is OutcomeClass.ERROR


@pytest.mark.parametrize("client", REAL_CLIENTS, ids=lambda client: client.__name__)
def test_a_connection_that_is_never_made_was_never_sent(client):
    with socket.socket() as listening, contextlib.ExitStack() as held:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            # The queue is full: whoever comes now waits for ever.
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listening.getsockname())
        with pytest.raises(Exception) as caught:
            asyncio.run(client(f"http://127.0.0.1:{listening.getsockname()[1]}"))
    assert classify(caught.value).outcome_class is OutcomeClass.UNAVAILABLE
