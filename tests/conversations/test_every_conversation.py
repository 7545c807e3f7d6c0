# SPDX-License-Identifier: BSD-2-Clause
"""Every conversation of this folder, through both doors of the package, at every moment around its race."""

import pytest

from pipecat_async_tools import store_from_url
from pipecat_async_tools.testing import run_virtual
from tests.conversations import changes, conflicts, field
from tests.conversations.judging import judge, problems
from tests.conversations.script import CONVERSATIONS, OURS, Door, performed, play

CASES = [
    pytest.param(c.id, door, shift, id=f"{c.id}-{door}-{shift:+g}")
    for c in CONVERSATIONS.values()
    for door in OURS
    if door in c.doors
    for shift in c.shifts
]

# What becomes of the update, over all shifts: each kind of race is met by some of them.
STORIES = {
    changes.far_end_lags: {
        "waited:caller withdrawn completed",
        "waited:caller waited:bot interrupted completed",
        "completed",
    },
    conflicts.finishes_under_speech: {
        "waited:caller completed",
        "waited:caller waited:bot interrupted completed",
        "waited:caller withdrawn completed",
        "waited:bot completed",
        "completed",
    },
    conflicts.finishes_under_playback: {
        "waited:caller withdrawn completed",
        "waited:caller completed",
        "waited:bot completed",
        "completed",
    },
    conflicts.interrupts_the_telling: {
        "waited:caller withdrawn completed",
        "waited:caller waited:bot interrupted completed",
        "completed",
    },
    conflicts.false_start: {
        "withdrawn completed",
        "waited:caller withdrawn completed",
        "waited:caller withdrawn withdrawn completed",
        "waited:caller interrupted completed",
    },
    field.first_never_awaits: {"native", "waited:bot completed", "completed"},
    field.four_of_twenty: {
        "waited:caller withdrawn completed",
        "waited:caller waited:bot interrupted completed",
        "completed",
    },
    field.too_late: {"completed", "completed completed"},
    field.too_late_under_speech: {
        "waited:caller completed",
        "waited:caller withdrawn completed",
        "waited:caller waited:bot interrupted completed",
        "waited:caller completed completed",
    },
    field.three_results: {"waited:bot completed", "waited:caller waited:bot completed"},
    field.raises: {"native", "waited:bot completed", "completed"},
    field.never_ends: {
        "waited:caller waited:bot withdrawn completed",
        "waited:caller waited:bot interrupted completed",
        "waited:caller waited:bot completed",
        "waited:bot completed",
        "completed",
    },
}


@pytest.mark.parametrize(("conversation_id", "door", "shift"), CASES)
def test_it_comes_out_right(conversation_id, door, shift):
    performance = performed(conversation_id, door, shift)
    assert problems(performance) == [], f"\n{performance.timeline}"
    assert judge(performance).told_once


@pytest.mark.parametrize(("conversation_id", "door", "shift"), CASES)
def test_it_comes_out_right_with_a_file(conversation_id, door, shift, tmp_path):
    async def played():
        store = store_from_url(f"sqlite:///{tmp_path}/calls.db")
        try:
            return await play(CONVERSATIONS[conversation_id], door, shift, store=store)
        finally:
            await store.close()

    performance = run_virtual(played())
    assert problems(performance) == [], f"\n{performance.timeline}"


@pytest.mark.parametrize("door", OURS)
@pytest.mark.parametrize("conversation", STORIES, ids=lambda c: c.id)
def test_the_shifts_meet_every_kind_of_race(conversation, door):
    stories = {shift: performed(conversation.id, door, shift).story for shift in conversation.shifts}
    assert set(stories.values()) == STORIES[conversation], stories


def test_every_race_is_shifted_through_ten_moments_or_has_none():
    # The empty values of D5 share the moments of the first.
    few = [c.id for c in CONVERSATIONS.values() if len(set(c.shifts)) < 11]
    assert few == [c.id for c in field.EMPTY[1:]]


def test_a_judge_by_ear_can_say_no():
    verdicts = {
        case.id: judge(performed(case.id, Door.PLAIN)) for case in (field.EMPTY[0], field.three_results)
    }
    assert verdicts["D5 []"].lost and not verdicts["D5 []"].told_once
    assert verdicts["D7"].doubled and not verdicts["D7"].told_once
