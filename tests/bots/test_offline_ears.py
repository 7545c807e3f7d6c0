# SPDX-License-Identifier: BSD-2-Clause
import asyncio
import wave
from pathlib import Path

import numpy as np
import pytest
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADState

import bots
from bots.offline_ears import PHRASES, SAMPLE_RATE, Recogniser

RECORDINGS = Path(bots.__file__).parent / "recordings"
SAID = {
    "ask": "have you got my record and is there anything free on thursday",
    "book": "please book ten o'clock on thursday",
    "forget": "please forget about it",
    "hold_on": "hold on a second please",
    "how_far": "how far are you",
    "thanks": "thank you for your help",
}


def pcm_of(name):
    with wave.open(str(RECORDINGS / f"{name}.wav")) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (SAMPLE_RATE, 1, 2)
        return sound.readframes(sound.getnframes())


def silence(secs):
    return bytes(int(secs * SAMPLE_RATE) * 2)


def test_every_recording_has_its_phrase():
    assert {path.stem for path in RECORDINGS.glob("*.wav")} == set(SAID)
    assert sorted(SAID.values()) == sorted(PHRASES)


@pytest.mark.parametrize("name", SAID)
def test_each_recording_is_understood(name):
    # The VAD hands over up to a second of what came before.
    for before in (0.1, 0.4, 1.0):
        assert Recogniser().transcribe(silence(before) + pcm_of(name) + silence(0.7)) == SAID[name]


@pytest.mark.parametrize("name", SAID)
def test_each_recording_is_one_stretch_of_speech(name):
    async def states():
        vad = SileroVADAnalyzer(sample_rate=SAMPLE_RATE)
        vad.set_sample_rate(SAMPLE_RATE)
        pcm = silence(0.5) + pcm_of(name) + silence(0.5)
        return [await vad.analyze_audio(pcm[at : at + 640]) for at in range(0, len(pcm), 640)]

    seen = asyncio.run(states())
    starts = [n for n, state in enumerate(seen[1:], 1) if state == VADState.SPEAKING != seen[n - 1]]
    assert VADState.SPEAKING in seen
    assert seen[-1] == VADState.QUIET
    assert len([n for n in starts if seen[n - 1] == VADState.STARTING]) == 1


@pytest.mark.parametrize("name", SAID)
def test_each_recording_sounds_like_a_finished_turn(name):
    analyzer = LocalSmartTurnAnalyzerV3()
    analyzer.set_sample_rate(SAMPLE_RATE)
    pcm = silence(0.3) + pcm_of(name) + silence(0.3)
    result = analyzer._predict_endpoint(np.frombuffer(pcm, np.int16).astype(np.float32) / 32768)
    assert result["prediction"] == 1


def test_silence_is_nothing():
    assert Recogniser().transcribe(silence(1.0)) == ""
