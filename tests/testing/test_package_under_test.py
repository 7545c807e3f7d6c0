# SPDX-License-Identifier: BSD-2-Clause
"""What a simulated call does with the `AsyncTools` it is given, shown with a stand-in."""

import asyncio
from types import SimpleNamespace

import pytest
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.testing import Call, SimulatedCall, Telling, scripted_tool, virtual_time


class Passes(FrameProcessor):
    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class StandIn:
    """Looks like an `AsyncTools` and does nothing."""

    def __init__(self, *tellings):
        self.functions = []
        self.tellings = list(tellings)

    def processors(self):
        return [Passes(name="Registry"), Passes(name="Batches"), Passes(name="Gate")]

    def playback(self):
        return Passes(name="Playback")

    def snapshot(self):
        delivery = SimpleNamespace(tellings=self.tellings)
        return SimpleNamespace(operations=["op"], batches=["batch"], deliveries=[delivery])


def telling(started_at, ended_at, heard, outcome):
    return SimpleNamespace(
        telling_id="t", started_at=started_at, ended_at=ended_at, heard=heard, outcome=outcome
    )


@virtual_time
async def test_its_record_is_read_in_seconds_of_the_call():
    await asyncio.sleep(100)
    tools = StandIn(
        telling(106.0, 107.0, "at ten.", "completed"),
        telling(None, None, "", "withdrawn"),
        telling(103.0, None, "There is a slot", "interrupted"),
    )
    timeline = await SimulatedCall(tools).run(until=10)
    assert timeline.tellings == [
        Telling(started_at=pytest.approx(3.0, abs=0.1), heard="There is a slot"),
        Telling(started_at=pytest.approx(6.0, abs=0.1), heard="at ten."),
    ]
    assert timeline.tellings != [Telling(3.0, "Something else"), Telling(6.0, "at ten.")]
    assert [t.outcome for t in timeline.tellings] == ["interrupted", "completed"]
    assert timeline.tellings[1].ended_at == pytest.approx(7.0)
    assert (timeline.operations, timeline.batches, len(timeline.deliveries)) == (["op"], ["batch"], 1)
    assert '"There is a slot" interrupted' in str(timeline)


@virtual_time
async def test_its_processors_stand_where_the_readme_puts_them():
    call = SimulatedCall(StandIn(), record_frames=True)
    call.user_says(at=0, until=1, text="Hello?")
    timeline = await call.run(until=5)
    way = [frame.processor for frame in timeline.frames if frame.frame == "StartFrame"]
    parts = [
        "Caller",
        "ScriptedModel",
        "Registry",
        "Batches",
        "Gate",
        "ScriptedVoice",
        "PacedOutput",
        "Playback",
    ]
    assert [name for name in way if name in parts] == parts
    assert timeline.heard_text == "Okay."


def test_a_scripted_tool_has_a_name_arguments_and_options():
    spec = spec_of(scripted_tool("check", parameters={"day": str, "nights": int}, timeout_secs=5))
    assert spec.name == "check" and spec.timeout_secs == 5
    assert spec.validate({"day": "Thursday"}) == {"day": "Thursday", "nights": 0}


@virtual_time
async def test_a_scripted_tool_ends_as_scripted_each_time_it_runs():
    check = scripted_tool("check", parameters={"day": str})
    got = []

    async def run_like_an_executor(params):
        for _ in range(2):
            try:
                got.append(await check(None, **params.arguments))
            except ValueError as e:
                got.append(e)
        await params.result_callback("done")

    call = SimulatedCall(tools={"check": run_like_an_executor})
    call.user_says(at=0, until=1, text="Thursday?")
    call.model_says(when="thursday", calls=[Call("check", {"day": "Thursday"})], times=1)
    call.tool_finishes("check", at=3, error=ValueError("busy"))
    call.tool_finishes("check", at=4, result=[], nth=1)
    timeline = await call.run(until=6)
    assert [str(got[0]), got[1]] == ["busy", []]
    assert [(run.outcome, run.ended_at, run.arguments) for run in timeline.tool_runs] == [
        ("raised", pytest.approx(3), {"day": "Thursday"}),
        ("returned", pytest.approx(4), {"day": "Thursday"}),
    ]
