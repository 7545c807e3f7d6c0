# SPDX-License-Identifier: BSD-2-Clause
"""The way to a Redis server: connections for each event loop, scripts, and what its errors mean."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from pipecat_async_tools.errors import ConfigurationError, StoreError

try:
    from redis import asyncio as aioredis
    from redis import exceptions
    from redis.asyncio import connection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as e:
    raise ConfigurationError(
        "store: a redis:// URL needs the redis package: pip install pipecat-async-tools[redis]"
    ) from e

DEFAULT_PREFIX = "{pat}"
TIMEOUT_SECS = 5.0
_MAX_CONNECTIONS = 16
_MAX_WATCHERS = 100_000
_REFUSED = "REFUSED "
_parse_url: Callable[[str], dict[str, Any]] = vars(connection)["parse_url"]


@cache
def script_text(name: str) -> str:
    """Return the text of a script, with what all of them begin and end with."""
    folder = resources.files("pipecat_async_tools.store") / "lua"
    common, transitions, body, answer = (
        (folder / f"{part}.lua").read_text() for part in ("_common", "_transitions", name, "_answer")
    )
    return f"{common}\n{transitions}\nlocal function main()\n{body}\nend\n{answer}"


class LoopClients:
    """The clients of one event loop, to which their connections are bound."""

    def __init__(self, url: str):
        """Initialize clients that connect when they are used.

        Args:
            url: Of the server, without parameters of ours.
        """
        # A command is never sent twice by itself: the first may have been carried out.
        options: dict[str, Any] = {
            "decode_responses": True,
            "encoding_errors": "surrogatepass",
            "protocol": 2,
            "socket_timeout": TIMEOUT_SECS,
            "socket_connect_timeout": TIMEOUT_SECS,
            "retry": Retry(NoBackoff(), 0),
        }
        options |= _parse_url(url)
        waiting: dict[str, Any] = {"max_connections": _MAX_CONNECTIONS, "timeout": TIMEOUT_SECS, **options}
        # Who watches keeps a connection for good: it must not take one from those who write.
        watching: dict[str, Any] = {**options, "max_connections": _MAX_WATCHERS}
        self._pools = (aioredis.BlockingConnectionPool(**waiting), aioredis.ConnectionPool(**watching))
        self.commands: Any = aioredis.Redis(connection_pool=self._pools[0])
        self.watching: Any = aioredis.Redis(connection_pool=self._pools[1])
        self.closed = False
        self._scripts: dict[str, Any] = {}

    async def run(self, name: str, prefix: str, arguments: Sequence[str | int | float]) -> Any:
        """Run a script, and return its answer: text is JSON."""
        script = self._scripts.get(name)
        if script is None:
            script = self._scripts[name] = self.commands.register_script(script_text(name))
        answer = await script(keys=[prefix], args=arguments)
        return json.loads(answer) if isinstance(answer, str) else answer

    async def close(self) -> None:
        """Close every connection; whoever watches through one stops."""
        self.closed = True
        for pool in self._pools:
            await pool.disconnect(inuse_connections=True)


class RedisLink:
    """Reaches one server from whichever event loop asks."""

    def __init__(self, url: str):
        """Initialize a link; nothing is connected yet.

        Args:
            url: ``redis://`` or ``rediss://``, with the parameter ``prefix``.

        Raises:
            ConfigurationError: It is not such a URL.
        """
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        self.prefix = query.pop("prefix", DEFAULT_PREFIX)
        self._url = urlunsplit(parts._replace(query=urlencode(query)))
        if parts.scheme not in ("redis", "rediss"):
            raise ConfigurationError("store: a Redis URL begins with redis:// or rediss://")
        try:
            options = _parse_url(self._url)
        except ValueError:
            # Its message may quote the password.
            raise ConfigurationError(
                "store: the Redis URL cannot be read; it looks like redis://user:password@host:6379/0"
            ) from None
        host, port, db = (options.get(name, default) for name, default in _DEFAULTS)
        self.name = f"{parts.scheme}://{host}:{port}/{db}"
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopClients] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def clients(self) -> LoopClients:
        """Return the clients of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._clients.get(loop)
            if clients is None:
                clients = self._clients[loop] = LoopClients(self._url)
            return clients

    async def run(self, name: str, *arguments: str | int | float) -> Any:
        """Run a script.

        Raises:
            StoreError: The script refused, or the server did not do it.
        """
        async with self.explained():
            return await self.clients().run(name, self.prefix, arguments)

    async def info(self) -> dict[str, Any]:
        """Return what the server says of itself; nothing, if it may not be asked."""
        async with self.explained():
            try:
                return await self.clients().commands.info()
            except exceptions.NoPermissionError:
                return {}

    async def forget_owners(self, dead_at: float) -> None:
        """Delete the owners whose lease had run out at a time."""
        async with self.explained():
            await self.clients().commands.zremrangebyscore(f"{self.prefix}:owners", "-inf", repr(dead_at))

    async def close(self) -> None:
        """Close the connections of every loop that still runs; those of the others went with it."""
        with self._lock:
            clients = list(self._clients.items())
            self._clients.clear()
        here = asyncio.get_running_loop()
        for loop, theirs in clients:
            if loop is here:
                await theirs.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(theirs.close(), loop)
                await asyncio.wait([asyncio.wrap_future(closing)], timeout=TIMEOUT_SECS)

    @asynccontextmanager
    async def explained(self) -> AsyncGenerator[None]:
        """Turn errors of Redis into ones that say what to do."""
        try:
            yield
        except (exceptions.RedisError, OSError) as e:
            raise StoreError(self._explain(e)) from e

    def _explain(self, error: Exception) -> str:
        text = str(error)
        if isinstance(error, exceptions.ResponseError) and text.startswith(_REFUSED):
            return text.removeprefix(_REFUSED)
        for kind, mark, meaning in _MEANINGS:
            if isinstance(error, kind) and mark in text:
                return f"{self.name} {meaning} ({text})"
        return f"{self.name}: {text}"


_DEFAULTS = (("host", "localhost"), ("port", 6379), ("db", 0))
# The first that fits; older servers wrap the errors of a script, so that only the text tells.
_MEANINGS: tuple[tuple[type[Exception], str, str], ...] = (
    (exceptions.AuthenticationError, "", "refused the user or the password: check those in the URL"),
    (exceptions.AuthorizationError, "", "refused the user or the password: check those in the URL"),
    (exceptions.ResponseError, "NOAUTH", "wants a password: put it into the URL"),
    (exceptions.ResponseError, "WRONGPASS", "refused the user or the password: check those in the URL"),
    (exceptions.NoPermissionError, "", "does not allow this user what is needed: widen its ACL"),
    (exceptions.ReadOnlyError, "", "is a read-only replica: give the address of the primary"),
    (exceptions.ResponseError, "READONLY", "is a read-only replica: give the address of the primary"),
    (exceptions.OutOfMemoryError, "", "is out of memory: prune the store or raise maxmemory"),
    (exceptions.ResponseError, "OOM ", "is out of memory: prune the store or raise maxmemory"),
    (exceptions.ResponseError, "MISCONF", "cannot write to its disk: look at its log"),
    (exceptions.BusyLoadingError, "", "is still loading its data: try again in a while"),
    (exceptions.MovedError, "", "is a Cluster node that does not serve the keys: give the one that does"),
    (exceptions.TimeoutError, "", f"did not answer within {TIMEOUT_SECS:g} s: is it overloaded?"),
    (exceptions.ConnectionError, "", "cannot be reached: is it running, and the address right?"),
    (OSError, "", "cannot be reached: is it running, and the address right?"),
)
