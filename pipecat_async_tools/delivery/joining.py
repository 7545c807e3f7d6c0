# SPDX-License-Identifier: BSD-2-Clause
"""An attempt to tell a delivery together with the answer to the caller."""

from __future__ import annotations

from typing import ClassVar

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.telling import Phase, Telling
from pipecat_async_tools.store.rows import TellingMode, TellingOutcome


class Joining(Telling):
    """A telling that joins the answer to the turn the caller has taken.

    It is prepared while the turn is open, has no run of its own, and follows every response up to the
    moment when nobody speaks and nobody is about to: an answer may call a tool first and speak then.
    """

    mode: ClassVar[TellingMode] = "next_turn"

    @property
    def may_be_withdrawn(self) -> bool:
        """Never: that the caller speaks is what it waits for."""
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether no answer has begun yet."""
        return self.phase is Phase.TRIGGERED and not self.withdrawn

    @property
    def awaits_response(self) -> bool:
        """Whether the next response is one it follows."""
        return self.phase is not Phase.RESPONDING and self.in_context and not self.withdrawn

    def extend(self, deliveries: tuple[Envelope, ...]) -> None:
        """Take in deliveries that became ready before the answer began."""
        self.deliveries = (*self.deliveries, *deliveries)

    def interrupted(self, now: float) -> None:
        """An interruption passed the gate; before the answer began there is nothing to cut off."""
        if not self.is_waiting:
            super().interrupted(now)

    def verdict(self, now: float, channel: ChannelState) -> TellingOutcome | None:
        """Return how it ended, or None while it has not; "completed" is for the words heard to confirm."""
        if self.withdrawn:
            return "withdrawn"
        if self._interrupted_at is not None:
            return self._cut_off(now)
        if not channel.is_free:
            return None
        if not self.text.strip():
            # An empty turn, or an answer without words.
            return "withdrawn"
        if self.evidence.is_over(now) and self.evidence.was_heard(now):
            return "completed"
        quiet_since = max(self._since, self.evidence.audible_until)
        return "unheard" if now - quiet_since >= self._params.audio_timeout_secs else None
