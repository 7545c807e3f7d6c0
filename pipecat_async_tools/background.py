# SPDX-License-Identifier: BSD-2-Clause
"""Tasks that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """Starts tasks and keeps them until they end: the event loop alone would let them be collected."""

    def __init__(self):
        """Initialize with nothing running."""
        self._running: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that have not ended."""
        return frozenset(self._running)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        task = asyncio.create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
