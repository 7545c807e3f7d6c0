# SPDX-License-Identifier: BSD-2-Clause
"""``SqliteStore``: a file on this machine; the default."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.store import records
from pipecat_async_tools.store.commit_thread import CommitThread, Job
from pipecat_async_tools.store.rows import LoggedEvent
from pipecat_async_tools.store.schema import MIGRATIONS
from pipecat_async_tools.store.sql_store import SqlStore
from pipecat_async_tools.store.transaction import Row, Transaction
from pipecat_async_tools.store.wakes import Wakes

_BUSY_SECS = 5.0
# How soon the changes of another process are seen.
_POLL_SECS = 0.1
_PAGES_AT_ONCE = 1000
_DIALECT = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "logged": "", "log_order": "seq"}
_HINTS = {
    "readonly": "make the file and its folder writable",
    "full": "free some space on the disk",
    "locked": "another process keeps it locked",
    "not a database": "name another file, or move this one away",
    "unable to open": "create its folder first, and make it writable",
}

# How often the file was opened, and what SQLite counts since then.
_Version = tuple[int, int]

T = TypeVar("T")


class _Connection:
    """A connection as the transitions use it."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def time(self) -> float:
        return time.time()

    def lock(self, session_id: str) -> None:
        pass  # The transaction has the whole database.


class SqliteStore(SqlStore):
    """SQLite, on one thread of its own: write-ahead log, every commit on the disk before it is answered.

    Processes of one machine can share a file. Its clock is the machine's.
    """

    def __init__(self, url: str):
        """Name the file; it is created when it is first used.

        Args:
            url: "sqlite:///calls.db" in the working directory, "sqlite:////var/lib/calls.db", or
                "sqlite:///:memory:", which is gone when the store is closed.

        Raises:
            ConfigurationError: The URL names no file, or one in a folder that is not there.
        """
        prefix = "sqlite:///"
        if not url.startswith(prefix) or url == prefix:
            raise ConfigurationError(f"store={url!r}: write sqlite:///calls.db, or sqlite:///:memory:")
        self._path = url.removeprefix(prefix)
        self._in_memory = self._path == ":memory:"
        folder = Path(self._path).parent
        if not self._in_memory and not folder.is_dir():
            raise ConfigurationError(f"store={url!r}: {folder} is not a folder; create it first")
        self._url = url
        self._connection: sqlite3.Connection | None = None
        self._wakes = Wakes()
        self._polled: tuple[asyncio.AbstractEventLoop | None, float, _Version | None] = (None, 0.0, None)
        self._opened = 0
        self._thread = CommitThread(self._work, end=self._disconnect, name=url)

    def __repr__(self) -> str:
        return f"SqliteStore({self._url!r})"

    async def open(self) -> None:
        """Create or migrate the file."""
        await self._do(lambda tx: None)

    async def close(self) -> None:
        """Close the file and end the thread; whoever watches is let go."""
        self._wakes.close()
        await self._run(self._end)

    async def watch(self, session_id: str | None = None) -> AsyncIterator[None]:
        """Yield whenever something of a session (or of any) may have changed, from any process."""
        with self._wakes.watching(session_id) as watcher:
            version = await self._version()
            yield
            while not watcher.closed:
                # A database in memory is nobody else's.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watcher.event.wait(), None if self._in_memory else _POLL_SECS)
                seen = version if watcher.event.is_set() else await self._version()
                if (watcher.event.is_set() or seen != version) and not watcher.closed:
                    watcher.event.clear()
                    version = seen
                    yield

    async def prune(self, older_than_secs: float) -> Mapping[str, int]:
        """Delete what is over, and give its space back to the disk."""
        deleted = await super().prune(older_than_secs)
        while await self._run(self._shrink_a_little):
            pass
        await self._run(self._truncate_log)
        return deleted

    def _events(
        self, tx: Transaction, session_id: str | None, after: str | None, limit: int
    ) -> list[LoggedEvent]:
        mine, values = ("session_id = ? AND ", [session_id]) if session_id is not None else ("", [])
        found = tx.rows(
            f"SELECT seq, record FROM events WHERE {mine}seq > ? ORDER BY seq LIMIT ?",
            *values,
            int(after or 0),
            limit,
        )
        return [LoggedEvent(position=str(seq), event=records.event_of(text)) for seq, text in found]

    async def _version(self) -> _Version | None:
        """Return what other processes change; None while the file cannot be read."""
        loop = asyncio.get_running_loop()
        polled_on, polled_at, version = self._polled
        # All who watch on one loop share what one of them reads.
        if polled_on is not loop or loop.time() - polled_at >= _POLL_SECS / 2:
            try:
                version = await self._run(self._read_version)
            except StoreError:
                version = None
            self._polled = (loop, loop.time(), version)
        return version

    async def _do(self, transition: Callable[[Transaction], T]) -> T:
        return await self._run(_Transition(transition))

    async def _run(self, job: Callable[..., T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    # On the thread

    def _work(self, jobs: list[Job]) -> None:
        for in_transaction, some in itertools.groupby(jobs, lambda job: isinstance(job[0], _Transition)):
            if in_transaction:
                self._commit(list(some))
                continue
            for job, future in some:
                try:
                    answer = job()
                except Exception as e:
                    future.set_exception(self._error(e))
                else:
                    future.set_result(answer)

    def _commit(self, jobs: list[Job]) -> None:
        """Run transitions in one transaction; one that fails leaves the others as they are."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            answers = [_run_alone(connection, job) for job, _ in jobs]
            connection.execute("COMMIT")
        except Exception as e:
            self._start_over()
            for _, future in jobs:
                future.set_exception(self._error(e))
            return
        for (job, future), answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(self._error(answer))
                continue
            if isinstance(job, _Transition) and job.changed:
                self._wakes.wake(job.changed)
            future.set_result(answer)

    def _start_over(self) -> None:
        """Undo what was begun; a file is opened anew by the next one, since it may be another by then."""
        with contextlib.suppress(sqlite3.Error):
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if not self._in_memory:
                self._disconnect()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self._in_memory and not Path(self._path).parent.is_dir():
                raise StoreError(f"{Path(self._path).parent} is not a folder; create it first")
            connection = sqlite3.connect(self._path, timeout=_BUSY_SECS, isolation_level=None)
            try:
                _set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._opened += 1
        return self._connection

    def _end(self) -> None:
        self._thread.shutdown(wait=False)
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _read_version(self) -> _Version:
        connection = self._connected()
        return self._opened, connection.execute("PRAGMA data_version").fetchone()[0]

    def _shrink_a_little(self) -> bool:
        """Return whether there is more to give back."""
        connection = self._connected()
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
        return connection.execute("PRAGMA freelist_count").fetchone()[0] > 0

    def _truncate_log(self) -> None:
        self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _error(self, error: Exception) -> Exception:
        # Half of a character that takes two (a lone surrogate) cannot be written.
        if isinstance(error, (StoreError, UnicodeError)):
            return StoreError(f"{self._url}: {error}")
        if not isinstance(error, sqlite3.Error):
            return error
        text = str(error)
        hint = next((f"; {hint}" for sign, hint in _HINTS.items() if sign in text), "")
        return StoreError(f"{self._url}: {text}{hint}")


class _Transition:
    """A transition that waits for its turn."""

    def __init__(self, transition: Callable[[Transaction], Any]):
        self._transition = transition
        self.changed: set[str] = set()

    def __call__(self, connection: sqlite3.Connection) -> Any:
        tx = Transaction(_Connection(connection))
        answer = self._transition(tx)
        tx.write_log()
        self.changed = tx.changed
        return answer


def _run_alone(connection: sqlite3.Connection, job: Callable[..., Any]) -> Any:
    """Return what a transition returns, or what it raised and was undone for."""
    connection.execute("SAVEPOINT alone")
    try:
        answer = job(connection)
    except Exception as e:
        if not connection.in_transaction:
            # A full disk ends the whole transaction, and with it what the others wrote.
            raise
        connection.execute("ROLLBACK TO alone")
        answer = e
    connection.execute("RELEASE alone")
    return answer


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the database has schema {version}, this package knows {len(MIGRATIONS)}: "
                "update pipecat-async-tools"
            )
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement.format(**_DIALECT))
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _write_ahead(connection: sqlite3.Connection) -> None:
    # Of two processes that open a new file at once, one is turned away here without waiting.
    deadline = time.monotonic() + _BUSY_SECS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
