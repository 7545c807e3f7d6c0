# SPDX-License-Identifier: BSD-2-Clause
"""Who waits for running work is not idle: neither the caller nor the worker."""

import asyncio

import pytest
from pipecat.frames.frames import UserIdleTimeoutUpdateFrame
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_async_tools import AsyncTools, ConfigurationError, OperationContext, async_tool
from pipecat_async_tools.testing import virtual_time
from tests.conversations.facts import SLOT
from tests.conversations.script import Door
from tests.policy.talk import bot, both_doors, heard_out, said

IDLE_SECS = 5.0


def watched(door, **options):
    """A bot that would ask after 5 s of silence whether the caller is still there."""
    strategies = UserTurnStrategies(
        start=[VADUserTurnStartStrategy()], stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.4)]
    )
    params = LLMUserAggregatorParams(user_turn_strategies=strategies, user_idle_timeout=IDLE_SECS)
    call = bot(door, {"check_slots": {}}, [SLOT], call={"user_params": params}, **options)
    idle = call.seen["idle"] = []

    async def is_idle(aggregator):
        idle.append(call.now)

    call.line.aggregators.user().add_event_handler("on_user_turn_idle", is_idle)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    return call


@both_doors
@virtual_time
async def test_nobody_asks_whether_the_caller_is_there_until_after_the_telling(door):
    call = watched(door, user_idle_timeout_secs=IDLE_SECS)
    call.tool_finishes("check_slots", at=20.0, result={"slot": "10:00"})
    timeline = await heard_out(call, 32)
    told = said(timeline, SLOT.sentence)
    assert len(call.seen["idle"]) == 1
    assert call.seen["idle"][0] == pytest.approx(told.ended_at + IDLE_SECS, abs=0.6)


@both_doors
@virtual_time
async def test_unless_the_package_knows_the_time_out_the_bot_asks(door):
    call = watched(door)
    call.tool_finishes("check_slots", at=20.0, result={"slot": "10:00"})
    await heard_out(call, 15)
    assert len(call.seen["idle"]) == 1


@both_doors
@virtual_time
async def test_it_does_not_wait_longer_than_keep_alive(door):
    call = watched(door, user_idle_timeout_secs=IDLE_SECS, keep_alive_secs=8.0)
    call.tool_hangs("check_slots")
    timeline = await heard_out(call, 20)
    assert timeline.operations[0].status == "running"
    accepted = 2.4
    assert call.seen["idle"] == [pytest.approx(accepted + 8.0 + IDLE_SECS, abs=1.0)]


@both_doors
@virtual_time
async def test_a_time_out_that_the_application_sets_meanwhile_is_held_too(door):
    call = watched(door, user_idle_timeout_secs=IDLE_SECS)
    call.at(6.0, lambda: call.line.worker.queue_frame(UserIdleTimeoutUpdateFrame(timeout=2.0)))
    call.tool_finishes("check_slots", at=20.0, result={"slot": "10:00"})
    timeline = await heard_out(call, 30)
    told = said(timeline, SLOT.sentence)
    assert call.seen["idle"] == [pytest.approx(told.ended_at + 2.0, abs=0.6)]


@both_doors
@pytest.mark.parametrize(("keep_alive_secs", "lives"), [(600.0, True), (10.0, False)])
@virtual_time
async def test_the_workers_idle_time_out_does_not_end_a_call_that_waits(door, keep_alive_secs, lives):
    options = {"timeout_secs": 500.0} if door is Door.ASYNC_TOOL else {}
    call = bot(
        door,
        {"check_slots": options},
        [SLOT],
        keep_alive_secs=keep_alive_secs,
        adopted_timeout_secs=500.0,
    )
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=350.0, result={"slot": "10:00"})
    ended = []
    call.line.worker.add_event_handler("on_idle_timeout", lambda worker: ended.append(call.now))
    timeline = await heard_out(call, 360)
    # Pipecat's own limit is 300 s.
    assert bool(ended) != lives
    assert (SLOT.sentence in timeline.heard_text) == lives


@pytest.mark.parametrize("options", [{"keep_alive_secs": -1}, {"user_idle_timeout_secs": -1}])
def test_wrong_seconds_are_refused(options):
    (name,) = options
    with pytest.raises(ConfigurationError, match=name):
        AsyncTools(session_id="s", store="sqlite:///:memory:", **options)


@virtual_time
async def test_progress_does_not_make_the_timer_believe_that_the_work_is_over():
    @async_tool(timeout_secs=60)
    async def check_slots(op: OperationContext, asked: str) -> dict:
        """Check slots."""
        await asyncio.sleep(4)
        await op.progress("one of two looked at")
        await asyncio.sleep(20)
        return {"slot": "10:00"}

    call = watched(Door.ASYNC_TOOL, user_idle_timeout_secs=IDLE_SECS, handlers=[check_slots])
    timeline = await heard_out(call, 30)
    assert said(timeline, "one of two looked at.").ended_at + IDLE_SECS < 26.0
    assert call.seen["idle"] == []
