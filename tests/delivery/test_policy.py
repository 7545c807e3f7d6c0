# SPDX-License-Identifier: BSD-2-Clause
"""The table of the gate, row by row and in its order."""

import pytest

from pipecat_async_tools import (
    AttachToNextResponse,
    ConfigurationError,
    DeliverNow,
    DeliveryPolicy,
    QueueAfterPlayback,
    QueueUntilQuiet,
    SuppressAndPersist,
)
from tests.builders import FREE, channel, envelope, failed, succeeded, telling

POLICY = DeliveryPolicy(min_quiet_secs=0.65)
BUSY = channel(caller_speaking=True, bot_audio=True, turn_open=True, answer_owed=True, quiet_secs=0.0)


def choose(delivery=None, state=FREE, *, now=1.0, superseded=False, policy=POLICY):
    return policy.choose(delivery or envelope(), state, now, superseded=superseded)


class TestRow1NoLongerWorthSaying:
    def test_superseded_is_suppressed(self):
        assert choose(superseded=True) == SuppressAndPersist(reason="a newer request replaced it")

    def test_expired_is_suppressed(self):
        delivery = envelope(ready_at=10.0, expires_after_secs=30.0)
        assert choose(delivery, now=39.9) == DeliverNow(reason="the channel is free")
        assert choose(delivery, now=40.0) == SuppressAndPersist(reason="older than 30 s")

    @pytest.mark.parametrize("delivery", [envelope(), envelope(priority="urgent")])
    def test_it_comes_before_every_other_row(self, delivery):
        assert isinstance(choose(delivery, BUSY, superseded=True), SuppressAndPersist)

    def test_without_an_expiry_it_is_worth_saying_for_ever(self):
        assert isinstance(choose(envelope(waiting_since=1e9), now=1e9), DeliverNow)

    def test_the_application_may_call_it_stale(self):
        policy = DeliveryPolicy(is_stale=lambda envelope, channel: channel.name == "twilio")
        assert isinstance(policy.choose(envelope(), FREE, 1.0), DeliverNow)
        decision = policy.choose(envelope(), channel(name="twilio"), 1.0)
        assert decision == SuppressAndPersist(reason="the application calls it stale")


class TestRow2NotToBeSpoken:
    def test_never(self):
        assert choose(envelope(speak="never")) == SuppressAndPersist(reason="not to be spoken")

    def test_on_failure_when_it_succeeded(self):
        assert isinstance(choose(envelope(succeeded(), speak="on_failure")), SuppressAndPersist)

    def test_on_failure_when_one_of_them_failed(self):
        assert isinstance(choose(envelope(succeeded(), failed(), speak="on_failure")), DeliverNow)

    def test_on_failure_when_it_corrects_a_failure_that_was_told(self):
        delivery = envelope(succeeded(), speak="on_failure", correction=True)
        assert isinstance(choose(delivery), DeliverNow)

    def test_it_comes_before_urgency_and_before_every_wait(self):
        delivery = envelope(speak="never", priority="urgent")
        assert isinstance(choose(delivery, BUSY), SuppressAndPersist)


class TestRow3Urgent:
    def test_it_cuts_off_the_bot(self):
        assert choose(envelope(priority="urgent"), channel(bot_audio=True, quiet_secs=0.0)) == DeliverNow(
            reason="urgent", interrupt=True
        )

    def test_it_cuts_off_the_answer_to_the_caller(self):
        state = channel(bot_audio=True, response_in_flight=True, answer_owed=True, turn_open=True)
        assert choose(envelope(priority="urgent"), state) == DeliverNow(reason="urgent", interrupt=True)

    def test_it_never_talks_over_the_caller(self):
        state = channel(caller_speaking=True, bot_audio=True)
        assert isinstance(choose(envelope(priority="urgent"), state), QueueUntilQuiet)

    def test_it_needs_no_quiet_window(self):
        decision = choose(envelope(priority="urgent"), channel(quiet_secs=0.0))
        assert decision == DeliverNow(reason="the channel is free", interrupt=False)

    def test_a_normal_one_cuts_off_nothing(self):
        assert choose(state=channel(bot_audio=True)) == QueueAfterPlayback(reason="the bot is speaking")


class TestRow4CallerSpeaking:
    def test_it_waits_for_the_quiet_window(self):
        assert choose(state=channel(caller_speaking=True)) == QueueUntilQuiet(
            reason="the caller is speaking", secs=0.65
        )

    def test_it_comes_before_playback_and_turn(self):
        assert isinstance(choose(state=BUSY), QueueUntilQuiet)


class TestRow5BotAudio:
    def test_it_waits_until_the_bot_was_heard_out(self):
        assert isinstance(choose(state=channel(bot_audio=True)), QueueAfterPlayback)

    def test_it_comes_before_the_turn(self):
        state = channel(bot_audio=True, turn_open=True, answer_owed=True, response_in_flight=True)
        assert isinstance(choose(state=state), QueueAfterPlayback)


class TestRow6TurnOpen:
    @pytest.mark.parametrize("field", ["turn_open", "answer_owed", "response_in_flight"])
    @pytest.mark.parametrize("priority", ["normal", "urgent"])
    def test_it_waits_for_the_answer(self, field, priority):
        state = channel(**{field: True})
        assert isinstance(choose(envelope(priority=priority), state), AttachToNextResponse)

    def test_it_comes_before_the_quiet_window(self):
        state = channel(answer_owed=True, quiet_secs=0.0)
        assert isinstance(choose(state=state), AttachToNextResponse)


class TestRow7Quiet:
    def test_it_waits_for_what_is_missing(self):
        decision = choose(state=channel(quiet_secs=0.25))
        assert isinstance(decision, QueueUntilQuiet)
        assert decision.secs == pytest.approx(0.4)

    def test_the_window_ends_when_it_is_reached(self):
        assert isinstance(choose(state=channel(quiet_secs=0.65)), DeliverNow)

    def test_the_window_may_be_nothing(self):
        policy = DeliveryPolicy(min_quiet_secs=0)
        assert isinstance(choose(state=channel(quiet_secs=0.0), policy=policy), DeliverNow)

    def test_the_window_may_be_a_function(self):
        def window(delivery, state):
            return 2.0 if state.name == "twilio" and delivery.correction else 0.1

        policy = DeliveryPolicy(min_quiet_secs=window)
        phone, web = channel(name="twilio", quiet_secs=1.0), channel(name="webrtc", quiet_secs=1.0)
        assert isinstance(choose(envelope(correction=True), phone, policy=policy), QueueUntilQuiet)
        assert isinstance(choose(envelope(), phone, policy=policy), DeliverNow)
        assert isinstance(choose(envelope(correction=True), web, policy=policy), DeliverNow)

    def test_the_window_grows_with_each_attempt_that_failed_up_to_a_limit(self):
        def window_after(attempts, base=0.65):
            tellings = (telling("lost"),) * attempts
            return DeliveryPolicy(min_quiet_secs=base).quiet_secs(envelope(tellings=tellings), FREE)

        assert [window_after(n) for n in (0, 1, 2)] == pytest.approx([0.65, 1.3, 1.95])
        assert window_after(50) == 5.0
        assert window_after(50, base=8.0) == 8.0

    def test_an_attempt_that_never_started_does_not_make_it_grow(self):
        delivery = envelope(tellings=(telling("withdrawn"),) * 5)
        assert POLICY.quiet_secs(delivery, FREE) == 0.65


class TestRow8Free:
    def test_it_is_told_without_interrupting_anybody(self):
        assert choose() == DeliverNow(reason="the channel is free", interrupt=False)

    def test_operations_outside_the_turn_are_no_obstacle(self):
        assert isinstance(choose(state=channel(operations_alive=5)), DeliverNow)


@pytest.mark.parametrize("state", [FREE, BUSY, channel(bot_audio=True), channel(quiet_secs=0.1)])
@pytest.mark.parametrize("priority", ["normal", "urgent"])
def test_the_same_question_has_the_same_answer(state, priority):
    delivery = envelope(priority=priority, expires_after_secs=10.0)
    assert len({choose(delivery, state) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "wrong", [{"min_quiet_secs": -0.1}, {"max_tellings": 0}, {"max_tellings": -1}], ids=str
)
def test_a_number_that_cannot_be_is_refused_by_name(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(ConfigurationError, match=f"{name}={value}"):
        DeliveryPolicy(**wrong)
