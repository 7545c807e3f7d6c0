# SPDX-License-Identifier: BSD-2-Clause
"""The four clocks of a call, as state machines that know no pipeline.

They are separate on purpose: there is no ``is_busy``. Times are seconds and are passed in. Every
wait has an end: what a lost frame would keep open for ever, a time-out closes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pipecat_async_tools.delivery.hearing import Hearing
from pipecat_async_tools.delivery.marks import CarrierMarks
from pipecat_async_tools.errors import ConfigurationError

# The end of a turn is known a moment before the words of it.
_WORDS_SECS = 0.3
# How soon after an empty turn Pipecat's prompt for it runs the model.
_PROMPT_SECS = 0.5
# How long an interruption counts as recent.
_RECENT_SECS = 30.0


@dataclass(frozen=True, kw_only=True)
class ClockParams:
    """After how long a state that nothing ended is taken for over, in seconds.

    Parameters:
        answer_timeout_secs: An answer the caller is owed and that nobody began.
        speech_timeout_secs: Speech of the caller that nothing ended.
        silent_turn_secs: A turn that is formally open while the caller is silent: a cough, or noise.
        response_timeout_secs: A response that was begun or asked for and brings nothing.
        audio_timeout_secs: Words handed to the voice that bring no sound.
    """

    answer_timeout_secs: float = 3.0
    speech_timeout_secs: float = 60.0
    silent_turn_secs: float = 2.0
    response_timeout_secs: float = 10.0
    audio_timeout_secs: float = 3.0

    def __post_init__(self):
        for name, value in vars(self).items():
            if value <= 0:
                raise ConfigurationError(f"{name}={value}: pass seconds above 0")


@dataclass(frozen=True, kw_only=True)
class ChannelState:
    """What the four clocks say at one moment; all that a policy may decide from.

    Parameters:
        caller_speaking: The caller is heard.
        turn_open: The caller's turn is not confirmed over.
        answer_owed: The caller's turn had words and nothing answered them yet.
        response_in_flight: A response is being generated.
        bot_audio: The bot is heard, or words are on their way through the voice.
        operations_alive: How many operations are running outside the turn.
        quiet_secs: Seconds since all of the above but the operations were last active.
        interruptions: How often the caller interrupted the bot within the last half minute.
        name: What kind of channel it is, such as "webrtc" or "twilio"; empty if the bot did not say.
        language: What is spoken, such as "en".
    """

    caller_speaking: bool = False
    turn_open: bool = False
    answer_owed: bool = False
    response_in_flight: bool = False
    bot_audio: bool = False
    operations_alive: int = 0
    quiet_secs: float = 0.0
    interruptions: int = 0
    name: str = ""
    language: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nobody speaks and nobody is about to."""
        return not (
            self.caller_speaking
            or self.turn_open
            or self.answer_owed
            or self.response_in_flight
            or self.bot_audio
        )


class CallerClock:
    """The caller's acoustic activity, the turn it belongs to, and whether an answer is owed.

    With :attr:`model_hears` the end of a turn is all that says that an answer is owed.
    """

    def __init__(self, params: ClockParams):
        """Initialize a silent caller."""
        self._params = params
        self.model_hears = False
        self._has_vad = False
        self._speaking = False
        self._turn_open = False
        self._owed_since: float | None = None
        self._turns = 0
        self._had_words = False
        self._turn_stopped_at = -math.inf
        self.quiet_since = 0.0

    @property
    def turn_id(self) -> str:
        """The present or latest turn."""
        return f"turn-{self._turns}"

    @property
    def turn_is_open(self) -> bool:
        """Whether the caller has the turn, however long they have been silent."""
        return self._turn_open

    def vad_started(self, now: float) -> None:
        """The caller is heard."""
        self._has_vad = True
        self._speaking = True
        self.quiet_since = now

    def vad_stopped(self, now: float) -> None:
        """The caller fell silent; the turn may go on."""
        self._has_vad = True
        self._speaking = False
        self.quiet_since = now

    def turn_started(self, now: float) -> None:
        """The caller took the turn; what was owed to the last one is void."""
        self._turns += 1
        self._turn_open = True
        self._had_words = False
        self._owed_since = None
        self.quiet_since = now
        if not self._has_vad:
            self._speaking = True

    def turn_stopped(self, now: float) -> None:
        """The turn is confirmed over."""
        self._turn_open = False
        self._turn_stopped_at = now
        if not self._has_vad:
            self._speaking = False
            self.quiet_since = now
        if self.model_hears:
            # It answers by itself, and its answer may begin before the words are written down.
            self._owed_since = now

    def said_words(self, now: float) -> None:
        """The turn had words: an answer is owed."""
        self._had_words = True
        if not self.model_hears:
            self._owed_since = now

    def answered(self) -> None:
        """Words were let through, or work was acknowledged."""
        self._owed_since = None

    def is_speaking(self, now: float) -> bool:
        """Whether the caller is heard, and the end of it was not lost."""
        return self._speaking and now - self.quiet_since < self._params.speech_timeout_secs

    def turn_holds(self, now: float) -> bool:
        """Whether the turn is open and not just waiting for its own time-out."""
        just_silent = now - self.quiet_since < self._params.silent_turn_secs
        return self._turn_open and (self.is_speaking(now) or just_silent)

    @property
    def may_be_answered(self) -> bool:
        """Whether a model that hears the caller may yet answer the turn, however long ago that was."""
        return self.model_hears and self._owed_since is not None

    def was_just_empty(self, now: float) -> bool:
        """Whether a turn without words has just ended: Pipecat may ask the caller to repeat it."""
        return not self._had_words and now - self._turn_stopped_at < _PROMPT_SECS

    def answer_owed(self, now: float) -> bool:
        """Whether an answer is owed, or may be in a moment, and not given up."""
        if not self._had_words and now - self._turn_stopped_at < _WORDS_SECS:
            return True
        return self._owed_since is not None and now - self._owed_since < self._params.answer_timeout_secs


class ResponseClock:
    """The responses being generated, counted: two runs can overlap."""

    def __init__(self, params: ClockParams):
        """Initialize with no response in flight."""
        self._params = params
        self._running: list[float] = []
        self._requested_at: float | None = None
        self.one_at_a_time = False
        self.has_words = False
        self.ended_at = 0.0

    @property
    def spoke(self) -> bool:
        """Whether the response that makes a call now had words before it."""
        # A realtime service announces words only: a response without any leaves the last one standing.
        return self.has_words and (bool(self._running) or not self.one_at_a_time)

    @property
    def is_requested(self) -> bool:
        """Whether the next response was asked for from behind the model, such as by the result of a call."""
        return self._requested_at is not None

    def requested(self, now: float) -> None:
        """The context was sent to the model."""
        self._requested_at = now

    def started(self, now: float) -> None:
        """A response began."""
        self._requested_at = None
        if self.one_at_a_time:
            # A realtime service announces it twice: when it asks, and when it is answered.
            self._running.clear()
        self._running.append(now)
        self.has_words = False

    def words(self, now: float) -> None:
        """Words of the latest response were let through."""
        self.has_words = True
        if self._running:
            self._running[-1] = now

    def ended(self, now: float) -> None:
        """The oldest response in flight is complete."""
        if self._running:
            self._running.pop(0)
        self.ended_at = now

    def interrupted(self, now: float) -> None:
        """Every response in flight was cancelled."""
        self._running.clear()
        self._requested_at = None
        self.ended_at = now

    def in_flight(self, now: float) -> bool:
        """Whether a response is being generated, or was asked for, and not given up."""
        times = [*self._running, *([] if self._requested_at is None else [self._requested_at])]
        return any(now - at < self._params.response_timeout_secs for at in times)


class PlaybackClock:
    """The audio really played, from the frames that left the output."""

    def __init__(self, params: ClockParams):
        """Initialize a silent bot."""
        self._params = params
        self._bot_speaking = False
        self._handed_over_at: float | None = None
        self._on_their_way: dict[int, float] = {}
        self.audible_until = 0.0
        self.marks: CarrierMarks | None = None

    def handed_over(self, now: float) -> None:
        """Words were given to the voice."""
        self._handed_over_at = now

    def expect(self, response_end: int, now: float) -> None:
        """The end of a response with words passed the gate; it leaves the output after its audio."""
        self._on_their_way[response_end] = now

    def arrived(self, response_end: int) -> None:
        """The end of a response left the output."""
        self._on_their_way.pop(response_end, None)
        if not self._on_their_way:
            self._handed_over_at = None

    def bot_started(self, now: float) -> None:
        """The output began to play."""
        self._bot_speaking = True
        self._handed_over_at = None
        # The first piece of audio is seen once it was played: until then this is all there is.
        self.audible_until = max(self.audible_until, now)

    def bot_stopped(self, now: float) -> None:
        """The output says it stopped: an output that writes faster than real time says so too early."""
        self._bot_speaking = False
        self.audible_until = max(self.audible_until, now)

    def audio(self, duration_secs: float, now: float) -> None:
        """A piece of audio left the output; it is heard for as long as it lasts."""
        self.audible_until = max(self.audible_until, now) + duration_secs

    def played(self, now: float) -> None:
        """The carrier has played everything it was sent so far."""
        self.audible_until = max(self.audible_until, now)

    def interrupted(self, now: float) -> None:
        """What was on its way was thrown away."""
        self._on_their_way.clear()
        self._handed_over_at = None
        self.audible_until = min(self.audible_until, now)

    def is_busy(self, now: float) -> bool:
        """Whether the bot is heard, or words are on their way through the voice and not given up."""
        if now < self.audible_until or (self.marks is not None and self.marks.are_awaited):
            return True
        # A bot-stopped can come late, or never: without audio the flag alone proves nothing for long.
        if self._bot_speaking and now - self.audible_until < self._params.audio_timeout_secs:
            return True
        waiting = [*self._on_their_way.values()]
        if self._handed_over_at is not None:
            waiting.append(self._handed_over_at)
        since = max([*waiting, self.audible_until]) if waiting else 0.0
        return bool(waiting) and now - since < self._params.audio_timeout_secs


class OperationsClock:
    """The operations alive outside the turn."""

    def __init__(self):
        """Initialize with nothing running."""
        self._alive: set[str] = set()

    def accepted(self, operation_id: str) -> None:
        """An operation began."""
        self._alive.add(operation_id)

    def settled(self, operation_id: str) -> None:
        """An operation ended."""
        self._alive.discard(operation_id)

    @property
    def alive(self) -> int:
        """How many operations are running."""
        return len(self._alive)


class CallClocks:
    """The four clocks of one call, what is known of the telling in flight, and who wants to hear of it."""

    def __init__(self, params: ClockParams, *, channel: str = "", language: Callable[[], str] = lambda: ""):
        """Initialize the clocks.

        Args:
            params: Their time-outs.
            channel: What kind of channel it is, for policies.
            language: Returns what is spoken, for policies.
        """
        self._channel = channel
        self._language = language
        self._interruptions: deque[float] = deque()
        self.caller = CallerClock(params)
        self.response = ResponseClock(params)
        self.playback = PlaybackClock(params)
        self.operations = OperationsClock()
        self.hearing = Hearing()
        self.on_change: Callable[[], None] = lambda: None

    def ask_carrier(self, marks: CarrierMarks) -> None:
        """Believe only what a phone carrier says it has played."""
        self.hearing.marks = self.playback.marks = marks
        marks.on_return = lambda: self.on_change()

    def interrupted(self, now: float) -> None:
        """The caller took the turn; where the bot was heard, they interrupted it."""
        self.response.interrupted(now)
        if self.playback.is_busy(now):
            self._interruptions.append(now)

    def speech_to_speech(self) -> None:
        """The model hears the caller and speaks itself."""
        self.caller.model_hears = True
        self.response.one_at_a_time = True

    def channel(self, now: float) -> ChannelState:
        """Return what the clocks say now."""
        while self._interruptions and now - self._interruptions[0] > _RECENT_SECS:
            self._interruptions.popleft()
        active_until = max(self.caller.quiet_since, self.playback.audible_until, self.response.ended_at)
        return ChannelState(
            caller_speaking=self.caller.is_speaking(now),
            turn_open=self.caller.turn_holds(now),
            answer_owed=self.caller.answer_owed(now),
            response_in_flight=self.response.in_flight(now),
            bot_audio=self.playback.is_busy(now),
            operations_alive=self.operations.alive,
            quiet_secs=max(0.0, now - active_until),
            interruptions=len(self._interruptions),
            name=self._channel,
            language=self._language(),
        )
