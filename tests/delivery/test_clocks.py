# SPDX-License-Identifier: BSD-2-Clause
"""The four clocks: each says what is so at one moment, and every wait has an end."""

import pytest

from pipecat_async_tools import ChannelState, ClockParams, ConfigurationError
from pipecat_async_tools.delivery.clocks import (
    CallClocks,
    CallerClock,
    OperationsClock,
    PlaybackClock,
    ResponseClock,
)

PARAMS = ClockParams(
    answer_timeout_secs=3.0,
    speech_timeout_secs=60.0,
    silent_turn_secs=2.0,
    response_timeout_secs=10.0,
    audio_timeout_secs=4.0,
)


@pytest.mark.parametrize("name", list(vars(ClockParams())))
@pytest.mark.parametrize("value", [0, -1.5])
def test_a_time_out_that_is_none_is_refused_by_name(name, value):
    with pytest.raises(ConfigurationError, match=f"{name}={value}"):
        ClockParams(**{name: value})


class TestCaller:
    @pytest.fixture
    def caller(self):
        return CallerClock(PARAMS)

    def test_a_new_call_is_silent_and_owes_nothing(self, caller):
        assert not caller.is_speaking(0.0)
        assert not caller.turn_holds(0.0)
        assert not caller.answer_owed(0.0)

    def test_voice_activity_says_who_speaks(self, caller):
        caller.vad_started(1.0)
        assert caller.is_speaking(1.5)
        caller.vad_stopped(2.0)
        assert not caller.is_speaking(2.0)

    def test_a_turn_holds_while_the_caller_pauses_in_it(self, caller):
        caller.vad_started(1.0)
        caller.turn_started(1.0)
        caller.vad_stopped(2.0)
        assert caller.turn_holds(3.9)
        caller.vad_started(3.9)
        assert caller.turn_holds(9.0)

    def test_the_end_of_a_turn_ends_it_at_once(self, caller):
        caller.vad_started(1.0)
        caller.turn_started(1.0)
        caller.vad_stopped(2.0)
        caller.turn_stopped(2.4)
        assert not caller.turn_holds(2.4)

    def test_a_cough_does_not_hold_the_turn_until_its_own_time_out(self, caller):
        caller.vad_started(1.0)
        caller.turn_started(1.0)
        caller.vad_stopped(1.25)
        assert caller.turn_holds(3.2)
        assert not caller.turn_holds(3.25)
        assert not caller.answer_owed(3.25)

    def test_a_lost_end_of_speech_is_given_up(self, caller):
        caller.vad_started(1.0)
        caller.turn_started(1.0)
        assert caller.is_speaking(60.9)
        assert not caller.is_speaking(61.0)
        assert not caller.turn_holds(61.0)

    def test_without_voice_activity_the_turn_says_who_speaks(self, caller):
        caller.turn_started(1.0)
        assert caller.is_speaking(9.0)
        assert caller.turn_holds(9.0)
        caller.turn_stopped(9.5)
        assert not caller.is_speaking(9.5)
        assert not caller.turn_holds(9.5)
        assert caller.quiet_since == 9.5

    def test_without_voice_activity_a_lost_end_of_turn_is_given_up(self, caller):
        caller.turn_started(1.0)
        assert not caller.is_speaking(61.0)
        assert not caller.turn_holds(61.0)

    def test_with_voice_activity_a_turn_that_starts_on_text_alone_is_silent(self, caller):
        caller.vad_started(0.1)
        caller.vad_stopped(0.2)
        caller.turn_started(5.0)
        assert not caller.is_speaking(5.1)
        assert caller.turn_holds(5.1)

    def test_voice_that_stops_before_it_was_seen_to_start_counts_as_voice_activity(self, caller):
        caller.vad_stopped(1.0)
        caller.turn_started(1.1)
        assert not caller.is_speaking(1.2)

    def test_with_voice_activity_the_end_of_a_turn_is_not_the_end_of_speech(self, caller):
        caller.vad_started(1.0)
        caller.turn_started(1.0)
        caller.turn_stopped(2.0)
        assert caller.is_speaking(2.5)
        assert caller.quiet_since == 1.0

    def test_words_are_owed_an_answer_until_it_comes(self, caller):
        caller.turn_started(1.0)
        caller.turn_stopped(2.0)
        caller.said_words(2.0)
        assert caller.answer_owed(4.9)
        caller.answered()
        assert not caller.answer_owed(2.1)

    def test_the_words_of_a_turn_come_a_moment_after_its_end(self, caller):
        caller.turn_started(1.0)
        assert not caller.answer_owed(1.9)
        caller.turn_stopped(2.0)
        assert caller.answer_owed(2.29)
        assert not caller.answer_owed(2.31)

    def test_a_turn_without_words_was_just_empty(self, caller):
        caller.turn_started(1.0)
        assert not caller.was_just_empty(1.5)
        caller.turn_stopped(2.0)
        assert caller.was_just_empty(2.4) and not caller.was_just_empty(2.6)
        caller.turn_started(3.0)
        caller.said_words(4.0)
        caller.turn_stopped(4.0)
        assert not caller.was_just_empty(4.1)

    def test_an_answer_that_nobody_begins_is_given_up(self, caller):
        caller.said_words(2.0)
        assert caller.answer_owed(4.9)
        assert not caller.answer_owed(5.0)

    def test_a_new_turn_voids_the_answer_owed_to_the_last(self, caller):
        caller.said_words(2.0)
        caller.turn_started(2.5)
        assert not caller.answer_owed(2.6)

    def test_turns_have_ids_of_their_own(self, caller):
        ids = [caller.turn_id]
        for now in (1.0, 2.0):
            caller.turn_started(now)
            ids.append(caller.turn_id)
        assert len(set(ids)) == 3


class TestResponse:
    @pytest.fixture
    def response(self):
        return ResponseClock(PARAMS)

    def test_a_response_is_in_flight_from_the_request_to_its_end(self, response):
        assert not response.in_flight(0.0)
        response.requested(1.0)
        assert response.in_flight(1.0)
        response.started(2.0)
        assert response.in_flight(11.5)
        response.ended(11.5)
        assert not response.in_flight(11.5)
        assert response.ended_at == 11.5

    def test_overlapping_responses_are_counted(self, response):
        response.started(1.0)
        response.started(2.0)
        response.ended(3.0)
        assert response.in_flight(3.0)
        response.ended(4.0)
        assert not response.in_flight(4.0)

    def test_a_stray_end_does_not_end_the_next_response(self, response):
        response.ended(0.5)
        response.started(1.0)
        assert response.in_flight(1.5)

    def test_a_request_that_nothing_answers_is_given_up(self, response):
        response.requested(1.0)
        assert response.in_flight(10.9)
        assert not response.in_flight(11.0)

    def test_a_response_whose_end_is_lost_is_given_up(self, response):
        response.started(1.0)
        assert response.in_flight(10.9)
        assert not response.in_flight(11.0)

    def test_words_keep_a_long_response_in_flight(self, response):
        response.started(1.0)
        response.words(9.0)
        assert response.in_flight(18.9)
        assert not response.in_flight(19.0)

    def test_words_belong_to_the_latest_response(self, response):
        response.started(1.0)
        assert not response.has_words
        response.words(1.5)
        assert response.has_words
        response.started(2.0)
        assert not response.has_words

    def test_an_interruption_cancels_all_of_them(self, response):
        response.started(1.0)
        response.started(1.0)
        response.requested(1.5)
        response.interrupted(2.0)
        assert not response.in_flight(2.0)
        assert response.ended_at == 2.0


class TestPlayback:
    @pytest.fixture
    def playback(self):
        return PlaybackClock(PARAMS)

    def play(self, playback, *, since, secs, chunk_secs=0.1):
        """Let audio leave the output in real time."""
        for i in range(round(secs / chunk_secs)):
            playback.audio(chunk_secs, since + i * chunk_secs)

    def test_a_new_call_is_silent(self, playback):
        assert not playback.is_busy(0.0)
        assert not playback.is_busy(100.0)

    def test_it_is_busy_between_started_and_the_first_audio(self, playback):
        playback.handed_over(100.0)
        playback.bot_started(100.5)
        assert playback.is_busy(100.5)
        assert playback.is_busy(100.6)

    def test_it_is_busy_while_audio_is_heard_and_free_right_after_stopped(self, playback):
        playback.bot_started(1.0)
        self.play(playback, since=1.0, secs=2.0)
        assert playback.is_busy(2.9)
        playback.bot_stopped(3.4)
        assert not playback.is_busy(3.4)
        assert playback.audible_until == 3.4

    def test_a_late_stopped_keeps_it_busy_a_little_longer(self, playback):
        playback.bot_started(1.0)
        self.play(playback, since=1.0, secs=1.0)
        assert playback.is_busy(2.5)

    def test_a_lost_stopped_is_given_up(self, playback):
        playback.bot_started(1.0)
        self.play(playback, since=1.0, secs=1.0)
        assert playback.is_busy(5.9)
        assert not playback.is_busy(6.0 + 1e-6)

    def test_a_started_without_any_audio_is_given_up(self, playback):
        playback.bot_started(100.0)
        assert not playback.is_busy(104.0)

    def test_a_stray_stopped_does_not_silence_what_is_heard(self, playback):
        playback.audio(2.0, 1.0)
        playback.bot_stopped(1.1)
        assert playback.is_busy(2.9)
        assert not playback.is_busy(3.0)

    def test_stopped_between_two_halves_of_a_response_is_not_its_end(self, playback):
        playback.expect(7, 0.5)
        playback.bot_started(1.0)
        self.play(playback, since=1.0, secs=1.0)
        playback.bot_stopped(2.0)
        assert playback.is_busy(3.0)
        playback.bot_started(3.0)
        self.play(playback, since=3.0, secs=1.0)
        playback.arrived(7)
        playback.bot_stopped(4.0)
        assert not playback.is_busy(4.0 + 1e-6)

    def test_unpaced_audio_is_waited_out(self, playback):
        playback.bot_started(1.0)
        for _ in range(3):
            playback.audio(1.0, 1.0)
        playback.bot_stopped(1.02)
        assert playback.is_busy(3.9)
        assert not playback.is_busy(4.0)

    def test_words_handed_over_are_waited_for(self, playback):
        playback.handed_over(10.0)
        assert playback.is_busy(13.9)

    def test_words_that_bring_no_sound_are_given_up(self, playback):
        playback.handed_over(10.0)
        assert not playback.is_busy(14.0)

    def test_the_end_of_a_response_that_never_arrives_is_given_up(self, playback):
        playback.expect(7, 10.0)
        assert playback.is_busy(13.9)
        assert not playback.is_busy(14.0)

    def test_its_time_out_counts_from_the_last_audio(self, playback):
        playback.expect(7, 10.0)
        playback.audio(1.0, 13.0)
        assert playback.is_busy(17.9)
        assert not playback.is_busy(18.0)

    def test_two_responses_on_their_way_are_both_waited_for(self, playback):
        playback.expect(7, 10.0)
        playback.expect(8, 10.0)
        playback.arrived(7)
        assert playback.is_busy(11.0)
        playback.arrived(8)
        assert not playback.is_busy(11.0)

    def test_the_last_response_that_arrives_also_ends_the_wait_for_its_words(self, playback):
        playback.handed_over(10.0)
        playback.expect(7, 10.0)
        playback.arrived(7)
        assert not playback.is_busy(10.1)

    def test_an_interruption_throws_away_what_was_on_its_way(self, playback):
        playback.handed_over(10.0)
        playback.expect(7, 10.0)
        playback.audio(5.0, 10.0)
        playback.interrupted(11.0)
        assert not playback.is_busy(11.0)
        assert playback.audible_until == 11.0

    def test_an_interruption_does_not_make_silence_sound(self, playback):
        playback.audio(1.0, 1.0)
        playback.interrupted(50.0)
        assert playback.audible_until == 2.0


def test_operations_are_counted_while_they_live():
    operations = OperationsClock()
    operations.accepted("a")
    operations.accepted("b")
    operations.accepted("a")
    assert operations.alive == 2
    operations.settled("a")
    operations.settled("a")
    operations.settled("never seen")
    assert operations.alive == 1


class TestChannel:
    @pytest.fixture
    def clocks(self):
        return CallClocks(PARAMS, channel="twilio")

    def test_a_new_call_is_free(self, clocks):
        assert clocks.channel(0.0) == ChannelState(name="twilio")

    def test_each_clock_has_its_field(self, clocks):
        clocks.caller.vad_started(100.0)
        assert clocks.channel(100.0) == ChannelState(name="twilio", caller_speaking=True)
        clocks.caller.vad_stopped(100.0)
        clocks.caller.turn_started(100.0)
        assert clocks.channel(100.0) == ChannelState(name="twilio", turn_open=True)
        clocks.caller.turn_stopped(100.0)
        clocks.caller.said_words(100.0)
        assert clocks.channel(100.0) == ChannelState(name="twilio", answer_owed=True)
        clocks.caller.answered()
        clocks.response.started(100.0)
        assert clocks.channel(100.0) == ChannelState(name="twilio", response_in_flight=True)
        clocks.response.ended(100.0)
        clocks.playback.bot_started(100.0)
        assert clocks.channel(100.0) == ChannelState(name="twilio", bot_audio=True)
        clocks.playback.bot_stopped(100.0)
        clocks.operations.accepted("op-1")
        assert clocks.channel(100.0) == ChannelState(name="twilio", operations_alive=1)

    @pytest.mark.parametrize(
        "last_active",
        [
            lambda clocks: clocks.caller.vad_stopped(5.0),
            lambda clocks: clocks.response.ended(5.0),
            lambda clocks: clocks.playback.bot_stopped(5.0),
        ],
        ids=["caller", "response", "playback"],
    )
    def test_quiet_counts_from_whoever_was_active_last(self, clocks, last_active):
        clocks.caller.vad_stopped(1.0)
        clocks.response.ended(1.0)
        clocks.playback.bot_stopped(1.0)
        last_active(clocks)
        assert clocks.channel(7.0).quiet_secs == 2.0

    def test_quiet_is_never_negative(self, clocks):
        clocks.playback.audio(3.0, 1.0)
        assert clocks.channel(2.0).quiet_secs == 0.0

    def test_operations_do_not_disturb_the_quiet(self, clocks):
        clocks.operations.accepted("op-1")
        assert clocks.channel(9.0).quiet_secs == 9.0

    def test_everything_that_was_lost_is_given_up_in_the_end(self, clocks):
        clocks.caller.vad_started(1.0)
        clocks.caller.turn_started(1.0)
        clocks.caller.said_words(1.0)
        clocks.response.requested(1.0)
        clocks.response.started(1.0)
        clocks.playback.handed_over(1.0)
        clocks.playback.expect(7, 1.0)
        clocks.playback.bot_started(1.0)
        state = clocks.channel(100.0)
        assert state == ChannelState(name="twilio", quiet_secs=state.quiet_secs)
        assert state.quiet_secs == pytest.approx(99.0)
