# SPDX-License-Identifier: BSD-2-Clause
"""The far end of the line: an output transport that knows which words were heard, and when."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from pipecat.frames.frames import (
    CancelFrame,
    Frame,
    InterruptionFrame,
    OutputAudioRawFrame,
    StartFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams

from pipecat_async_tools.testing.voice import BYTES_PER_SAMPLE, WordTape

OutputKind = Literal["paced", "unpaced"]

HEARD_SHARE = 0.8
"""A word counts as heard when this much of its audio was played."""

UTTERANCE_GAP_SECS = 0.2
"""A longer silence than this ends an utterance."""

ROUNDING_SECS = 1e-6


@dataclass
class Utterance:
    """Bot speech without a pause in it, as it came out at the far end.

    Parameters:
        started_at: When its first audio was played, in seconds of the call.
        ended_at: When its last audio was played.
        text: The words that were heard.
    """

    started_at: float
    ended_at: float
    text: str


@dataclass
class _Sound:
    number: int
    started_at: float
    ended_at: float


class FarEnd:
    """What the person at the far end hears.

    Args:
        tape: The words behind the audio.
    """

    def __init__(self, tape: WordTape):
        self._tape = tape
        self._sounds: list[_Sound] = []

    def play(self, audio: bytes, sample_rate: int, started_at: float) -> None:
        """Play a piece of audio.

        Args:
            audio: The audio: mono, 16 bit.
            sample_rate: Its samples a second.
            started_at: When it starts to play.
        """
        for number, samples in self._tape.read(audio):
            ended_at = started_at + samples / sample_rate
            if number:
                self._add(_Sound(number, started_at, ended_at))
            started_at = ended_at

    def cut(self, at: float) -> None:
        """Drop whatever would play after a moment."""
        self._sounds = [sound for sound in self._sounds if sound.started_at < at]
        for sound in self._sounds:
            sound.ended_at = min(sound.ended_at, at)

    def utterances(self, until: float) -> list[Utterance]:
        """What was played until a moment, in order."""
        heard = self._heard(until)
        groups: list[list[_Sound]] = []
        for sound in self._sounds:
            if sound.started_at >= until:
                break
            if not groups or sound.started_at - groups[-1][-1].ended_at > UTTERANCE_GAP_SECS:
                groups.append([])
            groups[-1].append(sound)
        return [
            Utterance(
                started_at=sounds[0].started_at,
                ended_at=min(sounds[-1].ended_at, until),
                text=" ".join(self._tape.word(number) for number in _numbers(sounds) if number in heard),
            )
            for sounds in groups
        ]

    def _add(self, sound: _Sound) -> None:
        last = self._sounds[-1] if self._sounds else None
        if last and last.number == sound.number and sound.started_at - last.ended_at < ROUNDING_SECS:
            last.ended_at = sound.ended_at
        else:
            self._sounds.append(sound)

    def _heard(self, until: float) -> set[int]:
        played: dict[int, float] = defaultdict(float)
        for sound in self._sounds:
            played[sound.number] += max(0.0, min(sound.ended_at, until) - sound.started_at)
        share = HEARD_SHARE - ROUNDING_SECS
        return {number for number, secs in played.items() if secs >= share * self._tape.secs(number)}


class PacedOutput(BaseOutputTransport):
    """An output transport on the virtual clock.

    Args:
        tape: The words behind the audio, from the voice.
        kind: "paced" writes as fast as the audio plays; "unpaced" writes at once, and the far end plays
            it from a buffer of its own.
        clears_on_interruption: Whether an interruption empties that buffer.
    """

    def __init__(
        self,
        tape: WordTape,
        kind: OutputKind = "paced",
        *,
        clears_on_interruption: bool = True,
    ):
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            TransportParams(audio_out_enabled=True), name="PacedOutput"
        )
        self.kind: OutputKind = kind
        self.far_end = FarEnd(tape)
        self._clears_on_interruption = clears_on_interruption
        self._buffered_until = 0.0

    async def start(self, frame: StartFrame) -> None:
        """Get ready to play audio."""
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def cancel(self, frame: CancelFrame) -> None:
        """Hang up: nobody hears what is left."""
        await super().cancel(frame)
        self._drop_unplayed()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Empty the far end's buffer at an interruption; the base class does the rest."""
        clears = self.kind == "unpaced" and self._clears_on_interruption
        if clears and isinstance(frame, InterruptionFrame):
            self._drop_unplayed()
        await super().process_frame(frame, direction)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        """Play a piece of audio at the far end.

        Args:
            frame: The audio.
        """
        if self.kind == "paced":
            await self._play_now(frame)
        else:
            self._play_from_buffer(frame)
        return True

    async def _play_now(self, frame: OutputAudioRawFrame) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        self.far_end.play(frame.audio, frame.sample_rate, started_at)
        await asyncio.sleep(_secs(frame))

    def _play_from_buffer(self, frame: OutputAudioRawFrame) -> None:
        started_at = max(asyncio.get_running_loop().time(), self._buffered_until)
        self.far_end.play(frame.audio, frame.sample_rate, started_at)
        self._buffered_until = started_at + _secs(frame)

    def _drop_unplayed(self) -> None:
        self._buffered_until = asyncio.get_running_loop().time()
        self.far_end.cut(self._buffered_until)


def _numbers(sounds: list[_Sound]) -> list[int]:
    # The end of a word can wait for the words behind it to fill a piece of audio: then it has two sounds.
    return list(dict.fromkeys(sound.number for sound in sounds))


def _secs(frame: OutputAudioRawFrame) -> float:
    return len(frame.audio) / BYTES_PER_SAMPLE / frame.sample_rate
