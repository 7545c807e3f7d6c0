# SPDX-License-Identifier: BSD-2-Clause
"""The voice: a TTS service whose audio can be read back, word by word.

Each word the voice speaks gets a number, and its audio is that number, held as the sample value for as
long as the word takes. So the far end of the line knows which words were audible from the audio alone,
whatever the frames around it claim.
"""

from __future__ import annotations

import array
import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from typing import Literal

from pipecat.frames.frames import Frame, TTSAudioRawFrame
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService

VoiceKind = Literal["words", "sentences", "silent"]

MAX_WORDS = 32767
BYTES_PER_SAMPLE = 2


class WordTape:
    """The words of one call, numbered from 1, with the seconds each takes. Number 0 is silence."""

    def __init__(self) -> None:
        self._words: list[tuple[str, float]] = []

    def record(self, word: str, secs: float, sample_rate: int) -> bytes:
        """Give a word the next number.

        Args:
            word: The word.
            secs: How long it takes to say.
            sample_rate: Samples a second of the audio.

        Returns:
            The word's audio: mono, 16 bit.
        """
        self._words.append((word, secs))
        if len(self._words) > MAX_WORDS:
            raise OverflowError(f"a call can have {MAX_WORDS} spoken words")
        return array.array("h", [len(self._words)]).tobytes() * round(secs * sample_rate)

    def read(self, audio: bytes) -> Iterator[tuple[int, int]]:
        """The numbers of the words in a piece of audio, in order, with the samples each lasts."""
        for number, samples in itertools.groupby(array.array("h", audio)):
            yield number, sum(1 for _ in samples)

    def word(self, number: int) -> str:
        """The word with a number."""
        return self._words[number - 1][0]

    def secs(self, number: int) -> float:
        """How long the word with a number takes, in seconds."""
        return self._words[number - 1][1]


class ScriptedVoice(TTSService):
    """A TTS service that takes a fixed time for every word.

    Args:
        kind: "words" reports when each word is said, "sentences" hands over a sentence's text after its
            audio, "silent" accepts the text and never makes a sound.
        secs_per_word: Seconds a word takes to say.
        first_audio_secs: Seconds until the audio of a sentence is there.
    """

    def __init__(
        self,
        kind: VoiceKind = "words",
        *,
        secs_per_word: float = 0.3,
        first_audio_secs: float = 0.0,
    ):
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            name="ScriptedVoice",
            push_text_frames=kind != "words",
            push_start_frame=True,
            push_stop_frames=True,
            settings=TTSSettings(model="scripted", voice=kind, language=None),
        )
        self.kind: VoiceKind = kind
        self.secs_per_word = secs_per_word
        self.first_audio_secs = first_audio_secs
        self.tape = WordTape()
        self._context_id = ""
        self._context_secs = 0.0

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        """Speak a sentence.

        Args:
            text: The sentence.
            context_id: The audio context it belongs to.

        Yields:
            The audio, a frame for each word.
        """
        if self.kind == "silent":
            return
        if self.first_audio_secs:
            await asyncio.sleep(self.first_audio_secs)
        for word in text.split():
            audio = self.tape.record(word, self.secs_per_word, self.sample_rate)
            yield TTSAudioRawFrame(audio, self.sample_rate, 1, context_id=context_id)
            if self.kind == "words":
                await self.add_word_timestamps([(word, self._next_word_at(context_id))], context_id)

    def _next_word_at(self, context_id: str) -> float:
        """Where the next word starts, in seconds from the start of the audio context."""
        if context_id != self._context_id:
            self._context_id, self._context_secs = context_id, 0.0
        starts_at = self._context_secs
        self._context_secs += self.secs_per_word
        return starts_at
