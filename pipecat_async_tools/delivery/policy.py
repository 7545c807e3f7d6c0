# SPDX-License-Identifier: BSD-2-Clause
"""When an update is told: a pure function over what the four clocks say. Users replace it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.facts import all_heard, can_be_checked, mostly_told
from pipecat_async_tools.errors import ConfigurationError

QuietWindow = float | Callable[[Envelope, ChannelState], float]
Choice = bool | Callable[[Envelope, ChannelState], bool]
Speech = Literal["model", "auto", "template"]

_LONGEST_SETTLE_SECS = 5.0
# An interruption this soon after our first audio, every time, is our own voice coming back.
_ECHO_SECS = 1.0
_ECHO_TIMES = 2
# How long one that was suspected of an echo only waits for the next turn.
_ECHO_PATIENCE_SECS = 20.0
# From how many recent interruptions on it is no moment to begin to speak.
_STORM = 4


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
        over_caller: Do not wait for the caller, nor give way to them before the first word.
    """

    interrupt: bool = False
    over_caller: bool = False


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
    """Wait for an answer to the caller: the update belongs behind it."""


@dataclass(frozen=True, kw_only=True)
class DeliveryPolicy:
    """The default policy; override a method, or just give other values.

    Parameters:
        min_quiet_secs: The quiet window: a number of seconds, or a function of envelope and channel.
        max_tellings: Attempts through the model. The one after it is spoken from a template; after
            that the delivery goes to the dead letters.
        proactive: Whether the bot may begin to speak by itself; otherwise everything is told by
            joining the answer to the caller's next turn. Also a function of envelope and channel.
        may_interrupt: Whether something urgent may cut off the bot (and, where the tool wants it, the
            caller). Also a function of envelope and channel.
        is_stale: Tells of a delivery that is no longer worth saying; it is stored and not told.
        max_wait_secs: Seconds after which a delivery that found no free moment is told with the
            caller's next turn only; None waits on.
        at_first_breath: After ``max_wait_secs``, tell it as soon as nobody speaks instead.
        progress_gap_secs: Seconds that the bot must have been silent before a progress is spoken;
            None never speaks any.
        speech: Who words an update: the "model", a "template", or with "auto" the summaries of its
            results if everything succeeded and each has one, and else the model.
    """

    min_quiet_secs: QuietWindow = 0.65
    max_tellings: int = 3
    proactive: Choice = True
    may_interrupt: Choice = True
    is_stale: Callable[[Envelope, ChannelState], bool] | None = None
    max_wait_secs: float | None = 60.0
    at_first_breath: bool = False
    progress_gap_secs: float | None = 8.0
    speech: Speech = "model"

    def __post_init__(self):
        if not callable(self.min_quiet_secs) and self.min_quiet_secs < 0:
            raise ConfigurationError(
                f"min_quiet_secs={self.min_quiet_secs}: pass seconds, 0 or more, or a function"
            )
        if self.max_tellings < 1:
            raise ConfigurationError(f"max_tellings={self.max_tellings}: pass 1 or more")
        for name in ("proactive", "may_interrupt"):
            _check_choice(name, getattr(self, name))
        if self.is_stale is not None and not callable(self.is_stale):
            raise ConfigurationError(f"is_stale={self.is_stale!r}: pass a function of envelope and channel")
        for name in ("max_wait_secs", "progress_gap_secs"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"{name}={value}: pass seconds above 0, or None")
        if self.speech not in ("model", "auto", "template"):
            raise ConfigurationError(f"speech={self.speech!r}: pass 'model', 'auto' or 'template'")

    def choose(
        self, envelope: Envelope, channel: ChannelState, now: float, *, superseded: bool = False
    ) -> DeliveryDecision:
        """Decide what to do with a delivery now.

        Args:
            envelope: The delivery.
            channel: What the clocks say.
            now: Seconds, on the event loop's clock.
            superseded: Whether a newer request of the same subject is known.
        """
        if why_not := self._why_never(envelope, channel, now, superseded):
            return SuppressAndPersist(reason=why_not)
        if why := self.joins_only(envelope, channel, now):
            return AttachToNextResponse(reason=why)
        if channel.caller_speaking:
            if envelope.interrupt_caller and _chosen(self.may_interrupt, envelope, channel):
                return DeliverNow(reason="urgent", interrupt=channel.bot_audio, over_caller=True)
            return QueueUntilQuiet(reason="the caller is speaking", secs=self.quiet_secs(envelope, channel))
        if channel.bot_audio:
            if envelope.priority == "urgent" and _chosen(self.may_interrupt, envelope, channel):
                return DeliverNow(reason="urgent", interrupt=True)
            return QueueAfterPlayback(reason="the bot is speaking")
        if channel.turn_open:
            return AttachToNextResponse(reason="the caller's turn is open")
        if channel.answer_owed or channel.response_in_flight:
            return AttachToNextResponse(reason="the caller is owed an answer")
        missing = self.quiet_secs(envelope, channel) - channel.quiet_secs
        if missing > 0 and envelope.priority != "urgent" and not self._waited_too_long(envelope, now):
            return QueueUntilQuiet(reason="it has not been quiet for long enough", secs=missing)
        return DeliverNow(reason="the channel is free")

    def joins_only(self, envelope: Envelope, channel: ChannelState, now: float) -> str | None:
        """Return why a delivery may be told with an answer to the caller only; None if it may go alone."""
        if not (envelope.proactive and _chosen(self.proactive, envelope, channel)):
            return "it is told with the next answer only"
        if self._waited_too_long(envelope, now) and not self.at_first_breath:
            return "it has waited too long for a free moment"
        if _suspects_echo(envelope, now):
            return "an echo of our own voice is suspected"
        if channel.interruptions >= _STORM and envelope.priority != "urgent":
            return "the bot is interrupted all the time"
        return None

    def may_join(self, envelope: Envelope, channel: ChannelState, now: float) -> bool:
        """Return whether a delivery is told together with the answer to a turn that the caller took.

        Only what can be looked for in the words heard is: whether an answer told that a request failed
        cannot be known for sure. What is urgent goes first and alone, and what changes the conversation
        once it is known must not do so in the middle of a turn.
        """
        if self.joins_only(envelope, channel, now):
            return True
        return envelope.priority != "urgent" and not envelope.callbacks and can_be_checked(envelope.told)

    def covers(self, envelope: Envelope, heard: str, *, complete: bool, language: str) -> bool:
        """Return whether what was heard told a delivery that had joined an answer.

        Args:
            envelope: The delivery.
            heard: The words heard of the answer.
            complete: Whether the answer was heard to its end. Then half of the numbers and names will do,
                since the model may have summed up the rest; a result without any counts as told.
            language: Of the words.
        """
        if not complete:
            return all_heard(envelope.told, heard, language)
        checked = [o for o in envelope.told if can_be_checked([o])]
        return not checked or mostly_told(checked, heard, language)

    def quiet_secs(self, envelope: Envelope, channel: ChannelState) -> float:
        """Return how long it must be quiet first; longer after each attempt that failed."""
        window = self.min_quiet_secs
        base = window(envelope, channel) if callable(window) else window
        return max(base, min(base * (1 + envelope.attempts), _LONGEST_SETTLE_SECS))

    def _why_never(
        self, envelope: Envelope, channel: ChannelState, now: float, superseded: bool
    ) -> str | None:
        expiry = envelope.expires_after_secs
        if superseded:
            return "a newer request replaced it"
        if expiry is not None and now - envelope.ready_at >= expiry:
            return f"older than {expiry:g} s"
        if self.is_stale is not None and self.is_stale(envelope, channel):
            return "the application calls it stale"
        # A success that corrects a failure is owed to whoever heard of the failure.
        went_well = envelope.all_succeeded and not envelope.correction
        if envelope.speak == "never" or (envelope.speak == "on_failure" and went_well):
            return "not to be spoken"
        if envelope.speak == "skip_if_busy" and not (channel.is_free or envelope.attempts):
            return "the channel was busy"
        return None

    def _waited_too_long(self, envelope: Envelope, now: float) -> bool:
        return self.max_wait_secs is not None and now - envelope.waiting_since >= self.max_wait_secs


def _chosen(choice: Choice, envelope: Envelope, channel: ChannelState) -> bool:
    return choice(envelope, channel) if callable(choice) else choice


def _check_choice(name: str, choice: Any) -> None:
    if not (isinstance(choice, bool) or callable(choice)):
        raise ConfigurationError(f"{name}={choice!r}: pass True, False or a function of envelope and channel")


def _suspects_echo(envelope: Envelope, now: float) -> bool:
    counted = [t for t in envelope.tellings if t.outcome != "withdrawn"][-_ECHO_TIMES:]
    if len(counted) < _ECHO_TIMES or now - counted[-1].ended_at >= _ECHO_PATIENCE_SECS:
        return False
    return all(
        t.outcome == "interrupted" and t.started_at is not None and t.ended_at - t.started_at <= _ECHO_SECS
        for t in counted
    )
