# SPDX-License-Identifier: BSD-2-Clause
"""``PostgresStore``: a database that many machines share."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.store import records
from pipecat_async_tools.store.rows import LoggedEvent
from pipecat_async_tools.store.sql_store import SqlStore
from pipecat_async_tools.store.transaction import Row, Transaction
from pipecat_async_tools.store.wakes import Wakes

try:
    import psycopg
    import psycopg_pool
except ImportError as e:
    raise ConfigurationError(
        "store: a PostgreSQL store needs psycopg: pip install 'pipecat-async-tools[postgres]'"
    ) from e

from pipecat_async_tools.store.postgres_link import (
    TIMEOUT_SECS,
    PostgresLink,
    PostgresListener,
    create_tables,
    notify,
    words_of,
)

_CONNECTIONS = 8
# How long a reader of the whole log waits for an older transaction that is still open.
_LATE_COMMIT_SECS = 0.5

T = TypeVar("T")


class _Connection:
    """A connection as the transitions use it."""

    def __init__(self, connection: psycopg.Connection[Any]):
        self._connection = connection

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        cursor = self._connection.execute(sql.replace("?", "%s"), values)  # pyright: ignore[reportArgumentType]
        return cursor.fetchall() if cursor.description else []

    def time(self) -> float:
        return float(self.rows("SELECT extract(epoch FROM clock_timestamp())::float8", ())[0][0])

    def lock(self, session_id: str) -> None:
        self.rows("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (session_id,))


class PostgresStore(SqlStore):
    """PostgreSQL, with psycopg on threads of its own. Its clock is the server's.

    Its tables live in the schema "pipecat_async_tools", or the one that ``?schema=`` names in the URL.
    """

    def __init__(self, url: str):
        """Name the database; the tables are created when it is first used.

        Args:
            url: "postgresql://user:password@host:5432/database", with psycopg's own parameters and
                ``schema``.

        Raises:
            ConfigurationError: psycopg is not installed.
        """
        self._link = PostgresLink.of(url)
        self._wakes = Wakes()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._pool: psycopg_pool.ConnectionPool[Any] | None = None
        self._listener: PostgresListener | None = None

    def __repr__(self) -> str:
        return f"PostgresStore({str(self._link)!r})"

    async def open(self) -> None:
        """Connect, and create or migrate the tables."""
        await self._run(self._connected)

    async def close(self) -> None:
        """Let go of the connections and the threads; whoever watches is let go."""
        self._wakes.close()
        with self._lock:
            threads, self._threads = self._threads, None
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        if threads is not None:
            # A server that hangs may have them all.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(threads.shutdown), TIMEOUT_SECS)
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.close)

    async def watch(self, session_id: str | None = None) -> AsyncIterator[None]:
        """Yield whenever something of a session (or of any) may have changed, from any process."""
        with self._wakes.watching(session_id) as watcher:
            self._listen()
            yield
            while await watcher.event.wait() and not watcher.closed:
                watcher.event.clear()
                yield

    def _events(
        self, tx: Transaction, session_id: str | None, after: str | None, limit: int
    ) -> list[LoggedEvent]:
        if session_id is not None:
            # Whoever writes has the session to himself, so they are committed in their order.
            return [event for event, _ in self._read_log(tx, session_id, after, limit)]
        deadline = time.monotonic() + _LATE_COMMIT_SECS
        while True:
            found = self._read_log(tx, None, after, limit)
            # An older transaction that is still open may yet write before what is here already.
            shown = [event for event, _ in itertools.takewhile(lambda pair: pair[1], found)]
            if len(shown) == len(found) or time.monotonic() > deadline:
                return shown
            time.sleep(_LATE_COMMIT_SECS / 50)

    def _read_log(
        self, tx: Transaction, session_id: str | None, after: str | None, limit: int
    ) -> list[tuple[LoggedEvent, bool]]:
        """Return events, each with whether nothing can come before it any more."""
        mine, values = ("", []) if session_id is None else ("session_id = ? AND ", [session_id])
        xid, _, seq = (after or "0-0").partition("-")
        found = tx.rows(
            "SELECT xid::text, seq, record, xid < pg_snapshot_xmin(pg_current_snapshot()) FROM events "
            f"WHERE {mine}(xid, seq) > (?::text::xid8, ?) ORDER BY events.xid, seq LIMIT ?",
            *values,
            xid,
            int(seq),
            limit,
        )
        return [
            (LoggedEvent(position=f"{x}-{s}", event=records.event_of(text)), final)
            for x, s, text, final in found
        ]

    async def _do(self, transition: Callable[[Transaction], T]) -> T:
        def job() -> T:
            with self._connected().connection() as connection, connection.transaction():
                database = _Connection(connection)
                tx = Transaction(database)
                answer = transition(tx)
                tx.write_log()
                changed = tx.changed
                for session_id in changed:
                    notify(database, session_id)
            # At once; what other processes are told comes back to this one later.
            if changed:
                self._wakes.wake(changed)
            return answer

        return await self._run(job)

    async def _run(self, job: Callable[[], T]) -> T:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="postgres-store")
            # Under the lock: another loop may be about to close it.
            answer = asyncio.get_running_loop().run_in_executor(self._threads, job)
        try:
            return await answer
        # Half of a character that takes two (a lone surrogate) cannot be written.
        except (psycopg.Error, StoreError, UnicodeError) as e:
            raise StoreError(f"{self._link}: {words_of(e)}") from e

    # On the threads

    def _connected(self) -> psycopg_pool.ConnectionPool[Any]:
        if self._pool is None:
            # Not under the lock, for which event loops wait; two at once do no harm.
            create_tables(self._link)
        with self._lock:
            if self._pool is None:
                self._pool = psycopg_pool.ConnectionPool(
                    self._link.conninfo,
                    min_size=1,
                    max_size=_CONNECTIONS,
                    timeout=TIMEOUT_SECS,
                    kwargs=self._link.options,
                    check=psycopg_pool.ConnectionPool.check_connection,
                    open=True,
                )
            return self._pool

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = PostgresListener(self._link, self._wakes)
