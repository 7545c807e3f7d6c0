# SPDX-License-Identifier: BSD-2-Clause
"""Who wants to know that a session changed, on whatever event loop they are."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Collection, Generator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Watcher:
    """Someone who waits for changes.

    Parameters:
        session_id: Of this session; None of any.
        loop: The event loop on which they wait.
        event: Set by a change, and by the end.
        closed: Whether the store was closed.
    """

    session_id: str | None
    loop: asyncio.AbstractEventLoop
    event: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False


class Wakes:
    """The watchers of one store object."""

    def __init__(self):
        """Initialize without watchers."""
        self._lock = threading.Lock()
        self._watchers: set[Watcher] = set()

    @property
    def has_watchers(self) -> bool:
        """Whether anybody waits."""
        return bool(self._watchers)

    @contextlib.contextmanager
    def watching(self, session_id: str | None) -> Generator[Watcher]:
        """Be woken by changes while inside."""
        watcher = Watcher(session_id, asyncio.get_running_loop())
        with self._lock:
            self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    def wake(self, session_ids: Collection[str] | None) -> None:
        """Wake whoever waits for one of these sessions, or everybody; from any thread."""
        with self._lock:
            concerned = [
                w
                for w in self._watchers
                if session_ids is None or w.session_id is None or w.session_id in session_ids
            ]
        for watcher in concerned:
            # A loop may have been closed with its watcher still listed.
            with contextlib.suppress(RuntimeError):
                watcher.loop.call_soon_threadsafe(watcher.event.set)

    def close(self) -> None:
        """Let whoever waits know that nothing more comes."""
        with self._lock:
            for watcher in self._watchers:
                watcher.closed = True
        self.wake(None)
