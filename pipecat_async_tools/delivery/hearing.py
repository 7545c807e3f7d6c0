# SPDX-License-Identifier: BSD-2-Clause
"""How much of a telling the caller heard, from the frames that left the output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from pipecat.utils.string import TextPartForConcatenation, concatenate_aggregated_text

from pipecat_async_tools.delivery.facts import squeezed
from pipecat_async_tools.delivery.marks import CarrierMarks

# A voice context that nobody closed is taken for over after so much silence.
_OPEN_CONTEXT_SECS = 0.5
# The words of a voice keep time by themselves: so far they may be ahead of its audio.
_LATE_AUDIO_SECS = 0.05
# Nobody speaks faster: what a model says is sent word by word ahead of the sound of it.
_MOST_CHARS_PER_SEC = 25.0
# So much of a telling can be played before a carrier is asked again.
_MARK_EVERY_SECS = 0.25


@dataclass(frozen=True)
class _Words:
    text: TextPartForConcatenation
    heard_at: float
    timed: bool
    untold_time: bool = False


@dataclass
class HeardTelling:
    """The evidence for one telling.

    Parameters:
        telling_id: The telling.
        expected: Everything that was generated for it, squeezed to letters and digits.
        contexts: The TTS contexts that speak it.
        started_at: Seconds, when its first audio left the output.
        audible_until: Seconds, until when its audio is heard.
        audio_secs: How much audio left the output.
        entered: Whether its beginning left the output.
        ended: Whether everything said for it left the output.
        speaking: Whether one of its contexts is open at the output.
        interrupted_at: Seconds, when an interruption reached the output.
        interruptible: Whether an interruption cuts it off.
        text: Everything that was generated for it.
        generated_secs: How much audio the model itself generated for it; none where a voice speaks.
        marks: What the carrier says it has played; None where there is no carrier to ask.
        played_until: Seconds, until when its audio was played for sure, by the clock of `audible_until`.
    """

    telling_id: str
    interruptible: bool = True
    expected: str = ""
    contexts: set[str] = field(default_factory=set[str])
    started_at: float | None = None
    audible_until: float = 0.0
    audio_secs: float = 0.0
    entered: bool = False
    ended: bool = False
    speaking: bool = False
    interrupted_at: float | None = None
    text: str = ""
    generated_secs: float = 0.0
    marks: CarrierMarks | None = None
    played_until: float = 0.0
    _marked_secs: float = 0.0
    _words: list[_Words] = field(default_factory=list[_Words])
    _lags: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a context that begins now can be one of its own."""
        # Past parallel voices both marks arrive before anything is said.
        return self.entered and not (self.ended and self.contexts)

    def heard(self, now: float) -> str:
        """Return the words that were audible until ``now``, or until the interruption."""
        if not self.audio_secs:
            # A voice without sound still emits its text.
            return ""
        until = self._audible(now)
        over = self.interrupted_at is None and self.is_over(until)
        if self.asks_carrier:
            until = min(until, self.played_until)
        if self.generated_secs:
            return self._share_of_text(until)
        never_spoken = self._never_spoken()
        words = [w for w in self._words if (over or w.heard_at <= until) and w not in never_spoken]
        if self.interrupted_at is not None and words and words[-1].timed and not self.is_over(until):
            # A voice reports a word when it begins: the last one was cut off.
            words.pop()
        return concatenate_aggregated_text([w.text for w in words]).strip()

    def sent(self, now: float) -> str:
        """Return the words that were sent in time to be heard, whether or not a carrier played them."""
        until = self._audible(now)
        return concatenate_aggregated_text([w.text for w in self._words if w.heard_at <= until]).strip()

    def _audible(self, now: float) -> float:
        return now if self.interrupted_at is None else min(now, self.interrupted_at)

    @property
    def was_cut_short(self) -> bool:
        """Whether its voice was lost before the end: there are words, and no audio they could be in."""
        return bool(self._never_spoken())

    def _never_spoken(self) -> list[_Words]:
        # Pipecat completes the words of a voice that broke off: they come at the time of the last one.
        missing, chars = list[_Words](), 0
        for words in self._words:
            chars += len(words.text.text) if words.untold_time else 0
            if words.untold_time and self.audible_until - words.heard_at < chars / _MOST_CHARS_PER_SEC:
                missing.append(words)
        return missing

    @property
    def asks_carrier(self) -> bool:
        """Whether a phone carrier says what of it was played."""
        return self.marks is not None and self.marks.is_working

    def wants_mark(self) -> bool:
        """Whether enough of it was sent since the carrier was last asked."""
        return self.marks is not None and self.audio_secs - self._marked_secs >= _MARK_EVERY_SECS

    def mark(self) -> str:
        """Return the name of a mark to be sent behind what was sent of it."""
        assert self.marks is not None
        self._marked_secs, until = self.audio_secs, self.audible_until

        def played() -> None:
            self.played_until = max(self.played_until, until)

        return self.marks.place(until, played)

    def _share_of_text(self, until: float) -> str:
        """Return the words that go with the audio played: a model's words carry no times."""
        if self.is_over(until):
            return self.text.strip()
        played = self.audio_secs - max(0.0, self.audible_until - until)
        # While more is being generated, its words can be there and their audio not.
        total = max(self.generated_secs, len(self.text) / _MOST_CHARS_PER_SEC)
        heard = self.text[: int(len(self.text) * min(1.0, played / total))]
        whole = len(heard) == len(self.text) or self.text[len(heard)].isspace()
        return (heard if whole else heard.rpartition(" ")[0]).strip()

    def is_playing(self, context_id: str | None) -> bool:
        """Whether what leaves the output now, under this context, is its own."""
        if self.generated_secs:
            # A model speaks one response at a time, and names no contexts.
            return self.entered and not self.ended
        return context_id in self.contexts

    def is_over(self, now: float) -> bool:
        """Whether all of it was said, and the last of its audio has faded."""
        silence = _OPEN_CONTEXT_SECS if self.speaking else 0.0
        if self.asks_carrier and self.played_until < self.audible_until:
            return False
        return self.ended and now >= self.audible_until + silence

    def was_heard(self, now: float) -> bool:
        """Whether there was sound as well as words; text alone proves nothing."""
        return self.audio_secs > 0 and bool(self.heard(now))

    def go_on(self) -> None:
        """Its beginning left the output: also that of a further response, when the first called a tool."""
        if self.ended:
            # What came before has been played: its words were heard, however far its audio lagged behind.
            self._words = [replace(w, heard_at=min(w.heard_at, self.audible_until)) for w in self._words]
        self.entered, self.ended = True, False

    def add_words(
        self, text: TextPartForConcatenation, *, timed: bool, now: float, untold_time: bool = False
    ) -> None:
        """Note words that left the output.

        Args:
            text: The words.
            timed: Whether they left at the moment they are spoken. Those without a time leave behind
                their audio, which an output faster than real time has not played yet.
            now: Seconds.
            untold_time: Whether the voice did not say when they are spoken, but said it of those before.
        """
        heard_at = now if timed else max(now, self.audible_until)
        if timed and self.audio_secs and now > self.audible_until + _LATE_AUDIO_SECS:
            self._lags = True
        if timed and self._lags:
            # The audio lags behind the clock of the words, and does not make up for it: they count once
            # all of it was played.
            heard_at = math.inf
        self._words.append(_Words(text, heard_at, timed, untold_time))


class Hearing:
    """Follows one telling at a time through voice and output."""

    def __init__(self):
        """Initialize with no telling to follow."""
        self._telling: HeardTelling | None = None
        self._announced: str | None = None
        self._announced_words = ""
        self._playing: str | None = None
        self.marks: CarrierMarks | None = None

    @property
    def telling(self) -> HeardTelling | None:
        """The telling that is followed."""
        return self._telling

    def follow(self, telling_id: str, *, interruptible: bool = True) -> HeardTelling:
        """Begin to follow a telling, before anything of it is said."""
        self._telling = HeardTelling(telling_id, interruptible=interruptible, marks=self.marks)
        return self._telling

    def generated(self, text: str) -> None:
        """More words of the telling were let through to the voice."""
        if self._telling:
            self._telling.expected += squeezed(text)
            self._telling.text += text

    def generated_audio(self, duration_secs: float) -> None:
        """The model itself speaks the telling: more of its audio is on the way to the output."""
        if self._telling:
            self._telling.generated_secs += duration_secs

    def entered(self, telling_id: str) -> None:
        """The beginning of a telling left the output."""
        if self._telling and self._telling.telling_id == telling_id:
            self._telling.go_on()
            # Past parallel voices its first words can be announced before this mark.
            self._claim()

    def ended(self, telling_id: str) -> None:
        """The end of a telling left the output."""
        if self._telling and self._telling.telling_id == telling_id:
            self._telling.ended = True

    def announced(self, context_id: str | None, text: str) -> None:
        """A voice context is about to speak a text; somebody else's utterance is not ours."""
        self._announced, self._announced_words = context_id, squeezed(text)
        self._claim()

    def _claim(self) -> None:
        telling, words = self._telling, self._announced_words
        if telling and telling.is_open and self._announced and words and words in telling.expected:
            telling.contexts.add(self._announced)

    def context_started(self, context_id: str | None) -> None:
        """The audio of a voice context begins; a voice that does not name it speaks what was announced."""
        self._playing = context_id or self._announced
        self._announced_words = ""
        if self._telling:
            self._telling.speaking = self._playing in self._telling.contexts

    def context_stopped(self) -> None:
        """The audio of a voice context ended."""
        self._playing = None
        if self._telling:
            self._telling.speaking = False

    def audio(self, duration_secs: float, now: float) -> None:
        """A piece of audio left the output."""
        telling = self._telling
        if telling is None or not telling.is_playing(self._playing):
            return
        if telling.started_at is None:
            telling.started_at = now
        telling.audio_secs += duration_secs
        telling.audible_until = max(telling.audible_until, now) + duration_secs

    def words(
        self,
        context_id: str | None,
        text: TextPartForConcatenation,
        *,
        timed: bool,
        now: float,
        untold_time: bool = False,
    ) -> None:
        """Spoken words left the output."""
        if self._telling and context_id in self._telling.contexts:
            self._telling.add_words(text, timed=timed, now=now, untold_time=untold_time)

    def interrupted(self, now: float) -> None:
        """An interruption reached the output: what has not been played is gone."""
        if self._telling and not self._telling.interruptible:
            return
        self._playing = None
        if self._telling and self._telling.interrupted_at is None:
            self._telling.interrupted_at = now
