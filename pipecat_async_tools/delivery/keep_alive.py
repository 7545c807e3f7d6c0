# SPDX-License-Identifier: BSD-2-Clause
"""Keeps Pipecat's idle timers from taking a caller who waits, and a bot that works, for gone."""

from __future__ import annotations

from collections.abc import Iterator

from pipecat.frames.frames import Frame, UserIdleTimeoutUpdateFrame

from pipecat_async_tools.frames import WorkGoesOnFrame

# How often the worker's idle timer hears of it.
_PULSE_SECS = 1.0


class KeepAlive:
    """Says which frames keep the idle timers quiet while something is running or owed."""

    def __init__(self, *, keep_alive_secs: float, user_idle_timeout_secs: float | None):
        """Initialize with the timers in force.

        Args:
            keep_alive_secs: Seconds after which the timers are in force again, whatever goes on.
            user_idle_timeout_secs: The ``user_idle_timeout`` of the user aggregator; None if it has none.
        """
        self._keep_alive_secs = keep_alive_secs
        self._user_idle_timeout_secs = user_idle_timeout_secs
        self._since: float | None = None
        self._pulsed_at = 0.0
        self._holding = False

    @property
    def is_holding(self) -> bool:
        """Whether the timers are held."""
        return self._holding

    def user_idle_timeout_set(self, secs: float) -> None:
        """The application set another time-out: the one that will be in force again."""
        self._user_idle_timeout_secs = secs
        # It is in force now, so that it has to be held anew.
        self._holding = False

    def frames(self, now: float, *, busy: bool) -> Iterator[Frame]:
        """Return the frames that are due upstream now.

        Args:
            now: Seconds.
            busy: Whether something is running or owed.
        """
        self._since = (self._since if self._since is not None else now) if busy else None
        hold = self._since is not None and now - self._since < self._keep_alive_secs
        if hold != self._holding:
            self._holding = hold
            if self._user_idle_timeout_secs:
                yield UserIdleTimeoutUpdateFrame(timeout=0.0 if hold else self._user_idle_timeout_secs)
        if hold and now - self._pulsed_at >= _PULSE_SECS:
            self._pulsed_at = now
            yield WorkGoesOnFrame()
