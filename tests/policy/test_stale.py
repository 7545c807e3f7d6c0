# SPDX-License-Identifier: BSD-2-Clause
"""What is no longer worth saying is stored and not told (C9, D12)."""

import pytest

from pipecat_async_tools import DeliveryPolicy
from pipecat_async_tools.testing import virtual_time
from tests.conversations.facts import FRIDAY, SLOT
from tests.conversations.judging import times_heard
from tests.policy.talk import bot, both_doors, heard_out

SLOTS = {"supersedes": lambda arguments: "slots"}
THURSDAY = {"slot": "10:00"}


def changes_their_mind(door, options=SLOTS, **more):
    """The caller asks for Thursday, and then for Friday instead."""
    call = bot(door, {"check_slots": options}, [SLOT, FRIDAY], **more)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.user_asks("No, what about Friday?", at=4.0, until=5.0, answer="Let me see.", calls=["check_slots"])
    return call


def by_request(timeline):
    return {
        d.operations[0].arguments.get("asked") or d.operations[0].tool_call_id: d for d in timeline.deliveries
    }


@both_doors
@pytest.mark.parametrize("at", [3.0, 4.5, 5.5, 6.4, 7.0, 8.9, 9.5, 11.0])
@virtual_time
async def test_c9_what_a_newer_request_replaced_is_stored_and_not_told(door, at):
    call = changes_their_mind(door)
    call.tool_finishes("check_slots", nth=0, at=at, result=THURSDAY)
    call.tool_finishes("check_slots", nth=1, at=9.0, result={"slot": "12:00"})
    timeline = await heard_out(call, 20)
    old, new = sorted(timeline.deliveries, key=lambda d: d.operations[0].accepted_at)
    assert times_heard(timeline, FRIDAY) == 1 and new.state == "spoken"
    if at > 5.7:
        assert (old.state, old.reason) == ("suppressed", "a newer request replaced it")
        assert times_heard(timeline, SLOT) == 0
    assert old.operations[0].result == THURSDAY and timeline.history_problems() == []


@both_doors
@virtual_time
async def test_d12_an_old_result_is_not_told_while_the_newer_request_still_runs(door):
    call = changes_their_mind(door)
    call.tool_finishes("check_slots", nth=0, at=7.0, result=THURSDAY)
    call.tool_finishes("check_slots", nth=1, at=14.0, result={"slot": "12:00"})
    timeline = await heard_out(call, 12)
    assert [d.state for d in timeline.deliveries] == ["suppressed"]
    assert times_heard(timeline, SLOT) == 0


@both_doors
@virtual_time
async def test_without_a_subject_nothing_is_replaced(door):
    call = changes_their_mind(door, {})
    call.tool_finishes("check_slots", nth=0, at=7.0, result=THURSDAY)
    call.tool_finishes("check_slots", nth=1, at=9.0, result={"slot": "12:00"})
    timeline = await heard_out(call, 20)
    assert times_heard(timeline, SLOT) == times_heard(timeline, FRIDAY) == 1


@both_doors
@virtual_time
async def test_what_was_told_already_is_corrected(door):
    call = changes_their_mind(door)
    call.tool_finishes("check_slots", nth=0, at=3.0, result=THURSDAY)
    call.user_asks("Look again, please.", at=12.0, until=13.0, answer="Sure.", calls=["check_slots"])
    call.tool_finishes("check_slots", nth=1, at=7.0, result={"slot": "10:00"})
    call.tool_finishes("check_slots", nth=2, at=16.0, result={"slot": "12:00"})
    timeline = await heard_out(call, 24)
    *_, changed = sorted(timeline.deliveries, key=lambda d: d.operations[0].accepted_at)
    assert changed.correction and changed.state == "spoken"
    assert "say that it has changed" in timeline.model_runs[-1].last_message["content"]
    assert times_heard(timeline, FRIDAY) == 1


@both_doors
@virtual_time
async def test_d12_a_result_past_its_limit_is_not_told(door):
    call = bot(door, {"check_slots": {"expires_after_secs": 3.0}}, [SLOT])
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY)
    call.user_says(at=3.8, until=9.0, text=None)
    timeline = await heard_out(call, 20)
    (delivery,) = timeline.deliveries
    assert (delivery.state, delivery.reason) == ("suppressed", "older than 3 s")
    assert times_heard(timeline, SLOT) == 0


@both_doors
@virtual_time
async def test_the_application_may_call_it_stale(door):
    policy = DeliveryPolicy(is_stale=lambda envelope, channel: "10:00" in str(envelope.operations[0].result))
    call = bot(door, {"check_slots": {}}, [SLOT], delivery=policy)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY)
    timeline = await heard_out(call, 10)
    (delivery,) = timeline.deliveries
    assert (delivery.state, delivery.reason) == ("suppressed", "the application calls it stale")
    assert times_heard(timeline, SLOT) == 0
