# SPDX-License-Identifier: BSD-2-Clause
"""A telling that joins the answer to the caller."""

import pytest
from pipecat.utils.string import TextPartForConcatenation

from pipecat_async_tools import ClockParams
from pipecat_async_tools.delivery.joining import Joining
from pipecat_async_tools.delivery.telling import Phase
from tests.builders import FREE, channel, envelope

TURN = channel(caller_speaking=True, turn_open=True)
OWED = channel(answer_owed=True)


@pytest.fixture
def joining():
    joining = Joining((envelope(),), telling_id="telling-1", params=ClockParams(), now=0.0)
    joining.in_context = True
    return joining


def is_heard(joining, text, *, at):
    """Let an answer be generated and heard to its end."""
    joining.response_started(at)
    joining.said(text, at)
    joining.handed_over(at)
    joining.evidence.started_at = at
    joining.evidence.audio_secs = 1.0
    joining.evidence.audible_until = at + 1.0
    joining.evidence.ended = True
    words = TextPartForConcatenation(text, includes_inter_part_spaces=False)
    joining.evidence.add_words(words, timed=False, now=at)


def test_it_waits_for_as_long_as_the_turn_is_open_and_the_answer_owed(joining):
    for now, state in ((1.0, TURN), (50.0, TURN), (51.0, OWED), (52.0, channel(response_in_flight=True))):
        assert joining.verdict(now, state) is None
    assert joining.is_waiting


def test_an_empty_turn_withdraws_it(joining):
    assert joining.verdict(1.0, OWED) is None
    assert joining.verdict(1.3, FREE) == "withdrawn"


def test_an_answer_heard_to_its_end_completes_it(joining):
    is_heard(joining, "Take the bus.", at=1.0)
    assert joining.verdict(1.5, channel(bot_audio=True)) is None
    assert joining.verdict(1.9, FREE) is None
    assert joining.verdict(2.1, FREE) == "completed"


def test_an_answer_that_only_called_a_tool_is_not_the_end_of_it(joining):
    joining.response_started(1.0)
    joining.handed_over(1.2)
    assert joining.awaits_response
    joining.response_started(1.5)
    assert joining.phase is Phase.RESPONDING and not joining.awaits_response


def test_an_answer_without_sound_was_not_heard(joining):
    joining.response_started(1.0)
    joining.said("Take the bus.", 1.0)
    joining.handed_over(1.0)
    assert joining.verdict(1.5, FREE) is None
    assert joining.verdict(3.9, FREE) is None
    assert joining.verdict(4.0, FREE) == "unheard"


def test_an_interruption_before_the_answer_began_is_the_turn_it_waits_for(joining):
    joining.interrupted(1.0)
    assert joining.verdict(1.1, TURN) is None and joining.is_waiting


def test_an_interruption_of_the_answer_cuts_it_off(joining):
    is_heard(joining, "Take the bus.", at=1.0)
    joining.interrupted(1.5)
    joining.evidence.interrupted_at = 1.5
    assert joining.verdict(1.5, TURN) == "interrupted"


def test_it_never_gives_way_to_a_caller_who_speaks(joining):
    assert not joining.may_be_withdrawn
    is_heard(joining, "Take the bus.", at=1.0)
    assert not joining.may_be_withdrawn


def test_what_becomes_ready_before_the_answer_joins_too(joining):
    more = envelope()
    joining.extend((more,))
    assert joining.deliveries[1:] == (more,)


def test_its_record_says_that_it_joined(joining):
    assert joining.record("completed", 3.0).mode == "next_turn"
