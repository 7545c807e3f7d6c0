# SPDX-License-Identifier: BSD-2-Clause
"""One attempt to say a delivery, as a state machine that knows no pipeline."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

from pipecat_async_tools.delivery.clocks import ChannelState, ClockParams
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.facts import mentions
from pipecat_async_tools.delivery.hearing import HeardTelling
from pipecat_async_tools.store.rows import TellingMode, TellingOutcome, TellingRecord

# How long after an interruption passed the gate the output may take to see it.
_ECHO_SECS = 1.0
# How long after an empty answer a run that waited behind it may take to begin.
_NEXT_RUN_SECS = 0.1
# A realtime service ends a response, and only then passes on the interruption that ended it.
_WORDLESS_SECS = 0.2


class Phase(Enum):
    """How far a telling got."""

    TRIGGERED = "triggered"
    """The model was asked; no response yet."""
    RESPONDING = "responding"
    """Its response is being generated."""
    HANDED_OVER = "handed_over"
    """All its words are with the voice."""


class Telling:
    """An attempt to say one or more deliveries, from the trigger to the verdict.

    It ends in exactly one way. Before its first audio it can be withdrawn, and then it never started.
    """

    mode: ClassVar[TellingMode] = "proactive"

    def __init__(
        self,
        deliveries: tuple[Envelope, ...],
        *,
        telling_id: str,
        params: ClockParams,
        now: float,
        how: Literal["model", "template"] = "model",
        over_caller: bool = False,
    ):
        """Initialize a telling that was just triggered.

        Args:
            deliveries: What it says.
            telling_id: Names the attempt.
            params: After how long what it waits for is taken for lost.
            now: Seconds.
            how: Whether the model words it, or a template.
            over_caller: Whether it does not give way to the caller before its first word.
        """
        self.telling_id = telling_id
        self.deliveries = deliveries
        self.how = how
        self.over_caller = over_caller
        self.phase = Phase.TRIGGERED
        self.in_context = False
        self.marked = False
        self.text = ""
        self.withdrawn = False
        self.shared = False
        self._doubtful = False
        self._wordless_secs = 0.0
        self.evidence = HeardTelling(self.telling_id)
        self._params = params
        self._since = now
        self._interrupted_at: float | None = None

    def in_own_voice(self, *, doubtful: bool) -> None:
        """A speech-to-speech model tells it.

        Args:
            doubtful: Whether the response to come may be one that the model gives by itself.
        """
        self._doubtful = doubtful
        self._wordless_secs = _WORDLESS_SECS

    @property
    def interruptible(self) -> bool:
        """Whether the caller may cut it off."""
        return all(delivery.interruptible for delivery in self.deliveries)

    @property
    def may_be_withdrawn(self) -> bool:
        """Whether nothing of it was heard yet."""
        return self.evidence.started_at is None and self.interruptible and not self.over_caller

    @property
    def is_interrupted(self) -> bool:
        """Whether an interruption is on its way to the output."""
        return self._interrupted_at is not None

    @property
    def awaits_response(self) -> bool:
        """Whether the next response is its own."""
        empty = self.phase is Phase.HANDED_OVER and not self.text.strip()
        return (self.phase is Phase.TRIGGERED or empty) and self.in_context and not self.withdrawn

    @property
    def is_responding(self) -> bool:
        """Whether the response being generated is its own."""
        return self.phase is Phase.RESPONDING

    @property
    def is_anothers(self) -> bool:
        """Whether the response taken for its own turned out to answer something else."""
        # A refused request looks just like one that was granted: the response there was is what follows.
        told = [o for d in self.deliveries for o in d.told]
        return self._doubtful and bool(self.text.strip()) and not mentions(told, self.text)

    def response_started(self, now: float) -> None:
        """The model began to answer the trigger, or a run that waited behind an empty answer did."""
        self.shared = self.phase is Phase.HANDED_OVER
        if self.is_anothers:
            self.text = ""
        self.phase = Phase.RESPONDING
        self._since = now

    def said(self, text: str, now: float) -> None:
        """Words of it were let through to the voice."""
        self.text += text
        self._since = now

    def handed_over(self, now: float) -> None:
        """All its words are with the voice."""
        self.phase = Phase.HANDED_OVER
        self._since = now

    def withdraw(self) -> None:
        """The caller was first: it never started."""
        self.withdrawn = True

    def interrupted(self, now: float) -> None:
        """An interruption passed the gate on its way to the output."""
        if self._interrupted_at is None:
            self._interrupted_at = now

    def verdict(self, now: float, channel: ChannelState) -> TellingOutcome | None:
        """Return how it ended, or None while it has not.

        Args:
            now: Seconds.
            channel: What the clocks say.
        """
        if self.withdrawn:
            return "withdrawn"
        if self._interrupted_at is not None:
            return self._cut_off(now)
        if self.phase is Phase.HANDED_OVER and self.evidence.is_over(now) and self.evidence.was_heard(now):
            whole: TellingOutcome = "interrupted" if self.evidence.was_cut_short else "completed"
            return "lost" if self.is_anothers else whole
        if self.phase is not Phase.HANDED_OVER:
            return "lost" if now - self._since >= self._params.response_timeout_secs else None
        if not self.text.strip():
            # The run that waits behind it reads the update too, and may tell it.
            return "lost" if now - self._since >= max(_NEXT_RUN_SECS, self._wordless_secs) else None
        quiet_since = max(self._since, self.evidence.audible_until)
        silent = not channel.bot_audio and now - quiet_since >= self._params.audio_timeout_secs
        return "unheard" if silent else None

    def record(self, outcome: TellingOutcome, now: float) -> TellingRecord:
        """Return how it went, for a delivery."""
        return TellingRecord(
            telling_id=self.telling_id,
            started_at=None if self.is_anothers else self.evidence.started_at,
            ended_at=now,
            heard="" if self.is_anothers else self.evidence.heard(now),
            outcome=outcome,
            mode=self.mode,
        )

    def _cut_off(self, now: float) -> TellingOutcome | None:
        # The output sees the interruption a moment after the gate did, and the words before it.
        assert self._interrupted_at is not None
        if self.evidence.interrupted_at is None and now - self._interrupted_at < _ECHO_SECS:
            return None
        if self.evidence.started_at is None or self.is_anothers:
            return "withdrawn"
        return "interrupted"
