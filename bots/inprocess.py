# SPDX-License-Identifier: BSD-2-Clause
"""A phone line inside this process: the caller's recordings in, the bot's voice out, both at real-time pace.

What each side hears is written down by the clock of the line, so the recording shows who spoke when. The
caller's side sends silence while nobody speaks, as a real line does.
"""

import asyncio
import math
import time
import wave
from collections import deque
from pathlib import Path

import numpy as np
from pipecat.frames.frames import CancelFrame, EndFrame, InputAudioRawFrame, OutputAudioRawFrame, StartFrame
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import BaseTransport, TransportParams

SAMPLE_RATE = 16_000
FRAME_SECS = 0.02
FRAME_BYTES = int(SAMPLE_RATE * FRAME_SECS) * 2
AUDIBLE = 300
"""Peak amplitude, of 32767, from which a frame counts as sound."""

PAUSE_SECS = 0.6
"""A silence this long separates two utterances."""

Span = tuple[float, float]


def audible(pcm: bytes) -> bool:
    """Whether 16-bit PCM holds anything that a listener would hear."""
    return bool(pcm) and int(np.abs(np.frombuffer(pcm, np.int16).astype(np.int32)).max()) >= AUDIBLE


def utterances(pcm: bytes) -> list[Span]:
    """Where a channel has sound, with pauses shorter than ``PAUSE_SECS``.

    Args:
        pcm: 16-bit mono PCM at ``SAMPLE_RATE``.

    Returns:
        Start and end of each utterance, in seconds.
    """
    found: list[Span] = []
    for offset in range(0, len(pcm), FRAME_BYTES):
        start = offset / 2 / SAMPLE_RATE
        if not audible(pcm[offset : offset + FRAME_BYTES]):
            continue
        if found and start - found[-1][1] < PAUSE_SECS:
            found[-1] = (found[-1][0], start + FRAME_SECS)
        else:
            found.append((start, start + FRAME_SECS))
    return found


class Line:
    """What was sent over the line in both directions, by the line's own clock.

    Parameters:
        caller: The caller's side, 16-bit mono PCM.
        bot: The bot's side.
        bot_began_at: When the bot's last utterance began, in seconds on this line.
    """

    def __init__(self):
        """Initialize the line; its clock starts with the first sound or silence."""
        self.caller = bytearray()
        self.bot = bytearray()
        self.bot_began_at = 0.0
        self._bot_heard_until = -math.inf
        self._started_at: float | None = None
        self._to_say: deque[bytes] = deque()

    @property
    def now(self) -> float:
        """Seconds since the line was opened."""
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at

    def open(self) -> None:
        """Start the line's clock."""
        self._started_at = time.monotonic()

    def secs(self, monotonic: float) -> float:
        """A reading of ``time.monotonic()`` as seconds on this line."""
        return monotonic - (self._started_at or monotonic)

    @property
    def bot_quiet_secs(self) -> float:
        """For how long the bot has not been heard."""
        return max(0.0, self.now - self._bot_heard_until)

    @property
    def bot_talking_secs(self) -> float:
        """For how long the bot has been heard without a pause; 0 while it is quiet."""
        return 0.0 if self.bot_quiet_secs >= PAUSE_SECS else self.now - self.bot_began_at

    @property
    def caller_is_talking(self) -> bool:
        """Whether some of what the caller says is still to be sent."""
        return bool(self._to_say)

    def say(self, recording: Path) -> None:
        """Let the caller say a recording.

        Args:
            recording: A 16 kHz mono 16-bit wav file.
        """
        with wave.open(str(recording)) as sound:
            pcm = sound.readframes(sound.getnframes())
        frames = [pcm[at : at + FRAME_BYTES] for at in range(0, len(pcm), FRAME_BYTES)]
        self._to_say.extend(frame.ljust(FRAME_BYTES, b"\0") for frame in frames)

    def next_caller_frame(self) -> bytes:
        """Take the next 20 ms of the caller's side."""
        frame = self._to_say.popleft() if self._to_say else bytes(FRAME_BYTES)
        self.caller += frame
        return frame

    def hear_bot(self, pcm: bytes, at: float) -> None:
        """Write down what the caller hears of the bot.

        Args:
            pcm: 16-bit mono PCM at ``SAMPLE_RATE``.
            at: Where it starts, in seconds on this line.
        """
        offset = round(at * SAMPLE_RATE) * 2
        self.bot += bytes(max(0, offset - len(self.bot)))
        self.bot[offset : offset + len(pcm)] = pcm
        if audible(pcm):
            if at - self._bot_heard_until >= PAUSE_SECS:
                self.bot_began_at = at
            self._bot_heard_until = at + len(pcm) / 2 / SAMPLE_RATE

    def write_wav(self, path: Path) -> None:
        """Write both sides as a stereo wav, the caller left and the bot right."""
        size = max(len(self.caller), len(self.bot))
        sides = [np.frombuffer(bytes(side).ljust(size, b"\0"), np.int16) for side in (self.caller, self.bot)]
        with wave.open(str(path), "wb") as sound:
            sound.setnchannels(2)
            sound.setsampwidth(2)
            sound.setframerate(SAMPLE_RATE)
            sound.writeframes(np.column_stack(sides).tobytes())


class InProcessInput(BaseInputTransport):
    """The caller's side: a frame every 20 ms."""

    def __init__(self, line: Line, params: TransportParams, **kwargs):
        """Initialize the caller's side.

        Args:
            line: The line.
            params: Transport parameters.
            **kwargs: Passed to ``BaseInputTransport``.
        """
        super().__init__(params, **kwargs)
        self._line = line
        self._talking: asyncio.Task | None = None

    async def start(self, frame: StartFrame):
        """Open the line."""
        await super().start(frame)
        self._line.open()
        await self.set_transport_ready(frame)
        self._talking = self.create_task(self._talk())

    async def stop(self, frame: EndFrame):
        """Close the line."""
        await self._hang_up()
        await super().stop(frame)

    async def cancel(self, frame: CancelFrame):
        """Close the line."""
        await self._hang_up()
        await super().cancel(frame)

    async def _hang_up(self):
        if self._talking:
            await self.cancel_task(self._talking)
            self._talking = None

    async def _talk(self):
        sent = 0
        while True:
            frame = self._line.next_caller_frame()
            await self.push_audio_frame(InputAudioRawFrame(frame, SAMPLE_RATE, 1))
            sent += 1
            await asyncio.sleep(max(0.0, sent * FRAME_SECS - self._line.now))


class InProcessOutput(BaseOutputTransport):
    """The bot's side: takes audio as fast as it is heard, and no faster."""

    def __init__(self, line: Line, params: TransportParams, **kwargs):
        """Initialize the bot's side.

        Args:
            line: The line.
            params: Transport parameters.
            **kwargs: Passed to ``BaseOutputTransport``.
        """
        super().__init__(params, **kwargs)
        self._line = line
        self._heard_until = 0.0

    async def start(self, frame: StartFrame):
        """Be ready to speak."""
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        """Let the caller hear a chunk, and return when it was heard.

        Args:
            frame: The chunk.

        Returns:
            True.
        """
        start = max(self._line.now, self._heard_until)
        self._line.hear_bot(frame.audio, start)
        self._heard_until = start + len(frame.audio) / 2 / SAMPLE_RATE
        await asyncio.sleep(self._heard_until - self._line.now)
        return True


class InProcessTransport(BaseTransport):
    """A transport over a ``Line``."""

    def __init__(self, line: Line):
        """Initialize the transport.

        Args:
            line: The line.
        """
        super().__init__()
        params = TransportParams(
            audio_in_enabled=True,
            audio_in_sample_rate=SAMPLE_RATE,
            audio_out_enabled=True,
            audio_out_sample_rate=SAMPLE_RATE,
            audio_out_10ms_chunks=2,
            audio_out_end_silence_secs=0,
        )
        self._line = line
        self._input = InProcessInput(line, params)
        self._output = InProcessOutput(line, params)

    def input(self) -> InProcessInput:
        """The caller's side."""
        return self._input

    def output(self) -> InProcessOutput:
        """The bot's side."""
        return self._output
