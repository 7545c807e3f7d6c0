# SPDX-License-Identifier: BSD-2-Clause
"""Each row of the policy is turned off in turn, and a test that is named here notices."""

from dataclasses import replace

import pytest

from pipecat_async_tools import DeliveryPolicy
from tests.conversations.script import Door
from tests.policy import test_next_turn as next_turn
from tests.policy import test_retelling as retelling
from tests.policy import test_speaking as speaking
from tests.policy import test_stale as stale
from tests.policy import test_urgent as urgent

OURS = Door.ASYNC_TOOL
choose, why_never = DeliveryPolicy.choose, DeliveryPolicy._why_never


def without(**fields):
    """The same policy, of which some fields are as if they had not been given."""

    def chosen(self, envelope, channel, now, *, superseded=False):
        return choose(replace(self, **fields), envelope, channel, now, superseded=superseded)

    return {"choose": chosen}


def of_envelope(**fields):
    """The same policy, which does not see some of what a delivery says."""

    def chosen(self, envelope, channel, now, *, superseded=False):
        return choose(self, replace(envelope, **fields), channel, now, superseded=superseded)

    return {"choose": chosen}


def of_channel(**fields):
    """The same policy, which does not see some of what the channel says."""

    def chosen(self, envelope, channel, now, *, superseded=False):
        return choose(self, envelope, replace(channel, **fields), now, superseded=superseded)

    return {"choose": chosen}


def not_superseded(self, envelope, channel, now, superseded):
    return why_never(self, envelope, channel, now, False)


def always_free(self, envelope, channel, now):
    return None


def ungrowing(self, envelope, channel):
    return self.min_quiet_secs


ROWS = {
    "1 superseded": (
        {"_why_never": not_superseded},
        stale.test_c9_what_a_newer_request_replaced_is_stored_and_not_told,
        {"at": 7.0},
    ),
    "1 expired": (
        of_envelope(expires_after_secs=None),
        stale.test_d12_a_result_past_its_limit_is_not_told,
        {},
    ),
    "1 stale by the application": (without(is_stale=None), stale.test_the_application_may_call_it_stale, {}),
    "2 never": (of_envelope(speak="always"), speaking.test_never_spoken_is_in_the_context_only, {}),
    "2 on failure": (
        of_envelope(speak="always"),
        speaking.test_on_failure_only_a_failure_is_spoken,
        {"fails": False},
    ),
    "2 skip if busy": (
        of_envelope(speak="always"),
        speaking.test_skip_if_busy_is_spoken_only_if_nobody_speaks_when_it_is_ready,
        {"busy": True},
    ),
    "3 not proactive": (
        {"joins_only": always_free},
        next_turn.test_a_resync_only_session_never_begins_to_speak,
        {},
    ),
    "3 waited too long": (
        {"_waited_too_long": lambda self, envelope, now: False},
        next_turn.test_what_found_no_free_moment_for_too_long_waits_for_the_next_turn,
        {},
    ),
    "3 echo": (
        {"joins_only": always_free},
        retelling.test_an_echo_makes_it_wait_for_the_callers_next_turn,
        {},
    ),
    "3 storm": (
        of_channel(interruptions=0),
        retelling.test_where_the_bot_is_interrupted_all_the_time_it_waits_for_the_next_turn,
        {},
    ),
    "4 the caller speaks": (
        of_channel(caller_speaking=False, turn_open=False),
        next_turn.test_a_failure_cannot_be_looked_for_so_it_is_told_by_itself,
        {},
    ),
    "4 over the caller": (
        of_envelope(interrupt_caller=False),
        urgent.test_with_interrupt_caller_it_does_not_even_wait_for_the_caller,
        {},
    ),
    "5 the bot speaks": (
        of_channel(bot_audio=False),
        urgent.test_where_the_channel_may_not_be_interrupted_it_waits_for_the_end_of_playback,
        {},
    ),
    "5 urgent cuts in": (without(may_interrupt=False), urgent.test_it_cuts_off_the_bots_own_answer, {}),
    "6 an answer is owed": (
        of_channel(answer_owed=False, response_in_flight=False),
        next_turn.test_what_becomes_ready_while_an_answer_is_owed_waits_for_it,
        {},
    ),
    "7 the quiet window": (
        {"quiet_secs": lambda self, envelope, channel: 0.0},
        retelling.test_each_time_only_the_rest_is_told_and_it_must_be_quiet_for_longer,
        {},
    ),
    "7 longer after each attempt": (
        {"quiet_secs": ungrowing},
        retelling.test_each_time_only_the_rest_is_told_and_it_must_be_quiet_for_longer,
        {},
    ),
    "joining": (
        {"may_join": lambda self, envelope, channel, now: False},
        next_turn.test_cut_off_before_a_word_of_the_update_it_joins_the_next_answer,
        {},
    ),
    "coverage": (
        {"covers": lambda self, envelope, heard, *, complete, language: True},
        next_turn.test_what_the_answer_left_out_is_told_by_itself_afterwards,
        {},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_without_it_a_named_test_fails(row, monkeypatch):
    off, notices, arguments = ROWS[row]
    notices(OURS, **arguments)
    for name, value in off.items():
        monkeypatch.setattr(DeliveryPolicy, name, value)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        notices(OURS, **arguments)
