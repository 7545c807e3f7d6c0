# SPDX-License-Identifier: BSD-2-Clause
"""When an update is told: a pure function over what the four clocks say. Users replace it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.errors import ConfigurationError

QuietWindow = float | Callable[[Envelope, ChannelState], float]

_LONGEST_SETTLE_SECS = 5.0


@dataclass(frozen=True, kw_only=True)
class DeliveryDecision:
    """What to do with a delivery now.

    Parameters:
        reason: Why, in a few words for people.
    """

    reason: str


@dataclass(frozen=True, kw_only=True)
class SuppressAndPersist(DeliveryDecision):
    """Never say it; it stays on record with the reason."""


@dataclass(frozen=True, kw_only=True)
class DeliverNow(DeliveryDecision):
    """Tell it now.

    Parameters:
        interrupt: Cut off what the bot is saying.
    """

    interrupt: bool = False


@dataclass(frozen=True, kw_only=True)
class QueueUntilQuiet(DeliveryDecision):
    """Wait until it has been quiet for long enough.

    Parameters:
        secs: How much quiet is missing, if nothing else happens.
    """

    secs: float


@dataclass(frozen=True, kw_only=True)
class QueueAfterPlayback(DeliveryDecision):
    """Wait until the bot has been heard out."""


@dataclass(frozen=True, kw_only=True)
class AttachToNextResponse(DeliveryDecision):
    """Wait for the answer to the caller: the update belongs behind it."""


@dataclass(frozen=True, kw_only=True)
class DeliveryPolicy:
    """The default policy; override :meth:`choose`, or just give other numbers.

    Parameters:
        min_quiet_secs: The quiet window: a number of seconds, or a function of envelope and channel.
        max_tellings: Attempts through the model. The one after it is spoken from a template; after
            that the delivery is given up.
    """

    min_quiet_secs: QuietWindow = 0.65
    max_tellings: int = 3

    def __post_init__(self):
        if not callable(self.min_quiet_secs) and self.min_quiet_secs < 0:
            raise ConfigurationError(
                f"min_quiet_secs={self.min_quiet_secs}: pass seconds, 0 or more, or a function"
            )
        if self.max_tellings < 1:
            raise ConfigurationError(f"max_tellings={self.max_tellings}: pass 1 or more")

    def choose(
        self, envelope: Envelope, channel: ChannelState, now: float, *, superseded: bool = False
    ) -> DeliveryDecision:
        """Decide what to do with a delivery now.

        Args:
            envelope: The delivery.
            channel: What the clocks say.
            now: Seconds, on the event loop's clock.
            superseded: Whether a newer result of the same subject is known.
        """
        expiry = envelope.expires_after_secs
        if superseded:
            return SuppressAndPersist(reason="a newer result replaced it")
        if expiry is not None and now - envelope.ready_at >= expiry:
            return SuppressAndPersist(reason=f"older than {expiry:g} s")
        # A success that corrects a failure is owed to whoever heard of the failure.
        went_well = envelope.all_succeeded and not envelope.correction
        if envelope.speak == "never" or (envelope.speak == "on_failure" and went_well):
            return SuppressAndPersist(reason="not to be spoken")
        if channel.caller_speaking:
            return QueueUntilQuiet(reason="the caller is speaking", secs=self.quiet_secs(envelope, channel))
        if channel.bot_audio:
            if envelope.priority == "urgent":
                return DeliverNow(reason="urgent", interrupt=True)
            return QueueAfterPlayback(reason="the bot is speaking")
        if channel.turn_open:
            return AttachToNextResponse(reason="the caller's turn is open")
        if channel.answer_owed or channel.response_in_flight:
            return AttachToNextResponse(reason="the caller is owed an answer")
        missing = self.quiet_secs(envelope, channel) - channel.quiet_secs
        if missing > 0 and envelope.priority != "urgent":
            return QueueUntilQuiet(reason="it has not been quiet for long enough", secs=missing)
        return DeliverNow(reason="the channel is free")

    def quiet_secs(self, envelope: Envelope, channel: ChannelState) -> float:
        """Return how long it must be quiet first; longer after each attempt that failed."""
        window = self.min_quiet_secs
        base = window(envelope, channel) if callable(window) else window
        return max(base, min(base * (1 + envelope.attempts), _LONGEST_SETTLE_SECS))
