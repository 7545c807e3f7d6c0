# SPDX-License-Identifier: BSD-2-Clause
"""The port to whoever grants a telling: of all processes that know a delivery, one tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.store.rows import TellingEnd, TellingMode


class TellingRights(Protocol):
    """Grants tellings, and is told how they ended."""

    async def claim(
        self, deliveries: Sequence[Envelope], telling_id: str, mode: TellingMode
    ) -> frozenset[str]:
        """Ask for deliveries, and return the ids of those that may be told now; never raises."""
        ...

    def settle(self, telling_id: str, ends: Sequence[TellingEnd]) -> None:
        """Note how a telling ended; returns without waiting."""
        ...

    def suppress(self, envelope: Envelope) -> None:
        """Note that a delivery was given up; returns without waiting."""
        ...
