# SPDX-License-Identifier: BSD-2-Clause
"""What the caller heard of a telling: evidence, and nobody else's."""

import pytest
from pipecat.utils.string import TextPartForConcatenation

from pipecat_async_tools.delivery.hearing import Hearing


def part(text):
    return TextPartForConcatenation(text, includes_inter_part_spaces=False)


class Voice:
    """A voice behind an output, as the frames that leave it describe it."""

    def __init__(self, hearing):
        self.hearing = hearing

    def sentence(self, context, text, *, at, secs, stop=True):
        """Say a sentence; its text leaves behind its audio."""
        self.begin(context, text)
        self.hearing.audio(secs, at)
        self.hearing.words(context, part(text), timed=False, now=at)
        if stop:
            self.hearing.context_stopped()

    def begin(self, context, text):
        self.hearing.announced(context, text)
        self.hearing.context_started(context)

    def word(self, context, text, *, at):
        """A word that leaves at the moment it is spoken."""
        self.hearing.words(context, part(text), timed=True, now=at)


@pytest.fixture
def hearing():
    return Hearing()


@pytest.fixture
def voice(hearing):
    return Voice(hearing)


@pytest.fixture
def telling(hearing):
    """A telling whose beginning has left the output."""
    telling = hearing.follow("telling-1")
    for piece in ("There is a slot ", "at ten. Shall I ", "book it?"):
        hearing.generated(piece)
    hearing.entered("telling-1")
    return telling


def test_a_sentence_voice_is_heard_sentence_by_sentence(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=2.0)
    assert telling.started_at == 1.0
    assert telling.heard(2.9) == ""
    assert telling.heard(3.0) == "There is a slot at ten."
    voice.sentence("c2", "Shall I book it?", at=3.0, secs=1.0)
    hearing.ended("telling-1")
    assert telling.heard(4.0) == "There is a slot at ten. Shall I book it?"
    assert telling.is_over(4.0)
    assert telling.was_heard(4.0)


def test_a_voice_with_timed_words_is_heard_word_by_word(voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    telling_words = ["There", "is", "a", "slot"]
    for i, word in enumerate(telling_words):
        voice.hearing.audio(0.5, 1.0 + i / 2)
        voice.word("c1", word, at=1.0 + i / 2)
    assert telling.heard(1.6) == "There is"
    assert telling.heard(9.0) == "There is a slot"


def test_timed_words_are_heard_when_they_leave_though_audio_was_written_ahead(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.audio(3.0, 1.0)
    voice.word("c1", "There", at=1.2)
    assert telling.heard(1.2) == "There"


def test_it_is_not_over_before_its_end_left_the_output(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    assert not telling.is_over(50.0)
    hearing.ended("telling-1")
    assert telling.is_over(50.0)


def test_unpaced_audio_is_waited_out(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=2.0)
    voice.sentence("c2", "Shall I book it?", at=1.0, secs=1.5)
    hearing.ended("telling-1")
    assert not telling.is_over(4.4)
    assert telling.heard(4.4) == "There is a slot at ten."
    assert telling.is_over(4.5)
    assert telling.heard(4.5) == "There is a slot at ten. Shall I book it?"


@pytest.mark.parametrize("text", ["Mm-hmm.", "One moment, please.", "…", "", "-----"])
def test_an_utterance_of_somebody_else_is_not_ours(hearing, voice, telling, text):
    voice.sentence("filler", text, at=1.0, secs=2.0)
    hearing.ended("telling-1")
    assert telling.started_at is None
    assert telling.heard(9.0) == ""
    assert not telling.was_heard(9.0)


def test_an_utterance_of_somebody_else_does_not_lengthen_ours(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    voice.sentence("filler", "Mm-hmm.", at=2.0, secs=5.0)
    assert telling.audio_secs == 1.0
    assert telling.audible_until == 2.0
    assert telling.heard(9.0) == "There is a slot at ten."


def test_the_same_words_before_our_beginning_are_not_ours(hearing, voice):
    telling = hearing.follow("telling-1")
    hearing.generated("There is a slot at ten.")
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    hearing.entered("telling-1")
    hearing.ended("telling-1")
    assert not telling.was_heard(9.0)


def test_the_same_words_after_our_end_are_not_ours(hearing, voice, telling):
    hearing.announced("c0", "There is a slot at ten.")
    hearing.ended("telling-1")
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    assert telling.started_at is None
    assert not telling.was_heard(9.0)


def test_the_marks_of_another_telling_are_not_ours(hearing, voice):
    telling = hearing.follow("telling-2")
    hearing.generated("There is a slot at ten.")
    hearing.entered("telling-1")
    hearing.ended("telling-1")
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    assert not telling.entered
    assert not telling.ended
    assert not telling.was_heard(9.0)


def test_following_another_telling_leaves_the_first_as_it_was(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    second = hearing.follow("telling-2")
    voice.sentence("c1", "There is a slot at ten.", at=3.0, secs=1.0)
    assert telling.audio_secs == 1.0
    assert second.audio_secs == 0.0


def test_text_without_audio_proves_nothing(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=0.0)
    hearing.ended("telling-1")
    assert not telling.was_heard(9.0)


def test_audio_without_words_proves_nothing(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.audio(1.0, 1.0)
    hearing.ended("telling-1")
    assert telling.audio_secs == 1.0
    assert not telling.was_heard(9.0)


def test_a_voice_that_does_not_name_its_context_speaks_what_was_announced(hearing, telling):
    hearing.announced("c1", "There is a slot at ten.")
    hearing.context_started(None)
    hearing.audio(1.0, 1.0)
    assert telling.audio_secs == 1.0


def test_an_interruption_cuts_off_what_was_not_played(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.audio(3.0, 1.0)
    voice.word("c1", "There", at=1.1)
    voice.word("c1", "is", at=1.4)
    hearing.interrupted(1.5)
    voice.word("c1", "a", at=1.7)
    assert telling.interrupted_at == 1.5
    assert telling.heard(9.0) == "There"


def test_an_interruption_cuts_off_the_word_being_spoken(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.audio(3.0, 1.0)
    voice.word("c1", "There", at=1.1)
    assert telling.heard(1.5) == "There"
    hearing.interrupted(1.5)
    assert telling.heard(9.0) == ""


def test_an_interruption_after_the_last_word_cuts_off_nothing(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.audio(1.0, 1.0)
    voice.word("c1", "ten.", at=1.5)
    hearing.context_stopped()
    hearing.ended("telling-1")
    hearing.interrupted(2.0)
    assert telling.heard(9.0) == "ten."


def test_it_is_not_over_while_its_context_may_bring_more(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0, stop=False)
    hearing.ended("telling-1")
    assert not telling.is_over(2.4)
    assert telling.is_over(2.5)
    hearing.context_stopped()
    assert telling.is_over(2.0)


def test_past_parallel_voices_both_marks_come_before_anything_is_said(hearing, voice, telling):
    hearing.ended("telling-1")
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=1.0)
    assert telling.was_heard(2.0)


def test_a_sentence_that_was_interrupted_was_not_heard(hearing, voice, telling):
    voice.sentence("c1", "There is a slot at ten.", at=1.0, secs=2.0)
    hearing.interrupted(2.0)
    assert telling.heard(9.0) == ""


def test_audio_after_an_interruption_is_not_ours(hearing, voice, telling):
    voice.begin("c1", "There is a slot at ten.")
    hearing.interrupted(1.0)
    hearing.audio(1.0, 1.1)
    assert telling.audio_secs == 0.0


def test_the_first_interruption_counts(hearing, telling):
    hearing.interrupted(1.0)
    hearing.interrupted(2.0)
    assert telling.interrupted_at == 1.0


def test_with_nothing_to_follow_everything_passes(hearing, voice):
    hearing.generated("Hello.")
    hearing.entered("telling-1")
    voice.sentence("c1", "Hello.", at=1.0, secs=1.0)
    hearing.ended("telling-1")
    hearing.interrupted(2.0)
    assert not hearing.follow("telling-1").was_heard(9.0)


@pytest.mark.parametrize(("secs", "is_short"), [(1.1, True), (3.0, False)])
def test_words_whose_time_the_voice_never_told_need_audio_to_be_in(hearing, voice, telling, secs, is_short):
    # A voice that broke off: Pipecat completes its words at the time of the last one it told.
    voice.begin("c1", "There is a slot at ten.")
    for nth, word in enumerate(("There", "is")):
        hearing.audio(secs / 2, 1.0 + nth * 0.3)
        voice.word("c1", word, at=1.0 + nth * 0.3)
    hearing.words("c1", part("a slot at ten. Shall I book it?"), timed=True, now=1.3, untold_time=True)
    hearing.ended("telling-1")
    hearing.context_stopped()
    assert telling.is_over(9.0) and telling.was_cut_short is is_short
    assert telling.sent(9.0) == "There is a slot at ten. Shall I book it?"
    assert telling.heard(9.0) == ("There is" if is_short else telling.sent(9.0))
