# SPDX-License-Identifier: BSD-2-Clause
"""Keeps an owner alive, and sees to what dead ones left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from loguru import logger

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.insisting import in_time
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.store.base import Store


class Sweeper:
    """Renews the owner's lease three times as often as it runs out, and sweeps once a lease."""

    def __init__(
        self,
        *,
        store: Store,
        owner: str,
        lease_secs: float,
        tools: Mapping[str, ToolSpec],
        submit: Callable[[Operation], Awaitable[None]],
        session_id: str | None = None,
        also: Callable[[], Awaitable[None]] | None = None,
    ):
        """Initialize the sweeper.

        Args:
            store: Remembers the operations.
            owner: Whom to keep alive.
            lease_secs: Seconds for which one renewal lasts.
            tools: The tools that can be run here.
            submit: Has an operation run.
            session_id: Only operations of this session are run here; None runs all.
            also: Done at the end of each sweep.
        """
        self._store = store
        self._owner = owner
        self._lease_secs = lease_secs
        self._tools = tools
        self._submit = submit
        self._session_id = session_id
        self._also = also
        self._tasks: list[asyncio.Task[None]] = []
        self._sweeping: asyncio.Task[None] | None = None
        self._leased_until = 0.0
        self._submitted: dict[str, tuple[int, int]] = {}
        self._failing: set[str] = set()

    async def start(self) -> None:
        """Renew the lease, and go on doing so; returns when the first attempt is over."""
        if self._tasks:
            return
        await self._calmly(self._renew)
        self._sweeping = asyncio.create_task(self._sweep_now_and_again())
        self._tasks = [
            asyncio.create_task(self._every(self._lease_secs / 3, self._renew)),
            self._sweeping,
        ]

    async def drain(self) -> None:
        """Run nothing more here, but keep the owner alive for what still runs."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    async def stop(self) -> None:
        """Stop; the lease runs out by itself."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def sweep(self) -> None:
        """Recover what dead owners left, and run here what nobody has claimed.

        Raises:
            StoreError: The store did not answer.
        """
        recovered = await in_time(self._store.recover(), "recover operations")
        overdue = await in_time(self._store.overdue(self._lease_secs), "find overdue operations")
        found = [*recovered.accepted, *overdue]
        for operation in found:
            await self._take(operation)
        # What is no longer overdue was claimed: nothing of it need be remembered.
        still = {operation.operation_id for operation in found}
        self._submitted = {name: entry for name, entry in self._submitted.items() if name in still}
        if self._also is not None:
            await self._also()

    async def look(self) -> None:
        """Run here at once what was replayed by hand; the next sweep tries again if that fails."""
        if self._sweeping is not None and not self._sweeping.done():
            await self._calmly(self._take_replayed)

    async def _take_replayed(self) -> None:
        for operation in await in_time(self._store.overdue(0.0), "find replayed operations"):
            if operation.replays:
                await self._take(operation)

    async def _take(self, operation: Operation) -> None:
        here = self._session_id is None or operation.session_id == self._session_id
        if not here or operation.tool not in self._tools or self._is_submitted(operation):
            return
        if _now() >= self._leased_until:
            # What a dead owner claims is taken from it at once.
            await self._renew()
        await self._submit(operation)
        self._submitted[operation.operation_id] = (operation.attempts, operation.replays)

    def _is_submitted(self, operation: Operation) -> bool:
        # One that waits for its turn here is overdue all the while. One that was started and came
        # back is another matter.
        return self._submitted.get(operation.operation_id) == (operation.attempts, operation.replays)

    async def _sweep_now_and_again(self) -> None:
        await self._calmly(self.sweep)
        await self._every(self._lease_secs, self.sweep)

    async def _renew(self) -> None:
        # The next one is not late because this one hangs.
        began_at, limit_secs = _now(), self._lease_secs / 3
        try:
            async with asyncio.timeout(limit_secs):
                await in_time(self._store.renew(self._owner, self._lease_secs), "renew a lease")
        except TimeoutError:
            raise StoreError(f"the store did not renew a lease within {limit_secs:g} s") from None
        self._leased_until = began_at + self._lease_secs

    async def _every(self, secs: float, do: Callable[[], Awaitable[None]]) -> None:
        at = _now()
        while True:
            at = max(at + secs, _now())
            await asyncio.sleep(at - _now())
            await self._calmly(do)

    async def _calmly(self, do: Callable[[], Awaitable[None]]) -> None:
        name = getattr(do, "__name__", "")
        try:
            await do()
        except Exception as e:
            # Whatever it is: without its lease the owner is dead for all others.
            if not self._failing:
                logger.error(f"{self._owner}: {type(e).__name__}: {e}; trying again until it works")
            self._failing.add(name)
            return
        if self._failing == {name}:
            logger.info(f"{self._owner}: it works again")
        self._failing.discard(name)


def _now() -> float:
    return asyncio.get_running_loop().time()
