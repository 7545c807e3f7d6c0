# SPDX-License-Identifier: BSD-2-Clause
"""What is told together, and when (DESIGN.md 4.2)."""

import pytest

from pipecat_async_tools import BatchPolicy, ConfigurationError
from pipecat_async_tools.testing import Call, native_tool, virtual_time
from tests.conversations.facts import SLOT
from tests.conversations.judging import times_heard
from tests.policy.talk import PRICE, bot, both_doors, delivery_about, heard_out, said, texts

BOTH = {"check_slots": {}, "find_price": {}}


def two_turns(door, tools=BOTH, facts=(SLOT, PRICE), **options):
    call = bot(door, tools, list(facts), **options)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.user_asks("And what does it cost?", at=4.0, until=5.0, answer="Let me see.", calls=["find_price"])
    return call


@both_doors
@virtual_time
async def test_in_session_scope_a_later_turn_joins_the_open_batch_and_all_is_told_in_one(door):
    call = two_turns(door, batches=BatchPolicy(scope="session"))
    call.tool_finishes("check_slots", at=7.5, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=10.0, result={"price_eur": 40})
    timeline = await heard_out(call, 20)
    (batch,), (delivery,) = timeline.batches, timeline.deliveries
    assert batch.closed and len(batch.operation_ids) == 2 and batch.missing == ()
    assert delivery.state == "spoken" and len(delivery.operations) == 2
    assert said(timeline, SLOT.sentence).started_at > 10.0
    assert times_heard(timeline, SLOT) == times_heard(timeline, PRICE) == 1
    (row,) = await call.async_tools._store.batches("caller-1")
    assert row.closed_at is not None and row.expected == ()


@both_doors
@virtual_time
async def test_a_batch_that_was_over_is_not_joined_any_more(door):
    call = two_turns(door, batches=BatchPolicy(scope="session"))
    call.tool_finishes("check_slots", at=3.5, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=10.0, result={"price_eur": 40})
    timeline = await heard_out(call, 20)
    assert len(timeline.batches) == len(timeline.deliveries) == 2
    assert all(d.state == "spoken" for d in timeline.deliveries)


@both_doors
@virtual_time
async def test_in_group_scope_each_response_has_its_own_update(door):
    call = two_turns(door)
    call.tool_finishes("check_slots", at=7.5, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=12.0, result={"price_eur": 40})
    timeline = await heard_out(call, 20)
    assert len(timeline.batches) == 2 and said(timeline, SLOT.sentence).ended_at < 12.0


@both_doors
@virtual_time
async def test_the_application_opens_a_batch_over_several_turns_and_closes_it(door):
    call = two_turns(door)
    call.seen["id"] = call.async_tools.open_batch("trip", priority="urgent")
    call.tool_finishes("check_slots", at=3.5, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=7.5, result={"price_eur": 40})
    call.at(11.0, call.async_tools.close_batch)
    timeline = await heard_out(call, 20)
    (delivery,) = timeline.deliveries
    assert delivery.batch_id == call.seen["id"] and call.seen["id"].startswith("trip-")
    assert delivery.priority == "urgent" and delivery.state == "spoken"
    assert said(timeline, SLOT.sentence).started_at > 11.0
    assert times_heard(timeline, SLOT) == times_heard(timeline, PRICE) == 1


@both_doors
@virtual_time
async def test_closing_it_early_waits_for_its_members(door):
    call = two_turns(door)
    call.async_tools.open_batch("trip")
    call.tool_finishes("check_slots", at=3.5, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=9.5, result={"price_eur": 40})
    call.at(7.0, call.async_tools.close_batch)
    timeline = await heard_out(call, 20)
    (delivery,) = timeline.deliveries
    assert said(timeline, SLOT.sentence).started_at > 9.5 and delivery.state == "spoken"


@virtual_time
async def test_one_batch_at_a_time_is_open():
    async_tools = bot("async_tool", {}, []).async_tools
    with pytest.raises(ConfigurationError, match="call open_batch"):
        await async_tools.close_batch()
    async_tools.open_batch("trip")
    with pytest.raises(ConfigurationError, match="call close_batch"):
        async_tools.open_batch("dinner")
    with pytest.raises(ConfigurationError, match="name"):
        async_tools.open_batch("")
    with pytest.raises(ConfigurationError, match="priority"):
        async_tools.open_batch("trip", priority="high")


@both_doors
@virtual_time
async def test_after_its_longest_wait_what_is_there_is_told_and_then_only_the_rest(door):
    call = bot(door, BOTH, [SLOT, PRICE], batches=BatchPolicy(max_wait_secs=4.0))
    both = ["check_slots", "find_price"]
    call.user_asks("Is Thursday free, and at what price?", at=0.5, until=1.5, answer="Sure.", calls=both)
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=14.0, result={"price_eur": 40})
    timeline = await heard_out(call, 25)
    part, rest = timeline.deliveries
    assert (part.partial, rest.partial) == (True, False)
    assert [o.tool for o in part.operations] == ["check_slots"]
    assert [o.tool for o in rest.operations] == ["find_price"]
    assert 6.0 < said(timeline, SLOT.sentence).started_at < 8.0 < said(timeline, PRICE.sentence).started_at
    assert times_heard(timeline, SLOT) == times_heard(timeline, PRICE) == 1
    asked = [r.last_message["content"] for r in timeline.model_runs if "[UPDATE DUE]" in str(r.last_message)]
    assert ["the rest is still being worked on" in a for a in asked] == [True, False]
    # The store knows both as told.
    rows = await call.async_tools._store.deliveries("caller-1")
    assert [row.state for row in rows] == ["spoken", "spoken"]
    assert {d.delivery_id for d in timeline.deliveries} == {row.delivery_id for row in rows}


@both_doors
@virtual_time
async def test_a_member_that_asks_for_silence_is_in_the_context_only(door):
    call = bot(door, {"check_slots": {}, "find_price": {"speak": "never"}}, [SLOT, PRICE])
    both = ["check_slots", "find_price"]
    call.user_asks("Is Thursday free, and at what price?", at=0.5, until=1.5, answer="Sure.", calls=both)
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00"})
    call.tool_finishes("find_price", at=5.0, result={"price_eur": 40})
    timeline = await heard_out(call, 15)
    assert times_heard(timeline, SLOT) == 1 and times_heard(timeline, PRICE) == 0
    (note,) = [m for m in timeline.context if str(m.get("content")).startswith("[RESULT ON RECORD]")]
    assert "price_eur" in note["content"] and "10:00" not in note["content"]


@both_doors
@virtual_time
async def test_next_to_a_synchronous_sibling_the_slow_one_is_told_by_itself(door):
    call = bot(door, {"check_slots": {}}, [SLOT])
    call.line.model.register_function("clock", native_tool("clock"), cancel_on_interruption=True)
    call.user_says(at=0.5, until=1.5, text="Is Thursday free, and how late is it?")
    call.model_says("", when="how late", calls=[Call("check_slots", {"asked": "x"}), Call("clock")], times=1)
    call.model_says("It is noon.", when="noon", times=1)
    call.tool_finishes("clock", at=3.0, result="noon")
    call.tool_finishes("check_slots", at=8.0, result={"slot": "10:00"})
    timeline = await heard_out(call, 20)
    assert "It is noon." in texts(timeline) and times_heard(timeline, SLOT) == 1
    assert said(timeline, "noon").ended_at < 8.0
    assert [o.tool for o in delivery_about(timeline, "check_slots").operations] == ["check_slots"]
    assert timeline.history_problems() == []
