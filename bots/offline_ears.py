# SPDX-License-Identifier: BSD-2-Clause
"""Speech recognition without a network: pocketsphinx with a grammar of what the demo's caller says."""

import asyncio
from collections.abc import AsyncGenerator

from pipecat.frames.frames import Frame, TranscriptionFrame
from pipecat.services.settings import STTSettings
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.utils.time import time_now_iso8601
from pocketsphinx import Decoder

SAMPLE_RATE = 16_000

PHRASES = (
    "have you got my record and is there anything free on thursday",
    "hold on a second please",
    "how far are you",
    "please book ten o'clock on thursday",
    "please forget about it",
    "thank you for your help",
)


def grammar(phrases: tuple[str, ...] = PHRASES) -> str:
    """The phrases as a JSGF grammar."""
    return f"#JSGF V1.0;\ngrammar caller;\npublic <phrase> = {' | '.join(phrases)};\n"


class Recogniser:
    """One pocketsphinx decoder. It is not thread-safe: one call at a time."""

    def __init__(self, phrases: tuple[str, ...] = PHRASES):
        """Load the acoustic model and the grammar.

        Args:
            phrases: All that can be recognised.
        """
        self._decoder = Decoder(lm=None, samprate=float(SAMPLE_RATE), loglevel="FATAL")
        self._decoder.add_jsgf_string("caller", grammar(phrases))
        self._decoder.activate_search("caller")

    def transcribe(self, pcm: bytes) -> str:
        """The phrase in 16-bit mono PCM at ``SAMPLE_RATE``, or an empty string."""
        self._decoder.start_utt()
        self._decoder.process_raw(pcm, full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr if hypothesis else ""


class PocketsphinxSTTService(SegmentedSTTService):
    """Transcribes each segment that the VAD cut out, in a thread."""

    def __init__(self, **kwargs):
        """Initialize the service.

        Args:
            **kwargs: Passed to ``SegmentedSTTService``.
        """
        super().__init__(
            sample_rate=SAMPLE_RATE,
            ttfs_p99_latency=0.3,
            settings=STTSettings(model="pocketsphinx", language=None),
            **kwargs,
        )
        self._recogniser = Recogniser()

    @property
    def wants_wav_segments(self) -> bool:
        """Segments come as raw PCM."""
        return False

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        """Transcribe one segment.

        Args:
            audio: 16-bit mono PCM.

        Yields:
            One transcription, or nothing when no phrase was recognised.
        """
        text = await asyncio.to_thread(self._recogniser.transcribe, audio)
        if text:
            yield TranscriptionFrame(text, self._user_id, time_now_iso8601())
