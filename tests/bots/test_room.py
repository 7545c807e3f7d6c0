# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys

import pytest

from bots.room import CLOUD_KEYS, TRANSPORT_KEYS

ALL_KEYS = {*CLOUD_KEYS, *(key for keys in TRANSPORT_KEYS.values() for key in keys)}


def room(*args, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ALL_KEYS}
    return subprocess.run(
        [sys.executable, "-m", "bots.room", *args],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_explains_the_bot_its_environment_and_its_commands():
    shown = room("--help")
    assert shown.returncode == 0
    for word in (*ALL_KEYS, "-t daily", "-t webrtc", "-t twilio", "--offline", "--plain"):
        assert word in shown.stdout


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        (("-t", "daily"), {*CLOUD_KEYS, "DAILY_API_KEY"}),
        (("-t", "webrtc"), set(CLOUD_KEYS)),
        (("-t", "twilio", "--offline"), {"TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"}),
    ],
)
def test_missing_keys_are_named_before_anything_starts(args, missing):
    refused = room(*args)
    assert refused.returncode == 2
    named = {key for key in ALL_KEYS if key in refused.stderr}
    assert named == missing


def test_only_what_is_missing_is_named():
    refused = room("-t", "webrtc", OPENAI_API_KEY="secret-1", DEEPGRAM_API_KEY="secret-2")
    assert refused.returncode == 2
    assert "CARTESIA_API_KEY" in refused.stderr
    assert "OPENAI_API_KEY" not in refused.stderr
    assert "secret" not in refused.stdout + refused.stderr
