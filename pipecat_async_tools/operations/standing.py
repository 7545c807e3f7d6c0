# SPDX-License-Identifier: BSD-2-Clause
"""Whether the turn that asked for an operation stands, before something irreversible is started for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# How long the caller must have been silent since the acceptance.
_SILENCE_SECS = 1.0
# A noise that is no turn must not hold the work up for ever, nor until others find it overdue.
_LONGEST_SECS = 5.0
_TICK_SECS = 0.05


class TurnGuard:
    """Watches a turn until the caller has stayed silent for a second after it.

    A caller who takes the turn again before that had not finished, or corrects what they said.
    """

    def __init__(
        self,
        *,
        turn_id: Callable[[], str],
        caller_speaking: Callable[[], bool],
        now: Callable[[], float],
    ):
        """Initialize the guard.

        Args:
            turn_id: Returns the caller's present turn.
            caller_speaking: Returns whether the caller is heard.
            now: Returns the time in seconds.
        """
        self._turn_id = turn_id
        self._caller_speaking = caller_speaking
        self._now = now

    async def stands(self, turn_id: str) -> bool:
        """Wait until a turn stands; False as soon as the caller takes the turn again."""
        since = silent_since = self._now()
        while self._turn_id() == turn_id:
            now = self._now()
            if self._caller_speaking():
                silent_since = now
            if now - silent_since >= _SILENCE_SECS or now - since >= _LONGEST_SECS:
                return True
            await asyncio.sleep(_TICK_SECS)
        return False
