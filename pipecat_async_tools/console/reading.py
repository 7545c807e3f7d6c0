# SPDX-License-Identifier: BSD-2-Clause
"""Reads what the commands show out of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import BatchRow, DeadLetter, DeliveryRow
from pipecat_async_tools.store.url import store_from_url

_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class Call:
    """Everything that is known of a session.

    Parameters:
        session_id: The session.
        events: What happened, in its order.
        operations: Oldest first.
        batches: Oldest first.
        deliveries: Oldest first.
        dead_letters: Those that are open, oldest first.
    """

    session_id: str
    events: tuple[Event, ...]
    operations: tuple[Operation, ...]
    batches: tuple[BatchRow, ...]
    deliveries: tuple[DeliveryRow, ...]
    dead_letters: tuple[DeadLetter, ...]

    @property
    def started_at(self) -> float:
        """Seconds, on the store's clock, of the first thing that is known of it."""
        times = [*(e.at for e in self.events[:1]), *(o.accepted_at for o in self.operations)]
        return min(times, default=0.0)


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Store]:
    """Open the store that a URL names, and close it in the end.

    Raises:
        ConfigurationError: The URL names no store.
        StoreError: It cannot be opened; a SQLite file that is not there is not created.
    """
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///"))
        if not path.is_file():
            raise StoreError(f"there is no file {path}: name the bot's store with --store")
    store = store_from_url(url)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def read_call(store: Store, session_id: str) -> Call:
    """Read everything about a session.

    Raises:
        StoreError: There is no such session.
    """
    call = Call(
        session_id=session_id,
        events=tuple(await _read_events(store, session_id)),
        operations=tuple(await store.operations(session_id)),
        batches=tuple(await store.batches(session_id)),
        deliveries=tuple(await store.deliveries(session_id)),
        dead_letters=tuple(await store.dead_letters(session_id=session_id)),
    )
    if not call.events and not call.operations:
        raise StoreError(f"there is no session {session_id}; `sessions` lists those that are there")
    return call


async def read_operation(store: Store, operation_id: str) -> tuple[Operation, Call]:
    """Read an operation and the call that it belongs to.

    Raises:
        StoreError: There is no such operation.
    """
    operation = await store.operation(operation_id)
    if operation is None:
        raise StoreError(f"there is no operation {operation_id}; `explain SESSION` lists those of a call")
    return operation, await read_call(store, operation.session_id)


async def read_letter(store: Store, letter_id: str) -> DeadLetter:
    """Read a dead letter.

    Raises:
        StoreError: There is no such letter.
    """
    letter = await store.dead_letter(letter_id)
    if letter is None:
        raise StoreError(f"there is no dead letter {letter_id}; `dead list --all` lists those that are there")
    return letter


async def _read_events(store: Store, session_id: str) -> list[Event]:
    events: list[Event] = []
    after: str | None = None
    while page := await store.events(session_id=session_id, after=after, limit=_PAGE):
        events += [logged.event for logged in page]
        after = page[-1].position
    return events
