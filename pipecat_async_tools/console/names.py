# SPDX-License-Identifier: BSD-2-Clause
"""What operations and updates are called in a story."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.rows import DeliveryRow

_SHORT = 9


def listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = [*dict.fromkeys(words)] or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


class Names:
    """Short names, each of them for one thing only."""

    def __init__(self, operations: Sequence[Operation], deliveries: Sequence[DeliveryRow]):
        """Initialize the names.

        Args:
            operations: The operations of the session.
            deliveries: The deliveries of the session.
        """
        ids = [operation.operation_id for operation in operations]
        shorts = [name[:_SHORT] for name in ids]
        self._short = {name: s if shorts.count(s) == 1 else name for name, s in zip(ids, shorts)}
        self._deliveries = {row.delivery_id: row for row in deliveries}

    def operation(self, event: Event | Operation) -> str:
        """Return "book (op-3f0c12)"."""
        name = event.operation_id or ""
        return f"{event.tool or 'an operation'} ({self._short.get(name, name)})"

    def deliveries(self, delivery_ids: Iterable[str | None]) -> str:
        """Return "the update on book (op-3f0c12)", or several of them."""
        return listed(self._delivery(name or "") for name in delivery_ids)

    def _delivery(self, delivery_id: str) -> str:
        row = self._deliveries.get(delivery_id)
        if row is None:
            return "an update"
        what = "the correction of" if row.correction else "the update on"
        return f"{what} {listed(map(self.operation, row.operations))}"
