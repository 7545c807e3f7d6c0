# SPDX-License-Identifier: BSD-2-Clause
"""What an exception of a handler means: its class, and whether the request may have taken effect.

No HTTP client is a dependency: they are told by what they have in common, and by the names of what they
raise where they have nothing in common.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from pipecat_async_tools.operations.outcome import OutcomeClass, ToolError
from pipecat_async_tools.operations.retry_after import retry_after_secs

# Raised before anything was sent: httpx, aiohttp, requests and urllib3, openai.
_NEVER_SENT = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "ClientConnectorError",
        "ClientConnectorDNSError",
        "ConnectionTimeoutError",
        "ConnectTimeoutError",
        "NewConnectionError",
        "NameResolutionError",
    }
)
# Raised when something may have been sent: the answer did not come, or not whole.
_MAYBE_SENT = frozenset(
    {
        "ReadError",
        "WriteError",
        "CloseError",
        "ReadTimeout",
        "WriteTimeout",
        "RemoteProtocolError",
        "DecodingError",
        "ServerDisconnectedError",
        "ServerTimeoutError",
        "SocketTimeoutError",
        "ClientOSError",
        "ClientPayloadError",
        "ChunkedEncodingError",
        "ContentDecodingError",
        "ReadTimeoutError",
        "IncompleteRead",
        "IncompleteReadError",
        "RemoteDisconnected",
    }
)
# Raised for either: what they wrap knows better, and if it does not say, something may have been sent.
_VAGUE = frozenset(
    {"APIConnectionError", "APITimeoutError", "ConnectionError", "ProtocolError", "Timeout", "TimeoutError"}
)
_NEVER_CONNECTED = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)
_CUT_OFF = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_UNREACHABLE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})
_REPEATABLE = frozenset({OutcomeClass.RATE_LIMITED, OutcomeClass.UNAVAILABLE, OutcomeClass.TIMEOUT})
_WORST_FIRST = (
    OutcomeClass.AMBIGUOUS,
    OutcomeClass.ERROR,
    OutcomeClass.BUSINESS_ERROR,
    OutcomeClass.TIMEOUT,
    OutcomeClass.UNAVAILABLE,
    OutcomeClass.RATE_LIMITED,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What an attempt failed of.

    Parameters:
        outcome_class: Decides whether it may be repeated.
        http_status: What the service answered, if it did.
        retry_after_secs: How long it asked to be left alone, if it did.
        words: For the model and the operator.
    """

    outcome_class: OutcomeClass
    http_status: int | None = None
    retry_after_secs: float | None = None
    words: str = ""


def classify(error: BaseException) -> Failure:
    """Return what an exception means.

    It is looked for in the exception and in what that wraps. What went wrong before, while which it was
    raised, counts where the exception itself says nothing; and where it says that nothing happened, since
    a request that may have taken effect outweighs a later one that did not. Of a group it is the worst
    member.
    """
    return _classified(error, set())


def _classified(error: BaseException, seen: set[int]) -> Failure:
    words = _words_of(error) or type(error).__name__
    if members := [_classified(member, seen) for member in _members_of(error)]:
        worst = min(members, key=lambda failure: _WORST_FIRST.index(failure.outcome_class))
        waits = [m.retry_after_secs for m in members if m.retry_after_secs is not None]
        return replace(worst, retry_after_secs=max(waits, default=None), words=words)
    if isinstance(error, ToolError):
        return Failure(outcome_class=OutcomeClass.BUSINESS_ERROR, words=words)
    found = [f for chain in _chains(error, seen) if (f := _of_chain(chain, seen)) is not None]
    failure = found[0] if found else Failure(outcome_class=OutcomeClass.ERROR)
    if failure.outcome_class in _REPEATABLE and any(f.outcome_class is OutcomeClass.AMBIGUOUS for f in found):
        failure = Failure(outcome_class=OutcomeClass.AMBIGUOUS)
    return replace(failure, words=words)


def _of_chain(chain: list[BaseException], seen: set[int]) -> Failure | None:
    """Return what the outermost says that says something; None if none does."""
    for cause in chain:
        if _members_of(cause) and (worst := _classified(cause, seen)).outcome_class is not OutcomeClass.ERROR:
            return worst
        status = next(_http_statuses(cause), None)
        if status is not None and (known := _class_of_status(status)):
            wait = retry_after_secs(cause) if known in _REPEATABLE else None
            return Failure(outcome_class=known, http_status=status, retry_after_secs=wait)
        if _was_never_sent(cause):
            return Failure(outcome_class=OutcomeClass.UNAVAILABLE)
        if isinstance(cause, _CUT_OFF) or _names_of(cause) & _MAYBE_SENT:
            return Failure(outcome_class=OutcomeClass.AMBIGUOUS)
    if any(isinstance(c, (TimeoutError, ConnectionError)) or _names_of(c) & _VAGUE for c in chain):
        return Failure(outcome_class=OutcomeClass.AMBIGUOUS)
    return None


def _class_of_status(status: int) -> OutcomeClass | None:
    if status == 429:
        return OutcomeClass.RATE_LIMITED
    if status in (408, 425):
        return OutcomeClass.TIMEOUT
    if 400 <= status < 500:
        return OutcomeClass.BUSINESS_ERROR
    return OutcomeClass.UNAVAILABLE if status >= 500 else None


def _was_never_sent(error: BaseException) -> bool:
    if isinstance(error, _NEVER_CONNECTED):
        return True
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return True
    return bool(_names_of(error) & _NEVER_SENT)


def _names_of(error: BaseException) -> set[str]:
    return {cls.__name__ for cls in type(error).__mro__ if cls.__module__ != "builtins"}


def _chains(error: BaseException, seen: set[int]) -> Iterator[list[BaseException]]:
    """Yield an exception with what it wraps; then, likewise, what was being handled when that was raised."""
    waiting = [error]
    while waiting:
        cause: BaseException | None = waiting.pop(0)
        chain: list[BaseException] = []
        while cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            chain.append(cause)
            cause = _wrapped_by(cause)
        if chain:
            yield chain
        waiting.extend(before for link in chain if (before := _raised_during(link)) is not None)


def _raised_during(error: BaseException) -> BaseException | None:
    # `from cause` hides it from a traceback only; `from None` says that it has nothing to do with it.
    hidden = error.__suppress_context__ and error.__cause__ is None
    return None if hidden else error.__context__


def _members_of(error: BaseException) -> tuple[BaseException, ...]:
    return cast("Any", error).exceptions if isinstance(error, BaseExceptionGroup) else ()


def _wrapped_by(error: BaseException) -> BaseException | None:
    # urllib3 keeps it as `reason`, requests as an argument.
    for inner in (getattr(error, "reason", None), *error.args):
        if isinstance(inner, BaseException):
            return inner
    return error.__cause__


def _http_statuses(error: BaseException) -> Iterator[int]:
    # Every HTTP client names the status its own way.
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (error, "status"), (response, "status_code")):
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            yield value


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # Some errors of HTTP clients cannot be printed when they were built without a request.
        return ""
