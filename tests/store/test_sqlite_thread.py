# SPDX-License-Identifier: BSD-2-Clause
"""The thread of an SQLite store: shared commits, event loops, virtual time, watching, and what it reads."""

import asyncio
import re
import sqlite3
import threading

import pytest

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.outcome import failed, succeeded
from pipecat_async_tools.store.sqlite import SqliteStore
from pipecat_async_tools.testing import virtual_time
from tests.store.test_sqlite_file import REAL_CONNECT, an_operation, store_at

# The values of the statement, and the indexes that hold what is not over alone.
_IS_SMALL = re.compile(r"CONSTANT ROW|INDEX (\w+_(accepted|deadline|running|waiting|open))$").search


@pytest.fixture
def store():
    return SqliteStore("sqlite:///:memory:")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calls.db"


@virtual_time
async def test_one_that_fails_does_not_take_the_others_along(store):
    answers = await asyncio.gather(
        store.accept([an_operation("one")], owner="call"),
        store.accept([an_operation("two"), an_operation("one")], owner="call"),
        store.accept([an_operation("three")], owner="call"),
        return_exceptions=True,
    )
    assert isinstance(answers[1], StoreError)
    assert str(answers[1]) == "sqlite:///:memory:: one was accepted before"
    assert [operation.operation_id for operation in await store.operations("room")] == ["one", "three"]
    assert "two" not in {row.event.operation_id for row in await store.events()}
    await store.close()


@virtual_time
async def test_callers_at_once_share_commits(path, monkeypatch):
    statements = _spy(monkeypatch)
    store = store_at(path)
    await store.open()
    statements.clear()
    await asyncio.gather(*(store.accept([an_operation(str(i))], owner="call") for i in range(32)))
    assert len(await store.operations("room")) == 32
    assert statements.count("COMMIT") < 16
    await store.close()


@virtual_time
async def test_who_gives_up_waiting_harms_nobody(store):
    await store.open()
    waiting = [asyncio.ensure_future(store.accept([an_operation(str(i))], owner="call")) for i in range(20)]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    there = {operation.operation_id for operation in await store.operations("room")}
    assert there >= {str(i) for i in range(1, 20, 2)}
    await store.close()


def test_one_store_serves_one_loop_after_the_other(path):
    store = store_at(path)
    for name in ("one", "two"):
        asyncio.run(_accept(store, name))
    assert asyncio.run(_names(store)) == ["one", "two"]
    asyncio.run(store.close())


def test_one_store_serves_several_loops_at_once(path):
    store = store_at(path)
    threads = [
        threading.Thread(target=lambda lane=lane: asyncio.run(_accept_many(store, lane))) for lane in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert len(asyncio.run(_names(store))) == 80
    asyncio.run(store.close())


@virtual_time
async def test_closing_ends_the_thread_and_using_it_again_opens_it_again(path):
    store = store_at(path)
    await _accept(store, "one")
    thread = next(t for t in threading.enumerate() if t.name == f"sqlite:///{path}")
    await store.close()
    await store.close()
    thread.join(5.0)
    assert not thread.is_alive()
    assert await _names(store) == ["one"]
    await store.close()


def test_closing_on_one_loop_takes_nothing_from_another(path):
    store = store_at(path)
    failures = []

    async def accept_one_after_the_other(lane: int):
        for i in range(40):
            await _accept(store, f"{lane}-{i}")
            if lane == 0:
                await store.close()

    def work(lane: int):
        try:
            asyncio.run(accept_one_after_the_other(lane))
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert failures == []
    assert len(asyncio.run(_names(store))) == 120
    asyncio.run(store.close())


@virtual_time
async def test_time_stands_still_while_the_thread_works(store):
    for i in range(20):
        await _accept(store, str(i))
    assert asyncio.get_running_loop().time() == 0.0
    await asyncio.sleep(7.0)
    first, *_ = await store.operations("room")
    assert await store.now() - first.accepted_at == pytest.approx(7.0)
    await store.close()


@virtual_time
async def test_watching_hears_of_its_session_only(store):
    heard = []
    watching = asyncio.create_task(_listen(store, "room", heard))
    await asyncio.sleep(1.0)
    await store.accept([an_operation("one", session_id="elsewhere")], owner="call")
    await asyncio.sleep(1.0)
    assert heard == [0.0]
    await _accept(store, "two")
    await asyncio.sleep(1.0)
    assert heard == [0.0, 2.0]
    await store.close()
    await asyncio.wait_for(watching, 1.0)


@virtual_time
async def test_watching_hears_of_other_processes_soon(path):
    here, there = store_at(path), store_at(path)
    heard = []
    watching = [asyncio.create_task(_listen(here, name, heard)) for name in ("room", None)]
    await asyncio.sleep(1.0)
    await _accept(there, "one")
    await asyncio.sleep(1.0)
    assert heard[:2] == [0.0, 0.0]
    assert len(heard) == 4
    assert max(heard) < 1.3
    for store in (here, there):
        await store.close()
    await asyncio.gather(*watching)


@virtual_time
async def test_watching_goes_on_through_a_file_that_is_away(path):
    here = store_at(path)
    heard = []
    watching = asyncio.create_task(_listen(here, "room", heard))
    await asyncio.sleep(1.0)
    away = path.rename(path.with_name("away.db"))
    path.mkdir()
    with pytest.raises(StoreError):
        # The open file is let go of when something goes wrong with it.
        await _break(here)
    await asyncio.sleep(1.0)
    path.rmdir()
    away.rename(path)
    heard.clear()
    await asyncio.sleep(1.0)
    assert len(heard) == 1
    await here.close()
    await watching


@virtual_time
async def test_nothing_that_calls_wait_for_reads_a_whole_table(path, monkeypatch):
    statements = _spy(monkeypatch)
    store = store_at(path)
    await store.open()
    statements.clear()
    await store.renew("call", 30.0)
    key = {"intent_key": "book:{}", "intent_window_secs": 5.0}
    await store.accept([an_operation("one", **key)], owner="call", expected=["call-one", "other"])
    claim = await store.claim("one", owner="call")
    assert claim is not None
    again = failed("no")
    await store.record_attempt("one", fence=claim.fence, wait_secs=1.0, outcome=again, http_status=503)
    await store.record_progress("one", "half of it")
    await store.finish("one", succeeded("ok"), fence=claim.fence)
    delivery = await store.dismiss("batch-one", ["other"])
    fence = await store.hold_session("room", owner="call")
    assert delivery is not None and fence is not None
    await store.claim_telling("room", [delivery.delivery_id], "telling", fence=fence)
    await store.settle_telling("telling", [])
    await store.recover()
    await store.overdue(0.0)
    await store.open_deliveries("room")
    await store.give_up_deliveries(600.0)
    await store.events(session_id="room")
    await store.events(after="3")
    await store.dead_letters(session_id="room")
    await store.close()
    assert len(statements) > 80
    with REAL_CONNECT(path) as connection:
        for statement in set(statements):
            if re.match("SELECT|INSERT|UPDATE|DELETE", statement):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
                scans = [step for step in plan if step.startswith("SCAN") and not _IS_SMALL(step)]
                assert scans == [], statement


async def _accept(store: SqliteStore, name: str) -> None:
    await store.accept([an_operation(name)], owner="call")


async def _accept_many(store: SqliteStore, lane: int) -> None:
    await asyncio.gather(*(_accept(store, f"{lane}-{i}") for i in range(20)))


async def _names(store: SqliteStore) -> list[str]:
    return [operation.operation_id for operation in await store.operations("room")]


async def _listen(store: SqliteStore, session_id: str | None, heard: list[float]) -> None:
    async for _ in store.watch(session_id):
        heard.append(asyncio.get_running_loop().time())


async def _break(store: SqliteStore) -> None:
    await store._run(lambda: store._start_over())
    await store.open()


def _spy(monkeypatch) -> list[str]:
    statements: list[str] = []

    def connect(path, **options):
        connection = REAL_CONNECT(path, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    return statements
