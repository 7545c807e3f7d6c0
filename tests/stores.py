# SPDX-License-Identifier: BSD-2-Clause
"""Stores for tests: a database in memory, and one that breaks as it is told to."""

import asyncio

from pipecat_async_tools import StoreError
from pipecat_async_tools.store.sqlite import SqliteStore


def memory_store() -> SqliteStore:
    """A real store that is gone with the test."""
    return SqliteStore("sqlite:///:memory:")


def broken_store(how: str, *, methods: tuple[str, ...]) -> SqliteStore:
    """A store whose methods hang for ever (``how="hangs"``), or fail."""

    async def hang(*_, **__):
        await asyncio.Event().wait()

    async def fail(*_, **__):
        raise StoreError("the disk is on fire")

    store = memory_store()
    for method in methods:
        setattr(store, method, hang if how == "hangs" else fail)
    return store


class FailingStore(SqliteStore):
    """A store that raises, hangs or dawdles, as often as it is told to, by the name of the method."""

    def __init__(self):
        super().__init__("sqlite:///:memory:")
        self.failures: dict[str, int] = {}
        self.hangs: dict[str, int] = {}
        self.delays: dict[str, float] = {}


def _unreliable(name):
    method = getattr(SqliteStore, name)

    async def call(self, *args, **kwargs):
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise StoreError(f"{name}: the disk is full")
        if self.hangs.get(name, 0) > 0:
            self.hangs[name] -= 1
            await asyncio.Event().wait()
        answer = await method(self, *args, **kwargs)
        # After the write: a slow answer, not a slow write.
        await asyncio.sleep(self.delays.get(name, 0))
        return answer

    return call


for _name in ("accept", "claim", "record_attempt", "record_progress", "finish", "append"):
    setattr(FailingStore, _name, _unreliable(_name))
