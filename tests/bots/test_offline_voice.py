# SPDX-License-Identifier: BSD-2-Clause
import asyncio
import shutil

import numpy as np
import pytest
from loguru import logger

from bots.inprocess import utterances
from bots.offline_voice import (
    FLITE_MISSING,
    FliteTTSService,
    ToneTTSService,
    offline_voice,
    word_times,
)

SPELT = ["pau", "hh", "ay", "pau", "dh", "eh", "r", "pau"]
SENTENCE = "On Thursday there is 10:00 and 14:30."


def test_a_tone_per_word_at_the_time_it_says():
    speech = asyncio.run(ToneTTSService().synthesise(SENTENCE))
    samples = np.frombuffer(speech.pcm, np.int16)
    assert [word for word, _ in speech.word_times] == SENTENCE.split()
    for _, at in speech.word_times:
        onset = int(at * speech.sample_rate)
        assert np.abs(samples[onset + 320 : onset + 640]).max() > 5000
        assert not np.abs(samples[max(0, onset - 160) : onset]).any()


def test_the_tone_has_no_pause_that_splits_it_and_is_the_same_each_time():
    first, second = (asyncio.run(ToneTTSService().synthesise(SENTENCE)) for _ in range(2))
    assert len(utterances(first.pcm)) == 1
    assert first == second


@pytest.mark.skipif(not shutil.which("flite"), reason="flite is not installed")
def test_flite_knows_when_each_word_starts():
    speech = asyncio.run(FliteTTSService().synthesise(SENTENCE))
    starts = [at for _, at in speech.word_times]
    assert [word for word, _ in speech.word_times] == SENTENCE.split()
    assert starts == sorted(set(starts))
    assert 0 < starts[0] < starts[-1] < len(speech.pcm) / 2 / speech.sample_rate


def test_words_are_timed_by_their_phones():
    timed = ["pau:0.2", "hh:0.3", "ay:0.4", "pau:0.6", "dh:0.7", "eh:0.8", "r:0.9", "pau:1.1"]
    assert word_times(["Hi,", "there."], timed, SPELT) == [
        ("Hi,", 0.2),
        ("there.", 0.6),
    ]


def test_words_whose_phones_do_not_match_are_not_timed():
    assert word_times(["Hi,", "there."], ["pau:0.2", "hh:0.3"], SPELT) == []


def test_without_flite_it_says_so_and_speaks_in_tones(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    lines = []
    handler = logger.add(lines.append, format="{message}")
    try:
        assert isinstance(offline_voice(), ToneTTSService)
    finally:
        logger.remove(handler)
    assert FLITE_MISSING in "".join(lines)
    assert "apt-get install flite" in FLITE_MISSING


def test_tones_can_be_asked_for():
    assert isinstance(offline_voice("tone"), ToneTTSService)
