# SPDX-License-Identifier: BSD-2-Clause
"""Handlers whose annotations are strings."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nowhere import Nowhere

    from pipecat_async_tools import OperationContext  # noqa: F401


async def book(op, day: datetime.date, nights: int = 1) -> dict[str, str]:
    """Book a room.

    Args:
        day: The first day.
        nights: How many nights.
    """
    return {"day": day.isoformat(), "nights": str(nights)}


async def unreadable(op, place: Nowhere) -> None:
    """Go nowhere."""
