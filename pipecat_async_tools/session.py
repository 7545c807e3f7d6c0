# SPDX-License-Identifier: BSD-2-Clause
"""``SessionKeeper``: holds a caller's session in the store, so that one process tells what it owes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from loguru import logger

from pipecat_async_tools.delivery.desk import DeliveryDesk
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.operations.insisting import STORE_TIMEOUT_SECS, in_time, insist
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.telling_options import TellingOptions
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import DeliveryRow, TellingEnd, TellingMode

# Changes come in flocks: one look is enough for all that came this close together.
_LOOK_APART_SECS = 0.1


class SessionKeeper:
    """Takes the session, brings in what earlier calls left, and asks before anything is told.

    It is the :class:`~pipecat_async_tools.delivery.rights.TellingRights` of the gate.
    """

    def __init__(
        self,
        *,
        store: Store,
        session_id: str,
        owner: str,
        lease_secs: float,
        tools: Mapping[str, TellingOptions],
        ledger: OperationLedger,
        desk: DeliveryDesk,
        is_ours: Callable[[str], bool],
        take_in: Callable[[Envelope], Awaitable[None]],
    ):
        """Initialize the keeper.

        Args:
            store: Remembers the session.
            session_id: The caller's session.
            owner: The name under which it is held.
            lease_secs: Seconds after which a process that died no longer holds it.
            tools: How the outcomes of tools are told, by name.
            ledger: Its operations.
            desk: Its deliveries.
            is_ours: Whether a batch is made of calls of this pipeline, which tells it by itself.
            take_in: Takes a delivery into the conversation.
        """
        self._store = store
        self._session_id = session_id
        self._owner = owner
        self._lease_secs = lease_secs
        self._tools = tools
        self._ledger = ledger
        self._desk = desk
        self._is_ours = is_ours
        self._take_in = take_in
        self._fence: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._last_write: asyncio.Task[None] | None = None

    @property
    def holds_session(self) -> bool:
        """Whether this process tells what the session owes."""
        return self._fence is not None

    def start(self) -> None:
        """Take the session, and look at it again whenever it changes."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._keep())]

    async def stop(self) -> None:
        """Write down what is still to be written, and let go of the session; bounded."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not await self._written():
            logger.error(
                f"{self._session_id}: the store did not answer; the last telling is not written down"
            )
        with contextlib.suppress(StoreError):
            await self._take_late_ones()
        with contextlib.suppress(StoreError):
            await in_time(
                self._store.release_session(self._session_id, owner=self._owner), "release a session"
            )
        self._fence = None

    async def give_up(self, after_secs: float) -> None:
        """Wait for the caller to come back; then what is still pending is undeliverable."""
        await asyncio.sleep(after_secs)
        rows = await insist(
            lambda: self._store.give_up_deliveries(after_secs, session_id=self._session_id),
            "give up deliveries",
        )
        for row in rows:
            self._desk.settled_elsewhere(row.delivery_id, row.state, row.reason)

    # TellingRights

    async def claim(
        self, deliveries: Sequence[Envelope], telling_id: str, mode: TellingMode
    ) -> frozenset[str]:
        """Ask the store for deliveries, and return the ids of those that may be told now."""
        ids = [envelope.delivery_id for envelope in deliveries]
        try:
            # How the telling before it ended must be written first, or it would be refused afterwards.
            if not await self._written() or not await self._hold():
                return frozenset()
            assert self._fence is not None
            claim = self._store.claim_telling(self._session_id, ids, telling_id, fence=self._fence, mode=mode)
            granted = frozenset(await in_time(claim, "grant a telling"))
            if len(granted) < len(ids):
                await self._see_to_denied([i for i in ids if i not in granted])
            return granted
        except StoreError as e:
            logger.error(f"{self._session_id}: an update waits: {e}")
            return frozenset()

    def settle(self, telling_id: str, ends: Sequence[TellingEnd]) -> None:
        """Note how a telling ended."""
        self._write(lambda: self._store.settle_telling(telling_id, ends), "write down a telling")

    def suppress(self, envelope: Envelope) -> None:
        """Note that a delivery was given up."""
        if (fence := self._fence) is None:
            return
        self._write(
            lambda: self._store.suppress(
                self._session_id, envelope.delivery_id, envelope.reason, fence=fence
            ),
            "give up a delivery",
        )

    # What happens in the store

    async def look(self) -> None:
        """Bring in what other processes, or earlier calls, did to the session."""
        for operation in self._ledger.operations:
            if not operation.is_settled:
                await self._ledger.look_again(operation.operation_id)
        if await self._hold():
            rows = await in_time(self._store.open_deliveries(self._session_id), "read deliveries")
            store_now = await in_time(self._store.now(), "tell the time")
            for row in filter(self._is_news, rows):
                await self._take_in(self._restored(row, store_now))

    async def _take_late_ones(self) -> None:
        # What ended after the pipeline did came to nobody's desk, and would be given up by nobody.
        at_desk = {(o.operation_id, o.late) for e in self._desk.deliveries for o in e.operations}
        ended = {(o.operation_id, o.late) for o in self._ledger.operations}
        if not self.holds_session or ended <= at_desk:
            return
        rows = await in_time(self._store.open_deliveries(self._session_id), "read deliveries")
        for row in rows:
            if self._desk.get(row.delivery_id) is None:
                self._desk.add(self._restored(row, row.ready_at))

    def _restored(self, row: DeliveryRow, store_now: float) -> Envelope:
        now = asyncio.get_running_loop().time()
        ready_at = now - (store_now - row.ready_at)
        return Envelope.restored_from(row, tools=self._tools, ready_at=ready_at, now=now)

    def _is_news(self, row: DeliveryRow) -> bool:
        known = self._desk.get(row.delivery_id)
        if known is not None:
            return known.state == "undeliverable" and row.state == "pending"
        # The pipeline makes the deliveries of its own batches, but not what a replay brings.
        return not self._is_ours(row.batch_id) or any(o.replays for o in row.operations)

    async def _see_to_denied(self, delivery_ids: Sequence[str]) -> None:
        rows = {row.delivery_id: row for row in await in_time(self._all_deliveries(), "read deliveries")}
        for delivery_id in delivery_ids:
            row = rows.get(delivery_id)
            if row is not None and row.state not in ("pending", "telling"):
                self._desk.settled_elsewhere(delivery_id, row.state, row.reason)

    def _all_deliveries(self) -> Coroutine[Any, Any, list[DeliveryRow]]:
        return self._store.deliveries(self._session_id)

    async def _hold(self) -> bool:
        hold = self._store.hold_session(self._session_id, owner=self._owner)
        fence = await in_time(hold, "hold a session")
        if fence is None and self._fence is not None:
            logger.warning(f"{self._session_id}: another process tells its updates now")
        self._fence = fence
        return fence is not None

    async def _watch(self) -> None:
        async for _ in self._store.watch(self._session_id):
            await self._look_calmly()
            await asyncio.sleep(_LOOK_APART_SECS)

    async def _keep(self) -> None:
        # Another process may hold the session until its lease runs out, which wakes nobody.
        while True:
            await asyncio.sleep(self._lease_secs / 3)
            if not self.holds_session:
                await self._look_calmly()

    async def _look_calmly(self) -> None:
        try:
            await self.look()
        except StoreError as e:
            logger.warning(f"{self._session_id}: {e}")

    # Writes, one after the other

    def _write(self, write: Callable[[], Coroutine[Any, Any, Any]], what: str) -> None:
        before = self._last_write

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            await insist(write, what)

        self._last_write = asyncio.create_task(in_turn())

    async def _written(self) -> bool:
        if self._last_write is None:
            return True
        done, _ = await asyncio.wait([self._last_write], timeout=STORE_TIMEOUT_SECS)
        return bool(done)
