# SPDX-License-Identifier: BSD-2-Clause
"""An update joins the answer to the caller (row 6), and the model knows what is running."""

import asyncio

import pytest
from pipecat.frames.frames import LLMMessagesTransformFrame
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator

from pipecat_async_tools import AsyncTools, DeliveryPolicy, OperationContext, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, native_tool, virtual_time
from tests.conversations.facts import FAILED, SLOT
from tests.conversations.judging import times_heard
from tests.conversations.props import SlowWayToContext, behind
from tests.policy.talk import HOUSE, bot, both_doors, delivery_about, heard_out, said, texts

RESULT = {"slot": "10:00"}


def asked(door, facts=(SLOT,), options=(), **more):
    call = bot(door, {"check_slots": dict(options)}, facts, **more)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    return call


@both_doors
@virtual_time
async def test_what_the_answer_left_out_is_told_by_itself_afterwards(door):
    call = asked(door)
    call.model_says("Take the bus.", when="how do I get there")
    call.user_says(at=5.0, until=8.0, text="And how do I get there?")
    call.tool_finishes("check_slots", at=6.5, result=RESULT)
    timeline = await heard_out(call, 20)
    delivery = delivery_about(timeline, "check_slots")
    assert [(t.mode, t.outcome) for t in delivery.tellings] == [
        ("next_turn", "uncovered"),
        ("proactive", "completed"),
    ]
    assert texts(timeline)[-2:] == ["Take the bus.", SLOT.sentence]
    # What asked the answer to tell it is gone.
    assert "[UPDATE PENDING]" not in str(timeline.context)


@both_doors
@virtual_time
async def test_a_failure_cannot_be_looked_for_so_it_is_told_by_itself(door):
    call = asked(door, [FAILED], call={"expect_errors": True})
    call.user_asks("And how do I get there?", at=5.0, until=8.0, answer="Take the bus.")
    call.tool_finishes("check_slots", at=6.5, error=RuntimeError("no connection"))
    timeline = await heard_out(call, 20)
    assert texts(timeline)[-2:] == ["Take the bus.", FAILED.sentence]
    assert [t.mode for t in delivery_about(timeline, "check_slots").tellings] == ["proactive"]


@both_doors
@virtual_time
async def test_cut_off_before_a_word_of_the_update_it_joins_the_next_answer(door):
    call = asked(door)
    call.user_asks("Tell me about the house.", at=5.0, until=8.0, answer=HOUSE)
    call.tool_finishes("check_slots", at=6.5, result=RESULT)
    call.user_asks("And how do I get there?", at=10.5, until=12.0, answer="Take the bus.")
    timeline = await heard_out(call, 30)
    delivery = delivery_about(timeline, "check_slots")
    assert [(t.mode, t.outcome) for t in delivery.tellings] == [
        ("next_turn", "withdrawn"),
        ("next_turn", "completed"),
    ]
    assert f"Take the bus. {SLOT.sentence}" in texts(timeline) and times_heard(timeline, SLOT) == 1


@both_doors
@pytest.mark.parametrize("shift", [round(-0.6 + 0.1 * n, 1) for n in range(14)])
@virtual_time
async def test_it_is_told_once_when_the_turn_ends_just_as_it_becomes_ready(door, shift):
    call = asked(door)
    call.user_asks("And how do I get there?", at=5.0, until=8.0, answer="Take the bus.")
    call.tool_finishes("check_slots", at=8.6 + shift, result=RESULT)
    timeline = await heard_out(call, 25)
    assert times_heard(timeline, SLOT) == 1
    delivery = delivery_about(timeline, "check_slots")
    assert [t.outcome for t in delivery.tellings].count("completed") == 1
    assert delivery.tellings[-1].mode == ("next_turn" if shift < 0 else "proactive")
    assert timeline.history_problems() == []


@both_doors
@virtual_time
async def test_what_becomes_ready_while_an_answer_is_owed_waits_for_it(door):
    call = asked(door)
    call.user_asks("And how do I get there?", at=5.0, until=7.0, answer="Take the bus.", thinks_secs=2.0)
    call.tool_finishes("check_slots", at=8.0, result=RESULT)
    timeline = await heard_out(call, 20)
    assert texts(timeline)[1:] == ["Take the bus.", SLOT.sentence]


@both_doors
@virtual_time
async def test_a_resync_only_session_never_begins_to_speak(door):
    call = asked(door, delivery=DeliveryPolicy(proactive=False))
    call.tool_finishes("check_slots", at=4.0, result=RESULT)
    call.user_asks("And how do I get there?", at=12.0, until=13.0, answer="Take the bus.")
    timeline = await heard_out(call, 25)
    assert not any(u.started_at > 4.0 and u.started_at < 13.0 for u in timeline.heard)
    assert said(timeline, SLOT.sentence).text == f"Take the bus. {SLOT.sentence}"
    assert [t.mode for t in delivery_about(timeline, "check_slots").tellings] == ["next_turn"]


@both_doors
@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"proactive": False}, DeliveryPolicy()),
        ({}, DeliveryPolicy(proactive=lambda envelope, channel: channel.name != "twilio")),
    ],
    ids=["of a tool", "of a channel"],
)
@virtual_time
async def test_resync_only_is_for_a_tool_or_a_channel_too(door, options, policy):
    call = asked(door, [FAILED], options, delivery=policy, channel="twilio", call={"expect_errors": True})
    call.tool_finishes("check_slots", at=4.0, error=RuntimeError("no connection"))
    call.user_asks("And how do I get there?", at=12.0, until=13.0, answer="Take the bus.")
    timeline = await heard_out(call, 25)
    # What has no facts is believed of the answer that was asked to tell it.
    assert said(timeline, FAILED.sentence).text == f"Take the bus. {FAILED.sentence}"
    delivery = delivery_about(timeline, "check_slots")
    assert (delivery.state, delivery.mode) == ("spoken", "next_turn")
    assert not any(4.0 < u.started_at < 13.0 for u in timeline.heard)


@both_doors
@virtual_time
async def test_what_found_no_free_moment_for_too_long_waits_for_the_next_turn(door):
    call = asked(door, delivery=DeliveryPolicy(max_wait_secs=5.0, min_quiet_secs=3.0))
    call.tool_finishes("check_slots", at=4.0, result=RESULT)
    for at in (4.2, 7.0):
        call.user_says(at=at, until=at + 1.0, text=None)
    call.user_asks("Are you there?", at=20.0, until=21.0, answer="Yes.")
    timeline = await heard_out(call, 30)
    assert said(timeline, SLOT.sentence).text == f"Yes. {SLOT.sentence}"


@both_doors
@virtual_time
async def test_or_is_told_at_the_first_breath_if_the_application_says_so(door):
    policy = DeliveryPolicy(max_wait_secs=5.0, min_quiet_secs=6.0, at_first_breath=True)
    call = asked(door, delivery=policy)
    call.tool_finishes("check_slots", at=4.0, result=RESULT)
    for at in (4.2, 7.0):
        call.user_says(at=at, until=at + 1.0, text=None)
    timeline = await heard_out(call, 30)
    # 2 s after the noise nobody holds the turn; no 6 s of quiet are waited for.
    assert said(timeline, SLOT.sentence).started_at == pytest.approx(8.2 + 2.0 + 0.4, abs=0.5)


@both_doors
@virtual_time
async def test_a_caller_who_asks_gets_the_live_state_and_it_is_gone_afterwards(door):
    call = bot(door, {"check_slots": {}, "find_price": {}}, [SLOT])

    def answer(messages):
        shown = [m["content"] for m in messages if str(m.get("content")).startswith("[WORK IN PROGRESS]")]
        call.seen["shown"] = shown
        return "Still looking at it." if shown else "Nothing is going on."

    call.user_asks(
        "Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots", "find_price"]
    )
    call.model_says(answer, when="is it done")
    call.user_says(at=5.0, until=6.0, text="Is it done?")
    call.tool_finishes("find_price", at=4.0, result={"price_eur": 40})
    call.tool_hangs("check_slots")
    timeline = await heard_out(call, 12)
    assert "Still looking at it." in texts(timeline)
    (shown,) = call.seen["shown"]
    assert '"running": [{"tool": "check_slots"' in shown and "find_price" not in shown
    assert "[WORK IN PROGRESS]" not in str(timeline.context)


@virtual_time
async def test_the_live_state_has_the_progress():
    @async_tool()
    async def grant_access(op: OperationContext) -> str:
        """Grant access."""
        await op.progress("2 of 3 done")
        await asyncio.sleep(20)
        return "done"

    call = SimulatedCall(AsyncTools(session_id="s", tools=[grant_access], store="sqlite:///:memory:"))
    call.user_says(0.5, 1.5, "Grant it.")
    call.model_says("Sure.", when="grant it", calls=[Call("grant_access")])
    call.user_says(5.0, 6.0, "How far are you?")
    timeline = await call.run(until=9)
    (asked_then,) = [run for run in timeline.model_runs if "How far" in str(run.last_message)]
    assert '"progress": "2 of 3 done"' in str(asked_then.messages)


@both_doors
@virtual_time
async def test_answers_that_never_tell_it_end_in_the_dead_letters(door):
    call = asked(door, delivery=DeliveryPolicy(proactive=False, max_tellings=2))
    call.model_says("Take the bus.", when="how do I get there")
    call.tool_finishes("check_slots", at=4.0, result=RESULT)
    for at in (6.0, 12.0, 18.0):
        call.user_says(at=at, until=at + 1.0, text="And how do I get there?")
    timeline = await heard_out(call, 25)
    delivery = delivery_about(timeline, "check_slots")
    assert [t.outcome for t in delivery.tellings] == ["uncovered"] * 3
    assert (delivery.state, delivery.reason) == ("undeliverable", "gave up after 3 attempts")
    assert delivery.attempts == 0


@both_doors
@virtual_time
async def test_a_run_that_follows_in_the_same_answer_is_not_asked_to_tell_it_again(door):
    call = asked(door)
    call.line.model.register_function("clock", native_tool("clock"), cancel_on_interruption=True)
    call.model_says(f"Let me see. {SLOT.sentence}", when="how late", calls=[Call("clock")], times=1)
    call.user_says(at=5.0, until=7.0, text="How late is it?")
    call.tool_finishes("check_slots", at=6.0, result=RESULT)
    call.tool_finishes("clock", at=8.5, result="noon")
    timeline = await heard_out(call, 20)
    (follows,) = [r for r in timeline.model_runs if r.last_message.get("role") == "tool" and r.at > 8.0]
    assert "[UPDATE BEING TOLD]" in str(follows.messages) and "[UPDATE PENDING]" not in str(follows.messages)
    assert times_heard(timeline, SLOT) == 1
    assert [t.outcome for t in delivery_about(timeline, "check_slots").tellings] == ["completed"]


class SlowEdits(SlowWayToContext):
    """Delays what is put before the model for the next answer."""

    async def pass_on(self, frame, direction):
        if isinstance(frame, LLMMessagesTransformFrame) and not frame.run_llm:
            self.create_task(self._late(frame, direction))
        else:
            await self.push_frame(frame, direction)

    async def _late(self, frame, direction):
        await asyncio.sleep(2.0)
        await self.push_frame(frame, direction)


@both_doors
@virtual_time
async def test_what_comes_too_late_for_the_answer_is_not_put_before_it(door):
    call = asked(door, call={"arrange": behind(LLMUserAggregator, SlowEdits())})
    call.user_asks("And how do I get there?", at=5.0, until=7.0, answer="Take the bus.", thinks_secs=3.0)
    call.tool_finishes("check_slots", at=6.5, result=RESULT)
    timeline = await heard_out(call, 25)
    first, *_ = delivery_about(timeline, "check_slots").tellings
    assert (first.mode, first.outcome, first.heard) == ("next_turn", "withdrawn", "")
    assert not any("[UPDATE PENDING]" in str(run.messages) for run in timeline.model_runs)
    assert times_heard(timeline, SLOT) == 1
