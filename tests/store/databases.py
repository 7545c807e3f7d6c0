# SPDX-License-Identifier: BSD-2-Clause
"""Databases for tests of every store, and the clocks they go by."""

import asyncio
from dataclasses import dataclass, field

from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.url import store_from_url

KINDS = ("memory", "file", "postgres", "redis")

SOON = 0.05
"""Seconds that a test lets pass: less than anybody notices."""
MORE = 0.01


class FrozenClock:
    """The machine's clock, standing still unless it is told to go on."""

    exact = True

    def __init__(self):
        self._now = 1_800_000_000.0

    def now(self) -> float:
        return self._now

    async def pass_(self, secs: float = SOON) -> None:
        """Let seconds pass, and a little more."""
        self.jump(secs + MORE)

    def jump(self, secs: float) -> None:
        """Let exactly so many seconds pass."""
        self._now += secs


class ServerClock:
    """The clock of a server, which nobody tells anything: seconds have to be waited for."""

    exact = False

    async def pass_(self, secs: float = SOON) -> None:
        """Let seconds pass, and a little more than the two clocks may differ by."""
        await asyncio.sleep(secs + MORE)


@dataclass
class Database:
    """A database that several store objects share, as processes would."""

    kind: str
    url: str
    clock: FrozenClock | ServerClock
    runner: asyncio.Runner
    stores: list[Store] = field(default_factory=list)

    def connect(self) -> Store:
        """Another store object; in memory there is only one."""
        if self.stores and self.kind == "memory":
            return self.stores[0]
        self.stores.append(store_from_url(self.url))
        return self.stores[-1]

    async def close(self) -> None:
        """Close every store that was opened."""
        await asyncio.gather(*(store.close() for store in self.stores))
