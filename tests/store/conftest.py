# SPDX-License-Identifier: BSD-2-Clause
"""A database of each kind for the contract: fresh for every test, with a clock that can be waited for."""

import asyncio
import inspect
import time

import pytest

from tests.servers import postgres_url, redis_url
from tests.store.databases import KINDS, Database, FrozenClock, ServerClock

__all__ = ["postgres_url", "redis_url"]

LIMIT_SECS = 30.0


def url_of(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of a new database of a kind, gone after the test."""
    if kind == "memory":
        return "sqlite:///:memory:"
    if kind == "file":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/calls.db"
    url = request.getfixturevalue(f"{kind}_url")
    # What a crash of the server would lose is not at stake here, and a disk takes most of the time.
    return f"{url}&options=-csynchronous_commit%3Doff" if kind == "postgres" else url


def clock_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> FrozenClock | ServerClock:
    """The clock that the stores of a kind go by."""
    if kind in ("postgres", "redis"):
        return ServerClock()
    clock = FrozenClock()
    monkeypatch.setattr(time, "time", clock.now)
    return clock


@pytest.fixture(params=KINDS)
def database(request, monkeypatch):
    """An empty database; what a test opens of it is closed on the test's own event loop."""
    clock = clock_of(request.param, monkeypatch)
    with asyncio.Runner() as runner:
        database = Database(request.param, url_of(request.param, request), clock, runner)
        yield database
        runner.run(database.close())


@pytest.fixture
def store(database):
    """A store on the database."""
    return database.connect()


@pytest.fixture
def another(database, store):
    """What another process has: a second store on the same database (in memory there is but one)."""
    return database.connect()


@pytest.fixture
def clock(database):
    """The clock of the store."""
    return database.clock


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on the event loop of its database, bounded."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def run() -> None:
        async with asyncio.timeout(LIMIT_SECS):
            await pyfuncitem.obj(**arguments)

    pyfuncitem.funcargs["database"].runner.run(run())
    return True
