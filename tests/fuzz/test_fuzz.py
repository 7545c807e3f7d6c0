# SPDX-License-Identifier: BSD-2-Clause
"""Conversations that nobody wrote come out right.

By default 2,000, the same in every run. ``PIPECAT_ASYNC_TOOLS_FUZZ=50000`` plays as many others, new ones in
every run; ``PIPECAT_ASYNC_TOOLS_FUZZ_SEED`` repeats those of a run that failed.
"""

import os
import random

import pytest
from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.playing import play
from tests.fuzz.rules import problems
from tests.fuzz.scripts import scripts

CONVERSATIONS = int(os.environ.get("PIPECAT_ASYNC_TOOLS_FUZZ", "0"))
SEED = os.environ.get("PIPECAT_ASYNC_TOOLS_FUZZ_SEED")
ALWAYS = 2000
SHARD_SIZE = 125


def _first_seed():
    if SEED:
        return int(SEED)
    # Every worker of a run must begin with the same one, or they would not agree on the tests there are.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    chosen = random.Random(run) if run else random.SystemRandom()
    return chosen.randrange(1_000_000_000) if CONVERSATIONS else 0


FIRST_SEED = _first_seed()
AGAIN = f"PIPECAT_ASYNC_TOOLS_FUZZ_SEED={FIRST_SEED} repeats it" if CONVERSATIONS else ""
SHARDS = -(-(CONVERSATIONS or ALWAYS) // SHARD_SIZE)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_happens_comes_out_right(shard):
    @seed(FIRST_SEED + shard)
    @settings(
        max_examples=min(SHARD_SIZE, (CONVERSATIONS or ALWAYS) - shard * SHARD_SIZE),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts())
    def comes_out_right(script):
        played = play(script)
        assert problems(played) == [], f"\n{played}\n{AGAIN}"

    comes_out_right()
