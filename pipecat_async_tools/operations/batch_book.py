# SPDX-License-Identifier: BSD-2-Clause
"""Tells the store what becomes of batches, from code that must not wait."""

from __future__ import annotations

from collections.abc import Sequence

from pipecat_async_tools.background import Background
from pipecat_async_tools.operations.insisting import insist
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import DeliveryRow


class BatchBook:
    """Writes down what only the pipeline knows of a batch: which calls never came, and quick answers."""

    def __init__(self, store: Store):
        """Initialize the book.

        Args:
            store: Remembers the batches.
        """
        self._store = store
        self._background = Background()

    def dismissed(self, batch_id: str, call_ids: Sequence[str]) -> None:
        """Note that announced calls of a batch are no operations."""
        self._background.spawn(self._dismiss(batch_id, call_ids))

    def answered_natively(self, batch_id: str) -> None:
        """Note that the calls of a batch were answered with their results."""
        self._background.spawn(self._answer(batch_id))

    async def deliver_part(self, batch_id: str) -> DeliveryRow | None:
        """Make a delivery of what has settled of an open batch."""
        return await insist(lambda: self._store.deliver_part(batch_id), "deliver a part of a batch")

    async def _dismiss(self, batch_id: str, call_ids: Sequence[str]) -> None:
        await insist(lambda: self._store.dismiss(batch_id, call_ids), "dismiss a call")

    async def _answer(self, batch_id: str) -> None:
        await insist(lambda: self._store.answer_natively(batch_id), "note a native answer")
