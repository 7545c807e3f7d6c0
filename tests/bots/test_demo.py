# SPDX-License-Identifier: BSD-2-Clause
import json
import subprocess
import sys
import wave

import numpy as np
import pytest

WINDOW_SECS = 0.02
LOUD_RMS = 100


def loud(samples, rate):
    """For each window of one channel, whether it has energy."""
    size = int(rate * WINDOW_SECS)
    windows = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    return np.sqrt((windows**2).mean(axis=1)) > LOUD_RMS


@pytest.mark.parametrize("mode", [(), ("--plain",)], ids=["plug-in", "plain"])
def test_the_demo_call_comes_out_right(tmp_path, mode):
    wav, report = tmp_path / "demo.wav", tmp_path / "demo.json"
    command = [sys.executable, "-m", "bots.demo", *mode, "--wav", str(wav), "--json", str(report)]
    demo = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert demo.returncode == 0, demo.stdout + demo.stderr

    told = json.loads(report.read_text())
    assert told["passed"] and told["barge_in_to_silence_secs"] < 0.8

    with wave.open(str(wav)) as sound:
        assert sound.getnchannels() == 2
        rate = sound.getframerate()
        sides = np.frombuffer(sound.readframes(sound.getnframes()), np.int16).reshape(-1, 2)
    caller, bot = loud(sides[:, 0], rate), loud(sides[:, 1], rate)

    both = np.flatnonzero(caller & bot) * WINDOW_SECS
    barge_in = next(m["at"] for m in told["timeline"] if m["detail"].startswith("Hold on"))
    assert len(both) * WINDOW_SECS < 0.8
    assert barge_in - 0.1 < both.min() and both.max() < barge_in + 0.8

    answered = max(m["at"] for m in told["timeline"] if (m["who"], m["what"]) == ("service", "answers"))
    thanked = next(m["at"] for m in told["timeline"] if m["detail"].startswith("Thank you"))
    update = slice(int(answered / WINDOW_SECS), int((thanked - 0.1) / WINDOW_SECS))
    assert bot[update].sum() * WINDOW_SECS > 2.0
    assert not caller[update].any()
