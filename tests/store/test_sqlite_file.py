# SPDX-License-Identifier: BSD-2-Clause
"""The file of an SQLite store: opened by several at once, broken, full, pruned, left behind by a kill."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import succeeded
from pipecat_async_tools.store.sqlite import SqliteStore
from pipecat_async_tools.testing import virtual_time

REAL_CONNECT = sqlite3.connect


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


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "calls.db"


def store_at(path: Path) -> SqliteStore:
    return SqliteStore(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite://calls.db", "calls.db"])
def test_a_url_without_a_file_is_refused(url):
    with pytest.raises(ConfigurationError, match=r"write sqlite:///calls\.db"):
        SqliteStore(url)


@virtual_time
async def test_a_relative_path_is_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///calls.db")
    await store.open()
    await store.close()
    assert (tmp_path / "calls.db").is_file()
    assert repr(store) == "SqliteStore('sqlite:///calls.db')"


def test_a_missing_folder_is_named_at_once(tmp_path):
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/nowhere is not a folder; create it"):
        store_at(tmp_path / "nowhere" / "calls.db")


@virtual_time
async def test_a_folder_that_went_away_is_named(tmp_path):
    (tmp_path / "here").mkdir()
    store = store_at(tmp_path / "here" / "calls.db")
    (tmp_path / "here").rmdir()
    with pytest.raises(StoreError, match=f"{tmp_path}/here is not a folder; create it"):
        await store.open()


@virtual_time
async def test_a_file_that_is_no_database_is_named(path):
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(StoreError, match=f"{path}.*not a database; name another file"):
        await store_at(path).open()


@virtual_time
async def test_a_newer_schema_is_refused_and_left_alone(path):
    await _make(path)
    with REAL_CONNECT(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=f"{path}.*schema 99.*update pipecat-async-tools"):
        await store_at(path).now()
    assert REAL_CONNECT(path).execute("PRAGMA user_version").fetchone()[0] == 99


@virtual_time
async def test_a_file_that_may_not_be_written_is_named(path, monkeypatch):
    await _make(path)
    monkeypatch.setattr(sqlite3, "connect", _read_only)
    store = store_at(path)
    with pytest.raises(StoreError, match=f"{path}.*readonly.*; make the file and its folder writable"):
        await store.accept([an_operation("one")], owner="call")
    await store.close()


@virtual_time
async def test_a_full_disk_refuses_what_it_cannot_keep_and_keeps_what_it_answered(path, monkeypatch):
    await _make(path)
    monkeypatch.setattr(sqlite3, "connect", _with_a_small_disk)
    store = store_at(path)
    kept = []
    with pytest.raises(StoreError, match=f"{path}.*full; free some space on the disk"):
        for i in range(1000):
            some = [an_operation(f"{i}-{j}", arguments={"text": "x" * 1000}) for j in range(3)]
            await asyncio.gather(*(store.accept([operation], owner="call") for operation in some))
            kept += [operation.operation_id for operation in some]
    monkeypatch.setattr(sqlite3, "connect", REAL_CONNECT)
    assert kept
    there = {operation.operation_id for operation in await store.operations("room")}
    assert there >= set(kept)
    await store.accept([an_operation("later")], owner="call")
    await store.close()


@virtual_time
async def test_a_locked_file_is_named_after_a_while(path, monkeypatch):
    monkeypatch.setattr("pipecat_async_tools.store.sqlite._BUSY_SECS", 0.1)
    await _make(path)
    blocker = REAL_CONNECT(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    store = store_at(path)
    with pytest.raises(StoreError, match=f"{path}.*locked; another process keeps it"):
        await store.renew("call", 10.0)
    blocker.execute("COMMIT")
    await store.renew("call", 10.0)
    await store.close()


@virtual_time
async def test_many_may_open_a_new_file_at_once(path):
    stores = [store_at(path) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(
        *(store.accept([an_operation(str(i))], owner="call") for i, store in enumerate(stores))
    )
    assert len(await stores[0].operations("room")) == 8
    for store in stores:
        await store.close()


@virtual_time
async def test_a_closed_file_leaves_no_log_beside_it(path):
    await _make(path)
    assert [file.name for file in path.parent.iterdir()] == ["calls.db"]


@virtual_time
async def test_pruning_makes_the_file_small_again(path):
    store = store_at(path)
    await store.open()
    for i in range(40):
        some = [
            an_operation(
                f"{i}-{j}", batch_id=f"batch-{i}", tool_call_id="call", arguments={"text": "x" * 2000}
            )
            for j in range(10)
        ]
        await store.accept(some, owner="call")
        for operation in some:
            await store.finish(operation.operation_id, succeeded("ok"), silent=True)
    await store.renew("call", 60.0)
    fence = await store.hold_session("room", owner="call")
    for row in await store.open_deliveries("room"):
        assert await store.suppress("room", row.delivery_id, "tidying up", fence=fence)
    large = path.stat().st_size
    await asyncio.sleep(10.0)
    deleted = await store.prune(5.0)
    assert deleted["operations"] == 400
    assert deleted["deliveries"] == 40
    assert path.stat().st_size < large / 4
    assert path.with_name("calls.db-wal").stat().st_size == 0
    await store.close()


_WRITE_UNTIL_KILLED = """
import asyncio, sys
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.sqlite import SqliteStore

async def write(store, lane):
    for i in range(100_000):
        operation = Operation(operation_id=f"{lane}-{i}", session_id="room", turn_id="turn",
            batch_id=f"batch-{lane}-{i}", tool_call_id="call", tool="book", timeout_secs=30.0)
        await store.accept([operation], owner="call")
        print(operation.operation_id, flush=True)

async def main():
    store = SqliteStore(sys.argv[1])
    await asyncio.gather(*(write(store, lane) for lane in range(8)))

asyncio.run(main())
"""


@pytest.mark.realtime
def test_what_was_answered_before_a_kill_is_there_after_it(path):
    child = subprocess.Popen(
        [sys.executable, "-c", _WRITE_UNTIL_KILLED, f"sqlite:///{path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    answered = [child.stdout.readline().strip() for _ in range(200)]
    os.kill(child.pid, signal.SIGKILL)
    answered += [line.strip() for line in child.stdout.read().splitlines(keepends=True) if line[-1] == "\n"]
    child.wait()

    async def read():
        store = store_at(path)
        found = await store.operations("room")
        await store.close()
        return {operation.operation_id for operation in found}

    assert asyncio.run(read()) >= set(answered)


async def _make(path: Path) -> None:
    store = store_at(path)
    await store.open()
    await store.close()


def _read_only(path, **options):
    return REAL_CONNECT(f"file:{path}?mode=ro", uri=True, **options)


def _with_a_small_disk(path, **options):
    connection = REAL_CONNECT(path, **options)
    connection.execute("PRAGMA max_page_count = 120")
    return connection
