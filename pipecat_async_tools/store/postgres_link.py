# SPDX-License-Identifier: BSD-2-Clause
"""The way to a PostgreSQL database: its URL, its tables, and hearing of changes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from loguru import logger
from psycopg.conninfo import conninfo_to_dict

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.store.schema import MIGRATIONS
from pipecat_async_tools.store.wakes import Wakes

TIMEOUT_SECS = 5
_SCHEMA = "pipecat_async_tools"
_LONGEST_PAYLOAD = 7000
_FIRST_BACK_OFF_SECS = 0.1
_LONGEST_BACK_OFF_SECS = 5.0
_DIALECT = {
    "serial": "BIGSERIAL PRIMARY KEY",
    # Numbers are given out in the order of the writes, not of the commits: a reader of the log needs both.
    "logged": "xid XID8 NOT NULL DEFAULT pg_current_xact_id(),",
    "log_order": "xid, seq",
}
_WELL_FORMED = (
    "write postgresql://user:password@host:5432/database, with parameters that psycopg knows and with "
    "every other character of the password percent-encoded"
)
# A connection that died without a word is noticed.
_ALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


@dataclass(frozen=True)
class PostgresLink:
    """Where the tables are; as text, the URL without its password and parameters.

    Parameters:
        conninfo: What psycopg connects to.
        schema: The schema of the tables.
        options: The arguments of a connection.
        name: For messages.
    """

    conninfo: str
    schema: str
    options: dict[str, Any]
    name: str

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, url: str) -> PostgresLink:
        """Read a URL.

        Raises:
            ConfigurationError: It cannot be read.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ConfigurationError(f"store: {_WELL_FORMED}") from None
        user, at, host = parts.netloc.rpartition("@")
        # A password with one of "/?#" ends the host before it began.
        if parts.scheme not in ("postgresql", "postgres") or (not at and "@" in url):
            raise ConfigurationError(f"store: {_WELL_FORMED}")
        name = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query="", fragment=""))
        query = dict(parse_qsl(parts.query))
        schema = query.pop("schema", _SCHEMA)
        if not (schema.isascii() and schema.isidentifier()):
            raise ConfigurationError(
                f"store: {name}: schema={schema!r} is no name: use letters, digits and underscores"
            )
        conninfo = urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))
        try:
            known = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            # Its message may hold the password.
            raise ConfigurationError(f"store: {name}: {_WELL_FORMED}") from None
        settings = (
            known.get("options", ""),
            f'-c search_path="{schema}"',
            f"-c statement_timeout={TIMEOUT_SECS * 1000}",
        )
        options = {
            "connect_timeout": TIMEOUT_SECS,
            **_ALIVE,
            "options": " ".join(filter(None, map(str, settings))),
        }
        return cls(conninfo, schema, options, name)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Return a new connection."""
        return psycopg.connect(self.conninfo, **self.options, **options)


def create_tables(link: PostgresLink) -> None:
    """Create or migrate the tables; two processes may be here at once."""
    with link.connect() as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (link.schema,))
        # Who may not create anything can still use what somebody else created.
        known = connection.execute("SELECT to_regnamespace(%s)", (f'"{link.schema}"',)).fetchone()
        if known is None or known[0] is None:
            _execute(connection, f'CREATE SCHEMA "{link.schema}"')
        there = connection.execute("SELECT to_regclass('versions')").fetchone()
        if there is None or there[0] is None:
            connection.execute("CREATE TABLE versions (version INTEGER PRIMARY KEY)")
        row = connection.execute("SELECT COALESCE(MAX(version), 0) FROM versions").fetchone()
        version: int = row[0] if row else 0
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the database has schema {version}, this package knows {len(MIGRATIONS)}: "
                "update pipecat-async-tools"
            )
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                _execute(connection, statement.format(**_DIALECT))
            connection.execute("INSERT INTO versions VALUES (%s)", (number,))


class Statements(Protocol):
    """What runs SQL text with ``?`` for values."""

    def rows(self, sql: str, values: tuple[Any, ...]) -> Any:
        """Run a statement."""
        ...


def notify(database: Statements, session_id: str) -> None:
    """Tell whoever listens that a session changed, once the transaction is over."""
    payload = session_id if len(session_id.encode()) <= _LONGEST_PAYLOAD else ""
    # The channel is named after the schema: channels belong to the whole database.
    database.rows("SELECT pg_notify(current_schema(), ?)", (payload,))


class PostgresListener:
    """A connection on a thread of its own, that hears of changes until it is stopped."""

    def __init__(self, link: PostgresLink, wakes: Wakes):
        """Start listening.

        Args:
            link: The database.
            wakes: Whom to wake.
        """
        self._link = link
        self._wakes = wakes
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="postgres-store-listener", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end, soon."""
        self._stopped.set()

    def _run(self) -> None:
        back_off = _FIRST_BACK_OFF_SECS
        while not self._stopped.is_set():
            try:
                with self._link.connect(autocommit=True) as connection:
                    _execute(connection, f'LISTEN "{self._link.schema}"')
                    back_off = _FIRST_BACK_OFF_SECS
                    # What happened while nobody listened is not told again.
                    self._wakes.wake(None)
                    self._hear(connection)
            except psycopg.Error as e:
                logger.warning(f"{self._link}: changes are not heard of: {words_of(e)}")
                self._stopped.wait(back_off)
                back_off = min(back_off * 2, _LONGEST_BACK_OFF_SECS)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        while not self._stopped.is_set():
            for notice in connection.notifies(timeout=0.5):
                self._wakes.wake([notice.payload] if notice.payload else None)


def words_of(error: Exception) -> str:
    """Return what is wrong, and what to do about it."""
    if isinstance(error, psycopg.errors.QueryCanceled):
        return f"it did not answer within {TIMEOUT_SECS} s"
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return "the database is read-only; connect to the primary"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _execute(connection: psycopg.Connection[Any], sql: str) -> None:
    # What it is put together from is known: the statements of the schema, and a name that was checked.
    connection.execute(sql)  # pyright: ignore[reportCallIssue, reportArgumentType]
