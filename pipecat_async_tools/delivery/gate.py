# SPDX-License-Identifier: BSD-2-Clause
"""``ActivityGate``: lets an update be heard when the conversation has room for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallResultFrame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMServiceMetadataFrame,
    LLMTextFrame,
    StartFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    UserIdleTimeoutUpdateFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.delivery.clocks import CallClocks
from pipecat_async_tools.delivery.context import ContextEditor
from pipecat_async_tools.delivery.course import TellingCourse
from pipecat_async_tools.delivery.desk import DeliveryDesk, Due
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.keep_alive import KeepAlive
from pipecat_async_tools.delivery.live_state import LiveState
from pipecat_async_tools.delivery.progress import ProgressSpeech
from pipecat_async_tools.delivery.realtime import RealtimeConversation
from pipecat_async_tools.delivery.rights import TellingRights
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.frames import (
    AcknowledgeFrame,
    DeliveryReadyFrame,
    OperationCorrectedFrame,
    TellingEndedFrame,
)
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.processor import PassingProcessor

# While something is open the gate asks again at least this often, whatever happens or does not.
_TICK_SECS = 0.1


class ActivityGate(PassingProcessor):
    """The only place that makes a sound.

    It decides from the present state, and is asked again on every change and on a timer, so no
    single event can be missed. Frames pass it at once; the deciding is done by a task of its own.
    """

    handles = (
        AcknowledgeFrame,
        DeliveryReadyFrame,
        FunctionCallResultFrame,
        FunctionCallsStartedFrame,
        LLMContextFrame,
        LLMContextUserTurnFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMServiceMetadataFrame,
        LLMTextFrame,
        OperationCorrectedFrame,
        TTSAudioRawFrame,
        TTSSpeakFrame,
        UserIdleTimeoutUpdateFrame,
        UserStartedSpeakingFrame,
        UserStoppedSpeakingFrame,
        VADUserStartedSpeakingFrame,
        VADUserStoppedSpeakingFrame,
    )

    def __init__(
        self,
        *,
        clocks: CallClocks,
        desk: DeliveryDesk,
        rights: TellingRights,
        wording: Wording,
        context: ContextEditor,
        course: TellingCourse,
        live_state: LiveState,
        progress: ProgressSpeech,
        keep_alive: KeepAlive,
        greeting_timeout_secs: float,
        caller_said: Callable[[str], None],
        correction: Callable[[Operation], Envelope],
        **kwargs: Any,
    ):
        """Initialize the gate.

        Args:
            clocks: The clocks of the call; the gate feeds those of caller and response.
            desk: The deliveries.
            rights: Told what was given up.
            wording: What is said.
            context: The model's context.
            course: The telling in flight.
            live_state: What the model is shown while the caller has the turn.
            progress: What there is to say about work that goes on.
            keep_alive: Keeps idle timers quiet.
            greeting_timeout_secs: Seconds from the start after which what an earlier call left is told
                although the bot has not said anything yet.
            caller_said: Called with the words of each turn of the caller; must not block.
            correction: Builds the delivery that corrects a failure that was told.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._clocks = clocks
        self._desk = desk
        self._rights = rights
        self._wording = wording
        self._context = context
        self._course = course
        self._live_state = live_state
        self._progress = progress
        self._keep_alive = keep_alive
        self._caller_said = caller_said
        self._correction = correction
        self._greeting_timeout_secs = greeting_timeout_secs
        self._started_at = 0.0
        self._realtime: RealtimeConversation | None = None
        self._line = False
        self._dropping = False
        self._spoke_before: dict[str, bool] = {}
        self._wake = asyncio.Event()
        self._watch_task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        clocks.on_change = self._wake.set

    async def cleanup(self) -> None:
        """Stop deciding, and leave a telling in flight with what was heard of it."""
        self._stop_watching()
        self._course.close()
        self.closed.set()
        await super().cleanup()

    async def take_in(self, envelope: Envelope) -> None:
        """Take in a delivery, from its batch or from an earlier call."""
        envelope = self._desk.add(envelope)
        if envelope.quiet:
            await self._note_quiet(envelope)
        self._wake.set()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Keep the clocks of caller and response; pass frames at once."""
        await super().process_frame(frame, direction)
        now = _now()
        if direction is FrameDirection.UPSTREAM:
            if isinstance(frame, LLMContextFrame):
                self._clocks.response.requested(now)
            await self.push_frame(frame, direction)
        elif isinstance(frame, DeliveryReadyFrame):
            await self.take_in(frame.envelope)
        elif isinstance(frame, OperationCorrectedFrame):
            self._desk.correct(frame.operation, lambda: self._correction(frame.operation))
        elif isinstance(frame, AcknowledgeFrame):
            await self._acknowledge(frame, now)
        elif isinstance(frame, LLMTextFrame):
            await self._pass_words(frame, now)
        elif isinstance(frame, LLMFullResponseStartFrame):
            await self._pass_response_start(frame, now)
        elif isinstance(frame, LLMFullResponseEndFrame):
            await self._pass_response_end(frame, now)
        else:
            await self._note(frame, now)
            await self.push_frame(frame, direction)
            await self._follow_lifecycle(frame)
        self._wake.set()

    async def _note(self, frame: Frame, now: float) -> None:
        caller = self._clocks.caller
        if isinstance(frame, VADUserStartedSpeakingFrame):
            caller.vad_started(now)
            await self._caller_was_first(now)
            if caller.turn_is_open and (self._course.caller_speaks_on(now) or self._says_a_line(now)):
                self._dropping = bool(self._course.telling and self._course.telling.is_responding)
                await self._silence_voice(now)
        elif isinstance(frame, VADUserStoppedSpeakingFrame):
            caller.vad_stopped(now)
        elif isinstance(frame, UserStartedSpeakingFrame):
            caller.turn_started(now)
            await self._caller_was_first(now)
        elif isinstance(frame, UserStoppedSpeakingFrame):
            caller.turn_stopped(now)
        elif isinstance(frame, LLMContextUserTurnFrame):
            caller.said_words(now)
            self._caller_said(frame.text)
            await self._caller_was_first(now)
        elif isinstance(frame, TTSSpeakFrame):
            self._clocks.playback.handed_over(now)
        elif isinstance(frame, TTSAudioRawFrame):
            self._note_own_voice(frame)
        elif isinstance(frame, LLMServiceMetadataFrame):
            self._meet(frame)
        elif isinstance(frame, FunctionCallsStartedFrame):
            for call in frame.function_calls:
                self._spoke_before[call.tool_call_id] = self._clocks.response.spoke
        elif isinstance(frame, InterruptionFrame):
            self._interrupted(now)
        elif isinstance(frame, UserIdleTimeoutUpdateFrame):
            self._keep_alive.user_idle_timeout_set(frame.timeout)

    def _meet(self, service: LLMServiceMetadataFrame) -> None:
        if not service.is_realtime_service or self._realtime is not None:
            return
        self._realtime = RealtimeConversation(self._context.push, self.push_frame, self._wording.put_off())
        self._context = self._realtime
        self._course.speak_through(self._realtime)
        self._clocks.speech_to_speech()
        self._desk.has_voice = False

    def _note_own_voice(self, frame: TTSAudioRawFrame) -> None:
        # Audio that passes here was not made by a voice: that stands behind the gate.
        telling = self._course.telling
        if telling and telling.is_responding:
            self._clocks.hearing.generated_audio(frame.num_frames / frame.sample_rate)

    async def _follow_lifecycle(self, frame: Frame) -> None:
        if isinstance(frame, FunctionCallResultFrame):
            if self._realtime and await self._realtime.answered(frame.tool_call_id):
                self._clocks.response.requested(_now())
        elif isinstance(frame, StartFrame):
            self._started_at = _now()
            self._watch_task = asyncio.create_task(self._watch(), name=f"{self}::watch")
        elif isinstance(frame, (EndFrame, CancelFrame)):
            if isinstance(frame, CancelFrame):
                # The output drops what it has not played: the word that just began was cut off.
                self._clocks.hearing.interrupted(_now())
            self._stop_watching()

    # Responses on their way to the voice

    async def _pass_response_start(self, frame: LLMFullResponseStartFrame, now: float) -> None:
        # An update has answered this silence already: Pipecat's prompt for an empty turn is one too many.
        self._dropping = self._is_prompt_after_update(now)
        self._clocks.response.started(now)
        await self._course.response_started(now)
        await self.push_frame(frame)

    def _is_prompt_after_update(self, now: float) -> bool:
        caller, telling = self._clocks.caller, self._course.telling
        if telling is not None and telling.awaits_response:
            return False
        told = self._course.told_in_silence == caller.turn_id
        return told and caller.was_just_empty(now) and not self._clocks.response.is_requested

    async def _pass_words(self, frame: LLMTextFrame, now: float) -> None:
        telling = self._course.telling
        if telling and telling.is_responding and self._clocks.caller.is_speaking(now):
            await self._caller_was_first(now)
        if self._dropping:
            return
        await self._course.words(frame.text, now)
        if frame.text.strip():
            self._line = False
            self._clocks.response.words(now)
            self._clocks.caller.answered()
            self._clocks.playback.handed_over(now)
        await self.push_frame(frame)
        await self._course.words_passed()

    async def _pass_response_end(self, frame: LLMFullResponseEndFrame, now: float) -> None:
        self._clocks.response.ended(now)
        if self._clocks.response.has_words and not self._dropping:
            self._clocks.playback.expect(frame.id, now)
        self._dropping = False
        telling = await self._course.response_ended(now)
        await self.push_frame(frame)
        if telling:
            await self.push_frame(TellingEndedFrame(telling.evidence.telling_id))

    async def _acknowledge(self, frame: AcknowledgeFrame, now: float) -> None:
        self._clocks.caller.answered()
        if any(self._spoke_before.get(call_id) for call_id in frame.call_ids):
            return
        if self._clocks.caller.is_speaking(now):
            # The caller took the turn: its answer finds the acceptance in the context.
            return
        if self._realtime:
            self._realtime.acknowledge(frame.call_ids)
        else:
            await self._say(self._wording.acknowledgement(frame.tools), now)

    async def _say(self, text: str, now: float) -> None:
        self._line = True
        self._clocks.playback.handed_over(now)
        await self.push_frame(TTSSpeakFrame(text))

    def _says_a_line(self, now: float) -> bool:
        """Whether a line of our own, that work has begun or goes on, may be heard or on its way."""
        self._line = self._line and self._clocks.playback.is_busy(now)
        return self._line

    # The moment

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_SECS if self._is_open else None)
            self._wake.clear()
            await self._decide()

    @property
    def _is_busy(self) -> bool:
        return self._desk.has_open or self._clocks.operations.alive > 0

    @property
    def _is_open(self) -> bool:
        waiting = self._live_state.is_shown or self._keep_alive.is_holding
        return self._is_busy or waiting or self._course.telling is not None

    async def _decide(self) -> None:
        now = _now()
        for frame in self._keep_alive.frames(now, busy=self._is_busy):
            await self.push_frame(frame, FrameDirection.UPSTREAM)
        free = await self._course.advance()
        if self._realtime is None:
            await self._live_state.update(self._clocks.channel(now))
        due = await self._due()
        if not free and not self._goes_first(due):
            return
        waiting = self._course.telling
        if due.tell and due.interrupt:
            await self._cut_off(now)
        elif due.tell and waiting is not None:
            # What only waits for an answer gives way; it is seen to at once.
            waiting.withdraw()
            self._wake.set()
        elif due.tell:
            await self._course.begin(due, self._due)
        elif self._realtime is not None:
            # Its answers are its own, and it has no other voice for a line of progress.
            return
        elif due.join and free:
            await self._course.join(due.join)
        elif line := self._progress_due(now):
            await self._say(line, now)

    def _goes_first(self, due: Due) -> bool:
        """Whether something urgent cuts off the telling in flight."""
        telling = self._course.telling
        if telling is None or not due.interrupt or not telling.interruptible:
            return False
        return all(delivery.priority != "urgent" for delivery in telling.deliveries)

    async def _cut_off(self, now: float) -> None:
        await self.broadcast_interruption()
        # Not only when the frame comes round: what is told next must not wait for it.
        self._clocks.response.interrupted(now)
        self._clocks.playback.interrupted(now)
        self._course.interrupted(now)

    def _progress_due(self, now: float) -> str:
        if self._course.telling is not None or self._desk.has_open:
            return ""
        channel = self._clocks.channel(now)
        return self._progress.due(channel, now, bot_spoke_at=self._clocks.playback.audible_until)

    async def _due(self) -> Due:
        now = _now()
        greeted = (
            self._clocks.playback.audible_until > 0 or now - self._started_at >= self._greeting_timeout_secs
        )
        turn_id = self._clocks.caller.turn_id
        due = self._desk.due(self._clocks.channel(now), now, greeted=greeted, turn_id=turn_id)
        for envelope in due.hushed:
            await self._note_quiet(envelope)
        for envelope in due.suppressed:
            self._rights.suppress(envelope)
            if envelope.told:
                await self._context.note(envelope, self._wording.note(envelope.told))
        return due

    async def _note_quiet(self, envelope: Envelope) -> None:
        callbacks = () if envelope.told else envelope.callbacks
        await self._context.note(replace(envelope, callbacks=callbacks), self._wording.note(envelope.quiet))

    async def _caller_was_first(self, now: float) -> None:
        """Withdraw a telling of which nothing was heard yet."""
        telling = self._course.caller_was_first()
        if telling is None:
            return
        self._dropping = telling.is_responding
        if telling.text.strip():
            # Its words are with the voice already, and not every turn start interrupts.
            await self._silence_voice(now)

    async def _silence_voice(self, now: float) -> None:
        await self.push_frame(InterruptionFrame())
        self._clocks.playback.interrupted(now)

    def _interrupted(self, now: float) -> None:
        self._clocks.interrupted(now)
        self._dropping = False
        self._course.interrupted(now)

    def _stop_watching(self) -> None:
        if self._watch_task:
            self._watch_task.cancel()
            self._watch_task = None


def _now() -> float:
    return asyncio.get_running_loop().time()
