# SPDX-License-Identifier: BSD-2-Clause
import wave

import numpy as np

from bots.inprocess import FRAME_BYTES, SAMPLE_RATE, Line, utterances


def tone(secs):
    return np.full(int(secs * SAMPLE_RATE), 5000, np.int16).tobytes()


def silence(secs):
    return bytes(int(secs * SAMPLE_RATE) * 2)


def test_a_short_pause_does_not_end_an_utterance_and_a_long_one_does():
    pcm = silence(1) + tone(0.5) + silence(0.4) + tone(0.5) + silence(1) + tone(0.2)
    assert [(round(start, 2), round(end, 2)) for start, end in utterances(pcm)] == [(1.0, 2.4), (3.4, 3.6)]


def test_what_the_bot_says_is_kept_at_the_time_it_was_heard():
    line = Line()
    line.hear_bot(tone(0.02), 1.0)
    line.hear_bot(tone(0.02), 1.02)
    line.hear_bot(tone(0.5), 3.0)
    assert line.bot_began_at == 3.0
    assert [round(start, 2) for start, _ in utterances(bytes(line.bot))] == [1.0, 3.0]


def test_the_caller_is_silent_until_something_is_said(tmp_path):
    line, recording = Line(), tmp_path / "said.wav"
    with wave.open(str(recording), "wb") as sound:
        sound.setparams((1, 2, SAMPLE_RATE, 0, "NONE", "NONE"))
        sound.writeframes(tone(0.03))
    assert line.next_caller_frame() == bytes(FRAME_BYTES)
    line.say(recording)
    assert line.caller_is_talking
    assert line.next_caller_frame() == tone(0.02)
    assert line.next_caller_frame() == tone(0.01) + silence(0.01)
    assert not line.caller_is_talking
    assert bytes(line.caller) == silence(0.02) + tone(0.03) + silence(0.01)


def test_the_recording_has_the_caller_left_and_the_bot_right(tmp_path):
    line = Line()
    line.next_caller_frame()
    line.hear_bot(tone(0.1), 0.5)
    line.write_wav(tmp_path / "call.wav")
    with wave.open(str(tmp_path / "call.wav")) as sound:
        sides = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).reshape(-1, 2)
    assert len(sides) == int(0.6 * SAMPLE_RATE)
    assert not sides[:, 0].any()
    assert utterances(sides[:, 1].tobytes()) == utterances(bytes(line.bot))
