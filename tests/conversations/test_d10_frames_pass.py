# SPDX-License-Identifier: BSD-2-Clause
"""D10: whatever is pending, an interruption, an end and a cancel pass at once, and closing is bounded."""

import asyncio

import pytest
from pipecat.frames.frames import CancelFrame, EndFrame, InterruptionFrame, UserStartedSpeakingFrame
from pipecat.transports.base_transport import TransportParams
from pytest import approx

from pipecat_async_tools import AsyncTools, OperationStatus
from pipecat_async_tools.testing import Call, SimulatedCall, native_tool, scripted_tool, virtual_time
from tests.conversations.conflicts import THURSDAY
from tests.conversations.facts import THE_PRACTICE
from tests.conversations.props import Arrivals, at_the_end
from tests.conversations.script import OURS, Door

both_doors = pytest.mark.parametrize("door", OURS)

# Pipecat's output plays this much silence before it passes the end.
END_SILENCE_SECS = TransportParams().audio_out_end_silence_secs
# In the grace, in the acknowledgement, while it runs, with the update due, asked for, and being told.
MOMENTS = [2.45, 2.6, 2.72, 2.9, 4.9, 5.0, 5.1, 5.31, 5.5, 6.9]


def stage(door, *, finishes_at=5.0, drain_secs=2.0):
    """A call whose tool was called at 2.42, and the prop at its end."""
    arrivals = Arrivals(InterruptionFrame, UserStartedSpeakingFrame, EndFrame, CancelFrame)
    ours = door is Door.ASYNC_TOOL
    async_tools = AsyncTools(
        session_id="caller-1", tools=[scripted_tool("check_slots")] if ours else [], drain_secs=drain_secs
    )
    native = {} if ours else {"check_slots": native_tool("check_slots")}
    call = SimulatedCall(async_tools, tools=native, arrange=at_the_end(arrivals))
    call.user_says(at=0.5, until=1.5, text="Is Thursday free?")
    call.model_says("One moment.", when="thursday", calls=[Call("check_slots")], times=1)
    call.model_says("There is a slot at ten.", when="10:00")
    call.model_says(THE_PRACTICE, when="the house")
    if finishes_at is None:
        call.tool_hangs("check_slots")
    else:
        call.tool_finishes("check_slots", at=finishes_at, result=THURSDAY)
    return call, arrivals, async_tools


@both_doors
@pytest.mark.parametrize("finishes_at", [5.0, None], ids=["finishes", "hangs"])
@pytest.mark.parametrize("at", MOMENTS)
@virtual_time
async def test_an_interruption_passes_at_once(door, finishes_at, at):
    call, arrivals, _ = stage(door, finishes_at=finishes_at)
    call.user_speaks(at=at - 0.2, until=at + 0.2)
    await call.run(until=at + 0.5)
    # The model may just have begun; the gate may withdraw what is on its way: then there are two.
    assert arrivals.at(UserStartedSpeakingFrame)[-1] == approx(at)
    assert arrivals.at(InterruptionFrame)[1:] == [approx(at)] * len(arrivals.at(InterruptionFrame)[1:])
    assert len(arrivals.at(InterruptionFrame)) >= 2


@both_doors
@pytest.mark.parametrize("finishes_at", [5.0, None], ids=["finishes", "hangs"])
@pytest.mark.parametrize("at", MOMENTS)
@virtual_time
async def test_a_cancel_passes_at_once_and_closing_is_bounded(door, finishes_at, at):
    call, arrivals, async_tools = stage(door, finishes_at=finishes_at)
    call.user_hangs_up(at=at)
    await call.run(until=at + 0.1)
    assert arrivals.at(CancelFrame) == [approx(at)]
    before = asyncio.get_running_loop().time()
    await async_tools.stop()
    assert asyncio.get_running_loop().time() - before <= 2.0 + 1.0
    assert all(o.is_settled for o in async_tools.snapshot().operations)
    assert not any(d.state == "telling" for d in async_tools.snapshot().deliveries)


@both_doors
@pytest.mark.parametrize("at", [3.5, 4.9, 5.0, 8.5, 9.0])
@virtual_time
async def test_an_end_comes_after_what_is_queued_and_waits_for_nothing_of_ours(door, at):
    call, arrivals, async_tools = stage(door, finishes_at=None)
    call.call_ends(at=at)
    await call.run(until=at + END_SILENCE_SECS + 1.0)
    assert arrivals.at(EndFrame) == [approx(at + END_SILENCE_SECS, abs=0.05)]
    await async_tools.stop()
    assert [o.status for o in async_tools.snapshot().operations] == [OperationStatus.UNKNOWN]


@both_doors
@virtual_time
async def test_an_end_is_not_held_by_a_delivery_that_waits_for_the_end_of_playback(door):
    call, arrivals, async_tools = stage(door, finishes_at=7.0)
    call.user_says(at=4.0, until=5.0, text="Tell me about the house.")
    call.call_ends(at=8.0)
    timeline = await call.run(until=16)
    (speech,) = [u for u in timeline.heard if u.text == THE_PRACTICE]
    assert speech.started_at < 7.0 < 8.0 < speech.ended_at
    assert arrivals.at(EndFrame) == [approx(speech.ended_at + END_SILENCE_SECS, abs=0.4)]
    (delivery,) = async_tools.snapshot().deliveries
    assert delivery.state == "pending" and delivery.tellings == ()


@virtual_time
async def test_a_call_that_ends_lets_its_work_end_within_the_time_to_drain():
    call, _, async_tools = stage(Door.ASYNC_TOOL, finishes_at=5.0)
    call.user_hangs_up(at=4.0)
    await call.run(until=4.1)
    await async_tools.stop()
    (operation,) = async_tools.snapshot().operations
    assert operation.status is OperationStatus.SUCCEEDED and operation.result == THURSDAY
