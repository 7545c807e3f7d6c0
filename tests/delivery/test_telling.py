# SPDX-License-Identifier: BSD-2-Clause
"""One attempt to say a delivery ends in exactly one way, and always ends."""

import pytest
from pipecat.utils.string import TextPartForConcatenation

from pipecat_async_tools import ClockParams
from pipecat_async_tools.delivery.telling import Phase, Telling
from tests.builders import FREE, channel, envelope

PARAMS = ClockParams(response_timeout_secs=10.0, audio_timeout_secs=3.0)


@pytest.fixture
def telling():
    """A telling that was triggered at 100 s."""
    return Telling((envelope(),), telling_id="telling-1", how="model", params=PARAMS, now=100.0)


def respond(telling, text="There is a slot.", at=101.0):
    telling.in_context = True
    telling.response_started(at)
    telling.said(text, at)
    telling.handed_over(at)


def play(telling, *, at, secs, ended=True):
    evidence = telling.evidence
    evidence.started_at = at
    evidence.audio_secs += secs
    evidence.audible_until = at + secs
    part = TextPartForConcatenation("There is a slot.", includes_inter_part_spaces=False)
    evidence.add_words(part, timed=True, now=at)
    evidence.ended = ended


def verdict(telling, now, *, channel=FREE):
    return telling.verdict(now, channel)


def test_it_has_no_verdict_while_nothing_has_happened(telling):
    assert verdict(telling, 100.0) is None
    assert telling.may_be_withdrawn


def test_the_next_response_is_its_own_once_it_is_in_the_context(telling):
    assert not telling.awaits_response
    telling.in_context = True
    assert telling.awaits_response
    telling.response_started(101.0)
    assert not telling.awaits_response
    assert telling.is_responding
    telling.handed_over(102.0)
    assert not telling.is_responding


def test_a_response_after_it_was_withdrawn_is_not_its_own(telling):
    telling.in_context = True
    telling.withdraw()
    assert not telling.awaits_response


def test_a_trigger_without_a_response_is_lost(telling):
    assert verdict(telling, 109.9) is None
    assert verdict(telling, 110.0) == "lost"


def test_a_response_that_stops_in_the_middle_is_lost(telling):
    telling.response_started(105.0)
    telling.said("There", 109.0)
    assert verdict(telling, 118.9) is None
    assert verdict(telling, 119.0) == "lost"


def test_a_response_without_words_is_lost_unless_a_run_that_waits_behind_it_tells_it(telling):
    respond(telling, text=" \n")
    assert verdict(telling, 101.0) is None and telling.awaits_response
    assert verdict(telling, 101.2) == "lost"
    telling.response_started(101.05)
    assert telling.shared and verdict(telling, 101.2) is None


def test_all_of_it_heard_is_completed(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0)
    assert verdict(telling, 103.9, channel=channel(bot_audio=True)) is None
    assert verdict(telling, 104.0) == "completed"


def test_it_is_not_completed_before_its_end_was_played(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0, ended=False)
    assert verdict(telling, 104.5) is None


def test_words_that_bring_no_sound_are_unheard(telling):
    respond(telling)
    assert verdict(telling, 103.9) is None
    assert verdict(telling, 104.0) == "unheard"


def test_a_voice_that_is_busy_is_waited_for(telling):
    respond(telling)
    assert verdict(telling, 120.0, channel=channel(bot_audio=True)) is None


def test_sound_that_ends_without_its_end_is_unheard_in_the_end(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0, ended=False)
    assert verdict(telling, 106.9) is None
    assert verdict(telling, 107.0) == "unheard"


def test_it_is_withdrawn_when_the_caller_was_first(telling):
    telling.withdraw()
    assert verdict(telling, 100.0) == "withdrawn"


def test_an_interruption_is_judged_once_the_output_saw_it(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0, ended=False)
    telling.interrupted(103.0)
    assert verdict(telling, 103.1) is None
    telling.evidence.interrupted_at = 103.15
    assert verdict(telling, 103.2) == "interrupted"


def test_an_interruption_that_the_output_never_sees_is_judged_all_the_same(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0, ended=False)
    telling.interrupted(103.0)
    telling.interrupted(103.9)
    assert verdict(telling, 103.9) is None
    assert verdict(telling, 104.0) == "interrupted"


def test_interrupted_before_its_first_audio_it_never_started(telling):
    respond(telling)
    telling.interrupted(101.5)
    telling.evidence.interrupted_at = 101.5
    assert verdict(telling, 101.5) == "withdrawn"


def test_after_its_first_audio_it_can_no_longer_be_withdrawn(telling):
    respond(telling)
    play(telling, at=102.0, secs=1.0)
    assert not telling.may_be_withdrawn


def test_its_record_says_what_was_heard(telling):
    respond(telling)
    play(telling, at=102.0, secs=2.0)
    record = telling.record("completed", 104.0)
    assert (record.telling_id, record.outcome) == (telling.telling_id, "completed")
    assert (record.started_at, record.ended_at) == (102.0, 104.0)
    assert record.heard == "There is a slot."


def test_its_words_are_kept_as_they_come(telling):
    telling.response_started(101.0)
    telling.said("There is", 101.0)
    telling.said(" a slot.", 101.2)
    assert telling.text == "There is a slot."
    assert telling.phase is Phase.RESPONDING
