# SPDX-License-Identifier: BSD-2-Clause
"""What is urgent goes first (C10, D12)."""

import pytest

from pipecat_async_tools import DeliveryPolicy
from pipecat_async_tools.testing import virtual_time
from tests.conversations.facts import TWENTY_WORDS
from tests.conversations.judging import context_difference, times_heard
from tests.policy.talk import ALARM, HOUSE, bot, both_doors, delivery_about, heard_out, said, texts

URGENT = {"priority": "urgent"}
SMOKE = {"alarm": "smoke"}


def watched(door, alarm=URGENT, **options):
    """A caller who has asked for a slot and for the alarm to be watched."""
    call = bot(door, {"check_slots": {}, "watch_alarm": alarm}, [TWENTY_WORDS, ALARM], **options)
    call.user_asks("Watch the alarm.", at=0.5, until=1.5, answer="Sure.", calls=["watch_alarm"])
    call.user_asks("Is Thursday free?", at=3.0, until=4.0, answer="One moment.", calls=["check_slots"])
    return call


@both_doors
@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.5, 1.5, 3.0])
@virtual_time
async def test_c10_an_urgent_result_cuts_in_on_a_normal_one_and_both_are_heard(door, shift):
    call = watched(door)
    call.tool_finishes("check_slots", at=6.0, result={"slot": "10:00", "where": "Mill Lane"})
    call.tool_finishes("watch_alarm", at=8.0 + shift, result=SMOKE)
    timeline = await heard_out(call, 30)
    normal, urgent = delivery_about(timeline, "check_slots"), delivery_about(timeline, "watch_alarm")
    cut_off = normal.tellings[0]
    assert cut_off.outcome == "interrupted" and cut_off.started_at < 8.0 + shift
    assert urgent.tellings[0].started_at < normal.tellings[-1].started_at
    assert (urgent.state, normal.state) == ("spoken", "spoken")
    assert times_heard(timeline, ALARM) == times_heard(timeline, TWENTY_WORDS) == 1
    assert not context_difference(timeline) and not timeline.history_problems()


@both_doors
@virtual_time
async def test_it_cuts_off_the_bots_own_answer(door):
    call = watched(door)
    call.tool_hangs("check_slots")
    call.user_asks("Tell me about the house.", at=6.0, until=7.0, answer=HOUSE)
    call.tool_finishes("watch_alarm", at=9.5, result=SMOKE)
    timeline = await heard_out(call, 20)
    answer, alarm = said(timeline, "We are three"), said(timeline, ALARM.sentence)
    assert answer.started_at < 9.5 and answer.ended_at == pytest.approx(9.5, abs=0.1)
    assert alarm.started_at == pytest.approx(9.5 + 0.4, abs=0.1)


@both_doors
@virtual_time
async def test_where_the_channel_may_not_be_interrupted_it_waits_for_the_end_of_playback(door):
    policy = DeliveryPolicy(may_interrupt=lambda envelope, channel: channel.name != "twilio")
    call = watched(door, delivery=policy, channel="twilio")
    call.tool_hangs("check_slots")
    call.user_asks("Tell me about the house.", at=6.0, until=7.0, answer=HOUSE)
    call.tool_finishes("watch_alarm", at=9.5, result=SMOKE)
    timeline = await heard_out(call, 25)
    answer, alarm = said(timeline, "We are three"), said(timeline, ALARM.sentence)
    assert answer.text == HOUSE and answer.ended_at < alarm.started_at


@both_doors
@virtual_time
async def test_it_waits_for_the_caller(door):
    call = watched(door)
    call.tool_hangs("check_slots")
    call.user_asks(
        "My address is Mill Lane, number four, second floor.", at=6.0, until=10.0, answer="Thanks."
    )
    call.tool_finishes("watch_alarm", at=8.0, result=SMOKE)
    timeline = await heard_out(call, 20)
    assert said(timeline, ALARM.sentence).started_at > 10.0
    assert timeline.talked_over() == []
    assert delivery_about(timeline, "watch_alarm").mode == "proactive"


@both_doors
@virtual_time
async def test_with_interrupt_caller_it_does_not_even_wait_for_the_caller(door):
    call = watched(door, {**URGENT, "interrupt_caller": True})
    call.tool_hangs("check_slots")
    call.user_asks(
        "My address is Mill Lane, number four, second floor.", at=6.0, until=12.0, answer="Thanks."
    )
    call.tool_finishes("watch_alarm", at=8.0, result=SMOKE)
    timeline = await heard_out(call, 20)
    alarm = said(timeline, "smoke")
    assert alarm.started_at == pytest.approx(8.0, abs=0.2)
    assert delivery_about(timeline, "watch_alarm").state == "spoken"
    # The caller is answered all the same.
    assert said(timeline, "Thanks.").started_at > 12.0


@both_doors
@virtual_time
async def test_what_is_uninterruptible_is_heard_to_its_end_whatever_the_caller_says(door):
    call = watched(door, {**URGENT, "interruptible": False, "summary": lambda result: ALARM.sentence})
    call.tool_hangs("check_slots")
    call.tool_finishes("watch_alarm", at=7.0, result={**SMOKE, "summary": ALARM.sentence})
    call.user_asks("Hold on a second.", at=7.6, until=8.4, answer="What is it?")
    timeline = await heard_out(call, 20)
    assert any(7.0 < at < 8.5 for at in timeline.interruptions)
    alarm = said(timeline, "There is smoke")
    assert alarm.started_at < 7.6 and "There is smoke in the kitchen." in alarm.text
    delivery = delivery_about(timeline, "watch_alarm")
    assert [(t.outcome, t.heard) for t in delivery.tellings] == [("completed", ALARM.sentence)]
    assert said(timeline, "What is it?")


@both_doors
@pytest.mark.parametrize(("result", "cuts"), [({"alarm": "smoke"}, True), ({"calm": "smoke"}, False)])
@virtual_time
async def test_the_priority_may_depend_on_the_outcome(door, result, cuts):
    call = watched(door, {"priority": lambda o: "urgent" if "alarm" in o.result else "normal"})
    call.tool_hangs("check_slots")
    call.user_asks("Tell me about the house.", at=6.0, until=7.0, answer=HOUSE)
    call.tool_finishes("watch_alarm", at=9.5, result=result)
    timeline = await heard_out(call, 25)
    assert (HOUSE in texts(timeline)) != cuts
    assert times_heard(timeline, ALARM) == 1
