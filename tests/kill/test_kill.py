# SPDX-License-Identifier: BSD-2-Clause
"""Killed at any moment, nothing is lost and nothing doubled: a bot, a worker, and a bot whose caller is back.

`make kill` plays every moment and prints the table; by default every third is played.
"""

import os

import pytest

from tests.kill.moments import BOT, ON_REDIS, RETURN, WORKER
from tests.kill.scenario import first_call, first_call_without_worker, next_call, work
from tests.kill.stage import Stage

ALL = os.environ.get("PIPECAT_ASYNC_TOOLS_KILL") == "all"
MOMENTS = {"bot": BOT, "worker": WORKER, "return": RETURN}


def cases():
    every = [
        *((s, who, m) for s in ("sqlite", "postgres") for who, ms in MOMENTS.items() for m in ms),
        *(("redis", who, moment) for who, moment in ON_REDIS),
    ]
    return every if ALL else every[::3]


def play(stage, who, kill_at=None):
    """The conversation up to the last call, with one of its processes killed."""
    if who == "bot":
        return stage.play(first_call, kill_at=kill_at)
    stage.play(first_call_without_worker)
    if who == "worker":
        passed = stage.play(work, kill_at=kill_at)
        if kill_at:
            stage.play(work)
        return passed
    stage.play(work)
    return stage.play(next_call, kill_at=kill_at)


def test_there_are_enough_moments():
    assert sum(len(set(moments)) for moments in MOMENTS.values()) >= 60
    assert len(ON_REDIS) == 10 and all(moment in MOMENTS[who] for who, moment in ON_REDIS)


@pytest.mark.parametrize("who", MOMENTS)
def test_these_are_all_the_moments_a_process_passes(who, tmp_path, url_of):
    assert sorted(play(Stage(url_of("sqlite"), tmp_path, server=False), who)) == sorted(MOMENTS[who])


@pytest.mark.parametrize(("store", "who", "moment"), cases())
def test_nothing_is_lost_and_nothing_doubled(store, who, moment, tmp_path, url_of, record_property):
    stage = Stage(url_of(store), tmp_path, server=store != "sqlite")
    play(stage, who, kill_at=moment)
    stage.play(next_call)
    after = stage.aftermath()
    record_property("kill", after.row(store, who, moment))

    # The booking honours its key: whatever happened, it took effect once, and succeeded once.
    assert after.effects["booking"] == 1
    assert after.statuses["book_slot"] == ["succeeded"]
    # The payment may not be repeated: it took effect once, or nobody says that it did.
    (payment,) = after.statuses["pay_deposit"]
    assert (payment, after.effects.get("payment", 0)) in (("succeeded", 1), ("unknown", 0), ("unknown", 1))
    # Each was told to the end once, and nothing else is owed.
    assert after.told == {"book_slot": [1], "pay_deposit": [1]}
    assert after.pending == []
    # Nothing was reported done that was not.
    assert payment == "succeeded" or "4711" not in after.heard
    assert after.problems == []
