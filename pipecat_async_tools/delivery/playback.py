# SPDX-License-Identifier: BSD-2-Clause
"""``PlaybackTracker``: stands behind the output and sees what was really played."""

from __future__ import annotations

import asyncio
from typing import Any

from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallResultProperties,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    OutputTransportMessageUrgentFrame,
    SpeechOutputAudioRawFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.processors.frame_processor import FrameCallback, FrameDirection
from pipecat.utils.string import TextPartForConcatenation

from pipecat_async_tools.delivery.clocks import CallClocks
from pipecat_async_tools.delivery.marks import CarrierMarks
from pipecat_async_tools.frames import TellingEndedFrame, TellingStartedFrame
from pipecat_async_tools.processor import PassingProcessor

_BYTES_PER_SAMPLE = 2


class PlaybackTracker(PassingProcessor):
    """Feeds the playback clock and the evidence of the telling in flight."""

    handles = (
        AggregatedTextFrame,
        BotStartedSpeakingFrame,
        BotStoppedSpeakingFrame,
        FunctionCallCancelFrame,
        FunctionCallInProgressFrame,
        LLMFullResponseEndFrame,
        TellingEndedFrame,
        TellingStartedFrame,
        TTSStartedFrame,
        TTSStoppedFrame,
    )

    def __init__(self, *, clocks: CallClocks, **kwargs: Any):
        """Initialize the tracker.

        Args:
            clocks: The clocks of the call.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._clocks = clocks
        self._cancelled: dict[str, FunctionCallCancelFrame] = {}
        self._last_pts: int | None = None

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: FrameCallback | None = None,
    ) -> None:
        """Note audio in passing, for it is by far the most frequent frame; handle or pass the others."""
        if isinstance(frame, (TTSAudioRawFrame, SpeechOutputAudioRawFrame)):
            self._note_audio(frame, asyncio.get_running_loop().time())
            telling = self._clocks.hearing.telling
            if telling and telling.marks and telling.wants_mark():
                await self._ask_carrier(telling.marks, telling.mark())
        await super().queue_frame(frame, direction, callback)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note what was played; pass everything but our own marks."""
        await super().process_frame(frame, direction)
        if direction is FrameDirection.DOWNSTREAM:
            self._note(frame, asyncio.get_running_loop().time())
            await self._mark(frame)
        if not isinstance(frame, (TellingStartedFrame, TellingEndedFrame)):
            await self.push_frame(frame, direction)
        if isinstance(frame, FunctionCallInProgressFrame):
            await self._end_overtaken(frame)

    async def _mark(self, frame: Frame) -> None:
        """Ask the carrier, if there is one, to say when everything before this frame was played."""
        playback, telling = self._clocks.playback, self._clocks.hearing.telling
        marks = playback.marks
        if marks is None:
            return
        if isinstance(frame, TellingEndedFrame) and telling and telling.telling_id == frame.telling_id:
            await self._ask_carrier(marks, telling.mark())
        elif isinstance(frame, TTSStoppedFrame):
            loop = asyncio.get_running_loop()
            name = marks.place(playback.audible_until, lambda: playback.played(loop.time()))
            await self._ask_carrier(marks, name)

    async def _ask_carrier(self, marks: CarrierMarks, name: str) -> None:
        # It goes out at once, right behind the audio that has just left the output.
        message = OutputTransportMessageUrgentFrame(message=marks.message(name))
        await self.push_frame(message, FrameDirection.UPSTREAM)

    def _note_audio(self, frame: TTSAudioRawFrame | SpeechOutputAudioRawFrame, now: float) -> None:
        # Not every audio frame is speech: a mixer's background never ends.
        duration = len(frame.audio) / (_BYTES_PER_SAMPLE * frame.num_channels * frame.sample_rate)
        self._clocks.playback.audio(duration, now)
        self._clocks.hearing.audio(duration, now)

    def _note(self, frame: Frame, now: float) -> None:
        hearing = self._clocks.hearing
        if isinstance(frame, TTSTextFrame):
            text = TextPartForConcatenation(
                frame.text, includes_inter_part_spaces=frame.includes_inter_frame_spaces
            )
            untold = bool(frame.pts) and frame.pts == self._last_pts
            self._last_pts = frame.pts
            hearing.words(frame.context_id, text, timed=bool(frame.pts), now=now, untold_time=untold)
            return
        if isinstance(frame, AggregatedTextFrame):
            if frame.will_be_spoken:
                hearing.announced(frame.context_id, frame.raw_text or frame.text)
            return
        self._note_change(frame, now)
        self._clocks.on_change()

    def _note_change(self, frame: Frame, now: float) -> None:
        playback, hearing = self._clocks.playback, self._clocks.hearing
        if isinstance(frame, BotStartedSpeakingFrame):
            playback.bot_started(now)
        elif isinstance(frame, BotStoppedSpeakingFrame):
            playback.bot_stopped(now)
        elif isinstance(frame, LLMFullResponseEndFrame):
            playback.arrived(frame.id)
        elif isinstance(frame, TTSStartedFrame):
            hearing.context_started(frame.context_id)
        elif isinstance(frame, TTSStoppedFrame):
            hearing.context_stopped()
        elif isinstance(frame, TellingStartedFrame):
            hearing.entered(frame.telling_id)
        elif isinstance(frame, TellingEndedFrame):
            hearing.ended(frame.telling_id)
        elif isinstance(frame, InterruptionFrame):
            playback.interrupted(now)
            hearing.interrupted(now)
        elif isinstance(frame, FunctionCallCancelFrame):
            self._cancelled[frame.tool_call_id] = frame

    async def _end_overtaken(self, frame: FunctionCallInProgressFrame) -> None:
        # A cancel is a system frame and overtakes the in-progress frame of its call, which waits
        # behind the audio: the call would then count as running for ever. A second cancel would
        # overtake it again, a result cannot.
        cancel = self._cancelled.pop(frame.tool_call_id, None)
        if cancel is not None:
            await self.push_frame(
                FunctionCallResultFrame(
                    function_name=cancel.function_name,
                    tool_call_id=cancel.tool_call_id,
                    arguments=frame.arguments,
                    result="CANCELLED",
                    properties=FunctionCallResultProperties(run_llm=cancel.run_llm),
                )
            )
