# SPDX-License-Identifier: BSD-2-Clause
"""What only the PostgreSQL store promises: its URL, its log in the order of commits, lost connections."""

import asyncio
import sys
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.postgres import PostgresStore
from pipecat_async_tools.store.url import store_from_url
from tests.servers import POSTGRES, postgres_url

__all__ = ["postgres_url"]

WAIT_SECS = 10.0


def an_operation(name: str, **fields) -> Operation:
    known = {
        "operation_id": name,
        "session_id": "room",
        "turn_id": "turn-1",
        "batch_id": f"batch-{name}",
        "tool_call_id": f"call-{name}",
        "tool": "book",
        "timeout_secs": 30.0,
    }
    return Operation(**{**known, **fields})


def an_event(session_id: str, reason: str) -> Event:
    return Event(name="on_delivery_waiting", at=0.0, session_id=session_id, reason=reason)


@contextmanager
def raw(url: str, **options):
    """A connection beside the store, in its schema."""
    with psycopg.connect(POSTGRES, options=f"-c search_path={_schema_of(url)}", **options) as connection:
        yield connection


def run(test):
    """Run an `async def` function on a plain event loop, bounded."""
    asyncio.run(asyncio.wait_for(test, 2 * WAIT_SECS))


def test_the_repr_says_where_and_no_password():
    store = PostgresStore("postgresql://user:secret@db.example:6432/calls?password=secret&schema=clinic")
    assert repr(store) == "PostgresStore('postgresql://user@db.example:6432/calls')"


@pytest.mark.parametrize(
    "rest",
    [
        "host/x?nonsense=1",
        "host/x?schema=a;b",
        "[host/x",
        "/secret@host/x",
        "#secret@host/x",
        "?secret@host/x",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_password(rest):
    url = f"postgresql://me:secret{'' if rest[0] in '/#?' else '@'}{rest}"
    with pytest.raises(ConfigurationError, match="store: ") as refused:
        PostgresStore(url)
    assert "secret" not in str(refused.value)


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "pipecat_async_tools.store.postgres")
    with pytest.raises(ConfigurationError, match=r"pip install 'pipecat-async-tools\[postgres\]'"):
        store_from_url("postgresql://localhost/x")


def test_a_server_that_is_not_there_is_named_without_its_password():
    async def test():
        store = PostgresStore("postgresql://me:secret@127.0.0.1:1/calls")
        with pytest.raises(StoreError, match=r"postgresql://me@127\.0\.0\.1:1/calls: .*refused") as refused:
            await store.now()
        assert "secret" not in str(refused.value)
        await store.close()

    run(test())


def test_many_may_make_the_tables_at_once(postgres_url):
    async def test():
        stores = [PostgresStore(postgres_url) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(s.accept([an_operation(str(i))], owner="call") for i, s in enumerate(stores)))
        assert len(await stores[0].operations("room")) == 4
        await asyncio.gather(*(store.close() for store in stores))

    run(test())


def test_a_newer_schema_is_refused(postgres_url):
    async def test():
        store = PostgresStore(postgres_url)
        await store.open()
        await store.close()
        with raw(postgres_url) as connection:
            connection.execute("INSERT INTO versions VALUES (99)")
        with pytest.raises(StoreError, match=r"schema 99.*update pipecat-async-tools"):
            await PostgresStore(postgres_url).open()

    run(test())


def test_one_of_many_takes_an_operation(postgres_url):
    async def test():
        stores = [PostgresStore(postgres_url) for _ in range(3)]
        for i in range(10):
            await stores[0].accept([an_operation(str(i))], owner="call")
            claims = await asyncio.gather(
                *(s.claim(str(i), owner=f"worker-{n}") for n, s in enumerate(stores))
            )
            assert [claim.fence for claim in claims if claim is not None] == [1]
        await asyncio.gather(*(store.close() for store in stores))

    run(test())


def test_a_late_commit_is_not_skipped_by_who_reads_the_log(postgres_url):
    async def test():
        store = PostgresStore(postgres_url)
        await store.append(an_event("room", "first"))
        (first,) = await store.events()
        with raw(postgres_url) as connection:
            connection.execute("SELECT nextval('events_seq_seq')")
            connection.execute(
                "INSERT INTO events (session_id, at, record) VALUES ('other', 0, %s)",
                ('{"name":"on_delivery_waiting","at":0,"session_id":"other","reason":"late"}',),
            )
            await store.append(an_event("room", "second"))
            assert await store.events(after=first.position) == []
            # Nobody else writes in one's own session meanwhile, so what is there can be shown.
            assert [e.event.reason for e in await store.events(session_id="room")] == ["first", "second"]
            connection.commit()
        rest = await store.events(after=first.position)
        assert [logged.event.reason for logged in rest] == ["late", "second"]
        await store.close()

    run(test())


def test_transactions_are_read_in_the_order_of_their_numbers(postgres_url):
    async def test():
        store = PostgresStore(postgres_url)
        await store.open()
        with raw(postgres_url) as connection:
            for xid in ("10", "9", "100"):
                text = f'{{"name":"on_delivery_waiting","at":0,"session_id":"room","reason":"{xid}"}}'
                connection.execute(
                    "INSERT INTO events (xid, session_id, at, record) VALUES (%s::text::xid8, 'room', 0, %s)",
                    (xid, text),
                )
        assert [logged.event.reason for logged in await store.events()] == ["9", "10", "100"]
        (second,) = await store.events(
            session_id="room", after=(await store.events(limit=1))[0].position, limit=1
        )
        assert second.event.reason == "10"
        await store.close()

    run(test())


def test_a_reader_that_goes_on_misses_nothing_of_many_writers(postgres_url):
    async def test():
        stores = [PostgresStore(postgres_url) for _ in range(3)]
        await stores[0].open()
        written = [f"{lane}-{i}" for lane in range(3) for i in range(40)]

        async def write(lane: int):
            names = [name for name in written if name.startswith(f"{lane}-")]
            await asyncio.gather(*(stores[lane].append(an_event(name, name)) for name in names))

        writing = asyncio.gather(*(write(lane) for lane in range(3)))
        seen, position = [], None
        while len(seen) < len(written):
            for logged in await stores[0].events(after=position, limit=7):
                seen.append(logged.event.reason)
                position = logged.position
        await writing
        assert sorted(seen) == sorted(written)
        await asyncio.gather(*(store.close() for store in stores))

    run(test())


def test_connections_that_the_server_dropped_are_made_anew(postgres_url):
    async def test():
        store = PostgresStore(_named(postgres_url))
        await store.accept([an_operation("one")], owner="call")
        _terminate_all(postgres_url)
        assert [operation.operation_id for operation in await store.operations("room")] == ["one"]
        await store.close()

    run(test())


def test_a_session_that_is_locked_for_too_long_is_an_error_and_harms_nobody(postgres_url, monkeypatch):
    monkeypatch.setattr("pipecat_async_tools.store.postgres_link.TIMEOUT_SECS", 1)

    async def test():
        store = PostgresStore(postgres_url)
        await store.open()
        with raw(postgres_url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('room', 0))")
            with pytest.raises(StoreError, match="did not answer within 1 s"):
                await store.accept([an_operation("one")], owner="call")
            await store.accept([an_operation("two", session_id="elsewhere")], owner="call")
        await store.accept([an_operation("one")], owner="call")
        await store.close()

    run(test())


def test_watching_hears_of_other_processes_and_goes_on_after_a_lost_connection(postgres_url):
    async def test():
        here, there = PostgresStore(_named(postgres_url)), PostgresStore(postgres_url)
        await there.open()
        woken = asyncio.Event()
        watching = asyncio.create_task(_wake(here, "room", woken))
        await asyncio.wait_for(_listening(postgres_url), WAIT_SECS)
        await asyncio.sleep(0.2)
        assert woken.is_set()
        woken.clear()
        await there.append(an_event("room", "news"))
        await _next(woken)
        await there.append(an_event("elsewhere", "news"))
        await asyncio.sleep(0.2)
        assert not woken.is_set()
        _terminate_all(postgres_url)
        await _next(woken)
        await there.append(an_event("room", "more news"))
        await _next(woken)
        await here.close()
        await asyncio.wait_for(watching, WAIT_SECS)
        await there.close()

    run(test())


def test_one_store_serves_one_loop_after_the_other(postgres_url):
    store = PostgresStore(postgres_url)

    async def accept(name):
        await store.accept([an_operation(name)], owner="call")
        if name == "two":
            await store.close()

    run(accept("one"))
    run(accept("two"))
    run(accept("three"))

    async def read():
        assert [row.operation_id for row in await store.operations("room")] == ["one", "two", "three"]
        await store.close()
        await store.close()

    run(read())


async def _wake(store: PostgresStore, session_id: str, woken: asyncio.Event) -> None:
    async for _ in store.watch(session_id):
        woken.set()


async def _next(woken: asyncio.Event) -> None:
    await asyncio.wait_for(woken.wait(), WAIT_SECS)
    woken.clear()


async def _listening(url: str) -> None:
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND query LIKE 'LISTEN%%'"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        while not connection.execute(query, (_schema_of(url),)).fetchall():
            await asyncio.sleep(0.02)


def _schema_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["schema"][0]


def _named(url: str) -> str:
    """The URL under which a store's connections can be told from others'."""
    return f"{url}&application_name={_schema_of(url)}"


def _terminate_all(url: str) -> None:
    """End every connection of a named store, as a server does that is restarted."""
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (_schema_of(url),),
        ).fetchall()
    assert ended
