# SPDX-License-Identifier: BSD-2-Clause
"""Voices without a network: flite, and a tone per word for a machine that has no flite.

Both know when each word is spoken, so an interrupted sentence leaves in the history what was heard of it.
"""

import asyncio
import math
import shutil
import tempfile
import wave
from abc import abstractmethod
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from loguru import logger
from pipecat.audio.utils import create_file_resampler
from pipecat.frames.frames import Frame, TTSAudioRawFrame
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService

FLITE_MISSING = "flite is not installed: speaking in tones instead (apt-get install flite for a voice)"
FLITE_VOICE = "slt"
FLITE_PAUSE = "pau"


class Speech(NamedTuple):
    """A sentence as sound.

    Parameters:
        pcm: 16-bit mono PCM.
        sample_rate: Samples per second.
        word_times: Each word and its start in seconds; empty when it is not known.
    """

    pcm: bytes
    sample_rate: int
    word_times: list[tuple[str, float]]


class OfflineTTSService(TTSService):
    """Speaks whole sentences that a subclass synthesises on this machine."""

    def __init__(self, *, voice: str, **kwargs):
        """Initialize the service.

        Args:
            voice: The voice's name.
            **kwargs: Passed to ``TTSService``.
        """
        super().__init__(
            push_text_frames=False,
            push_start_frame=True,
            push_stop_frames=True,
            settings=TTSSettings(model=None, voice=voice, language=None),
            **kwargs,
        )
        self._to_output_rate = create_file_resampler()
        self._spoken_secs: dict[str, float] = {}

    @abstractmethod
    async def synthesise(self, text: str) -> Speech:
        """Turn a sentence into sound.

        Args:
            text: The sentence.

        Returns:
            Its sound.
        """

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Speak a sentence.

        Args:
            text: The sentence.
            context_id: The audio context that it continues.

        Yields:
            Its audio.
        """
        speech = await self.synthesise(text)
        start = self._spoken_secs.get(context_id, 0.0)
        self._spoken_secs[context_id] = start + len(speech.pcm) / 2 / speech.sample_rate
        words = [(word, start + at) for word, at in speech.word_times]
        await self.add_word_timestamps(words, context_id)
        audio = await self._to_output_rate.resample(speech.pcm, speech.sample_rate, self.sample_rate)
        yield TTSAudioRawFrame(audio, self.sample_rate, 1, context_id=context_id)

    async def on_audio_context_interrupted(self, context_id: str):
        """Forget how far an interrupted context had come."""
        self._spoken_secs.pop(context_id, None)

    async def on_audio_context_completed(self, context_id: str):
        """Forget how far a finished context had come."""
        self._spoken_secs.pop(context_id, None)


class FliteTTSService(OfflineTTSService):
    """The voice of flite, a small synthesiser (``apt-get install flite``)."""

    def __init__(self, *, voice: str = FLITE_VOICE, **kwargs):
        """Initialize the service.

        Args:
            voice: One of the voices that ``flite -lv`` lists.
            **kwargs: Passed to ``OfflineTTSService``.
        """
        super().__init__(voice=voice, **kwargs)
        self._voice = voice

    async def synthesise(self, text: str) -> Speech:
        """Run flite on a sentence.

        Args:
            text: The sentence.

        Returns:
            Its sound, with the words' times where flite's phones can be assigned to words.
        """
        words = text.split()
        with tempfile.TemporaryDirectory(prefix="flite-") as folder:
            path = Path(folder, "speech.wav")
            timed_phones, spelt_words = await asyncio.gather(
                self._flite("-psdur", "-t", text, "-o", str(path)),
                self._flite(
                    "-ps", "-t", " ".join(f"{word.strip('.,?!;:')}." for word in words), "-o", "none"
                ),
            )
            with wave.open(str(path)) as sound:
                pcm, rate = sound.readframes(sound.getnframes()), sound.getframerate()
        return Speech(pcm, rate, word_times(words, timed_phones.split(), spelt_words.split()))

    async def _flite(self, *args: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "flite", "-voice", self._voice, *args, stdout=asyncio.subprocess.PIPE
        )
        stdout, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"flite ended with status {process.returncode}")
        return stdout.decode()


def word_times(words: list[str], timed_phones: list[str], spelt_words: list[str]) -> list[tuple[str, float]]:
    """When each word of a sentence starts.

    Args:
        words: The sentence's words.
        timed_phones: The sentence's phones as ``phone:end_secs``.
        spelt_words: The phones of the words said one by one, with a pause between two.

    Returns:
        Each word and its start in seconds, or nothing when the two do not have the same phones.
    """
    counts = [len(spelt.split()) for spelt in " ".join(spelt_words).split(FLITE_PAUSE) if spelt.strip()]
    starts, end = [], 0.0
    for timed in timed_phones:
        phone, at = timed.rsplit(":", 1)
        if phone != FLITE_PAUSE:
            starts.append(end)
        end = float(at)
    if len(counts) != len(words) or sum(counts) != len(starts):
        return []
    firsts = [sum(counts[:index]) for index in range(len(words))]
    return [(word, starts[first]) for word, first in zip(words, firsts, strict=True)]


class ToneTTSService(OfflineTTSService):
    """One tone per word, as long as the word: exact times and the same samples every run."""

    SAMPLE_RATE = 16_000
    SECS_PER_LETTER = 0.055
    GAP_SECS = 0.03
    PITCHES = (220.0, 247.0, 262.0, 294.0)

    def __init__(self, **kwargs):
        """Initialize the service.

        Args:
            **kwargs: Passed to ``OfflineTTSService``.
        """
        super().__init__(voice="tone", **kwargs)

    async def synthesise(self, text: str) -> Speech:
        """Play a sentence.

        Args:
            text: The sentence.

        Returns:
            Its tones.
        """
        samples, times, at = [], [], 0.0
        for index, word in enumerate(text.split()):
            tone = self._tone(len(word) * self.SECS_PER_LETTER + 0.1, self.PITCHES[index % len(self.PITCHES)])
            times.append((word, at))
            samples += [tone, np.zeros(int(self.GAP_SECS * self.SAMPLE_RATE), np.int16)]
            at += sum(map(len, samples[-2:])) / self.SAMPLE_RATE
        return Speech(np.concatenate(samples).tobytes(), self.SAMPLE_RATE, times)

    def _tone(self, secs: float, pitch: float) -> np.ndarray:
        moments = np.arange(int(secs * self.SAMPLE_RATE)) / self.SAMPLE_RATE
        fade = np.minimum(1.0, np.minimum(moments, moments[::-1]) / 0.01)
        return (9000 * fade * np.sin(2 * math.pi * pitch * moments)).astype(np.int16)


def offline_voice(name: str | None = None) -> OfflineTTSService:
    """The voice to use on this machine.

    Args:
        name: ``flite`` or ``tone``; None takes flite where it is installed.

    Returns:
        The text-to-speech service.
    """
    installed = shutil.which("flite") is not None
    if name != "tone" and not installed:
        logger.warning(FLITE_MISSING)
    return FliteTTSService() if installed and name != "tone" else ToneTTSService()
