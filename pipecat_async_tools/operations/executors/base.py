# SPDX-License-Identifier: BSD-2-Clause
"""The port to whatever runs operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from pipecat_async_tools.operations.operation import Operation

Run = Callable[[str], Awaitable[None]]
"""Runs one operation to its end, given its id; never raises for what the handler does."""


class Executor(Protocol):
    """Runs operations at least once. It carries an id and nothing else: the store's row is the truth."""

    async def start(self, run: Run) -> None:
        """Get ready to run operations with ``run``. Called again, it does nothing."""
        ...

    async def submit(self, operation: Operation) -> None:
        """See to it that the operation is run; returns without waiting for it."""
        ...

    async def cancel(self, operation_id: str) -> None:
        """Stop running an operation, as well as that can be done."""
        ...

    async def stop(self, drain_secs: float) -> None:
        """Let what runs go on for at most ``drain_secs``, then stop it."""
        ...
