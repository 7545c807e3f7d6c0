# SPDX-License-Identifier: BSD-2-Clause
"""What was cut off is told again: shorter, later, and in the end not at all."""

import pytest

from pipecat_async_tools import DeliveryPolicy
from pipecat_async_tools.testing import virtual_time
from tests.conversations.facts import TWENTY_WORDS
from tests.conversations.judging import times_heard
from tests.conversations.mind import words_of
from tests.policy.talk import bot, both_doors, delivery_about, heard_out, said

RESULT = {"slot": "10:00", "where": "Mill Lane"}
OFFER = "There is news about your slot, shall I tell you?"


def cut_off(door, *barge_ins, lasting=0.8, text="Hold on a second.", **options):
    """The update becomes ready at 4; the caller begins to speak at these moments."""
    call = bot(door, {"check_slots": {}}, [TWENTY_WORDS], **options)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result=RESULT)
    call.model_says(OFFER, when="offer the details")
    for at in barge_ins:
        if text:
            call.user_asks(text, at=at, until=at + lasting, answer="Sure.")
        else:
            call.user_says(at=at, until=at + lasting, text=None)
    return call


@both_doors
@virtual_time
async def test_each_time_only_the_rest_is_told_and_it_must_be_quiet_for_longer(door):
    timeline = await heard_out(cut_off(door, 6.0), 30)
    first, second = delivery_about(timeline, "check_slots").tellings
    assert (first.outcome, second.outcome) == ("interrupted", "completed")
    assert words_of(first.heard) + words_of(second.heard) == TWENTY_WORDS.words
    answer = said(timeline, "Sure.")
    assert second.started_at - answer.ended_at == pytest.approx(2 * 0.65 + 0.3 + 0.4, abs=0.2)


@both_doors
@virtual_time
async def test_the_third_time_the_details_are_only_offered(door):
    timeline = await heard_out(cut_off(door, 6.0, 11.5), 40)
    delivery = delivery_about(timeline, "check_slots")
    assert [t.outcome for t in delivery.tellings] == ["interrupted", "interrupted", "completed"]
    assert all(t.ended_at - t.started_at > 1.0 for t in delivery.tellings)
    assert delivery.tellings[-1].heard == OFFER and delivery.state == "spoken"
    # The model can tell it when the caller asks.
    (record,) = [m for m in timeline.context if str(m.get("content")).startswith("[UPDATE OFFERED]")]
    assert "10:00" in record["content"] and times_heard(timeline, TWENTY_WORDS) == 0


@both_doors
@virtual_time
async def test_an_echo_makes_it_wait_for_the_callers_next_turn(door):
    call = cut_off(door)
    # Our own voice comes back: a noise within the first moments of every telling.
    for noise in (4.6, 8.4):
        call.user_says(at=noise, until=noise + 0.5, text=None)
    call.user_asks("Are you still there?", at=17.0, until=18.0, answer="Yes.")
    timeline = await heard_out(call, 30)
    delivery = delivery_about(timeline, "check_slots")
    cut = [t for t in delivery.tellings if t.outcome == "interrupted"]
    assert len(cut) == 2 and all(t.ended_at - t.started_at <= 1.0 for t in cut)
    assert delivery.mode == "next_turn" and delivery.state == "spoken"
    assert not any(9.0 < u.started_at < 18.0 and "Brown" in u.text for u in timeline.heard)
    assert "Yes." in said(timeline, "Yes.").text


@both_doors
@virtual_time
async def test_the_suspicion_of_an_echo_ends(door):
    call = cut_off(door)
    for noise in (4.6, 8.4):
        call.user_says(at=noise, until=noise + 0.5, text=None)
    timeline = await heard_out(call, 45)
    delivery = delivery_about(timeline, "check_slots")
    last_cut, *_, told = [t for t in delivery.tellings if t.outcome != "withdrawn"][1:]
    assert told.outcome == "completed" and told.started_at - last_cut.ended_at > 19.0


@both_doors
@virtual_time
async def test_where_the_bot_is_interrupted_all_the_time_it_waits_for_the_next_turn(door):
    call = bot(door, {"check_slots": {}}, [TWENTY_WORDS])
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    for at in (4.0, 7.0, 10.0, 13.0, 16.0):
        call.user_asks(
            "Tell me about the house.",
            at=at,
            until=at + 0.6,
            answer="We have three doctors here and two nurses.",
        )
    call.tool_finishes("check_slots", at=18.9, result=RESULT)
    call.user_asks("Enough of that.", at=26.0, until=27.0, answer="Very well.")
    timeline = await heard_out(call, 40)
    assert len(timeline.interruptions) >= 5
    delivery = delivery_about(timeline, "check_slots")
    assert delivery.mode == "next_turn" and delivery.state == "spoken"
    assert "Very well." in said(timeline, "Doctor Brown").text


@both_doors
@virtual_time
async def test_after_its_last_attempt_it_is_a_dead_letter(door):
    call = cut_off(
        door, delivery=DeliveryPolicy(max_tellings=1), call={"voice": "silent", "expect_errors": True}
    )
    timeline = await heard_out(call, 40)
    delivery = delivery_about(timeline, "check_slots")
    assert (delivery.state, delivery.reason) == ("undeliverable", "gave up after 2 attempts")
    letters = await call.async_tools._store.dead_letters()
    assert [letter.kind for letter in letters] == ["delivery"]
