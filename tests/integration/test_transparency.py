# SPDX-License-Identifier: BSD-2-Clause
"""A bot without a slow tool behaves frame for frame as without the package: same frames, order and times."""

import pytest
from pipecat.frames.frames import FunctionCallResultFrame

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import (
    Call,
    NativeTool,
    ScriptedModel,
    SimulatedCall,
    native_tool,
    virtual_time,
)
from tests.integration.recording import FrameRecorder

LONG = "One two three four five six seven eight nine ten eleven twelve."
SYNC, ASYNC = (
    {
        name: NativeTool(native_tool(name), cancel_on_interruption=sync)
        for name in ("look_up", "weigh", "paint")
    }
    for sync in (True, False)
)


@virtual_time
async def played(script, async_tools, *, until=30.0, run_in_parallel=True, **options):
    """Play a call and return what the other processors saw, and the timeline."""
    call = SimulatedCall(
        AsyncTools(session_id="s") if async_tools else None,
        model=ScriptedModel(run_in_parallel=run_in_parallel),
        **options,
    )
    recorder = FrameRecorder()
    call.line.worker.add_observer(recorder)
    script(call)
    timeline = await call.run(until=until)
    assert recorder.seen, "nothing was recorded"
    return recorder, timeline


def played_twice(script, **options):
    """Play a call without the package and with it."""
    return *played(script, False, **options), *played(script, True, **options)


def whole_call(call):
    """Small talk, a barge-in, tools alone and together, a line of the bot's own, a cough, the end."""
    call.bot_greets("Hello, how can I help?", at=0.1)
    call.user_says(at=2.5, until=3.2, text="Count to twelve.")
    call.model_says(LONG, when="count")
    call.user_says(at=5.0, until=5.6, text="Stop. Look it up.")
    call.model_says("Let me see.", when="look it up", calls=[Call("look_up", {"q": 1})])
    call.tool_finishes("look_up", at=8.0, result={"found": 1})
    call.model_says("I found one.", when='"found": 1', times=1)
    call.user_speaks(at=10.5, until=11.0)
    call.user_says(at=13.0, until=13.5, text="Do it all.")
    call.model_says(when="do it all", calls=[Call("look_up"), Call("weigh"), Call("paint")])
    call.tool_finishes("look_up", at=15.0, result="b", nth=1)
    call.tool_finishes("weigh", at=14.8, result="a")
    call.tool_finishes("paint", at=15.5, result=[])
    call.user_says(at=19.0, until=19.5, text="Slowly, please.")
    call.model_says(when="slowly", calls=[Call("look_up")])
    call.tool_finishes("look_up", at=29.0, result="too late", nth=2)
    call.user_says(at=21.0, until=21.5, text="Never mind.")  # cancels the running tool
    call.bot_greets("Goodbye then.", at=24.0)
    call.call_ends(at=24.5)


@pytest.mark.parametrize("run_in_parallel", [True, False])
@pytest.mark.parametrize("output", ["paced", "unpaced"])
def test_a_bot_without_slow_tools(output, run_in_parallel):
    bare, bare_timeline, ours, timeline = played_twice(
        whole_call, tools=SYNC, output=output, run_in_parallel=run_in_parallel
    )
    assert ours.by_processor() == bare.by_processor()
    assert timeline.heard == bare_timeline.heard and timeline.context == bare_timeline.context
    assert [run.outcome for run in timeline.tool_runs] == ["returned"] * 4 + ["cancelled"]
    assert len(timeline.interruptions) == 5 and timeline.heard[-1].text == "Goodbye then."


def test_a_caller_who_hangs_up_in_the_middle():
    def script(call):
        whole_call(call)
        call.user_hangs_up(at=15.2)

    bare, _, ours, _ = played_twice(script, tools=SYNC)
    assert ours.by_processor() == bare.by_processor()


@pytest.mark.parametrize("run_in_parallel", [True, False])
@pytest.mark.parametrize("finished_at", [0.0, 2.14, 2.3, 2.43])
@pytest.mark.parametrize("result", ["found", [], None])
def test_a_quick_adopted_tool(result, finished_at, run_in_parallel):
    def script(call):
        call.user_says(at=0.5, until=1.2, text="Look it up.")
        call.model_says("Let me see.", when="look it up", calls=[Call("look_up", {"q": 1})])
        call.tool_finishes("look_up", at=finished_at, result=result)
        call.user_says(at=5.0, until=5.5, text="Thanks.")

    bare, bare_timeline, ours, timeline = played_twice(
        script, tools=ASYNC, run_in_parallel=run_in_parallel, until=9
    )
    assert ours.by_processor() == bare.by_processor()
    assert timeline.context == bare_timeline.context and not timeline.operations


def all_of_it(*finished_at):
    def script(call):
        call.user_says(at=0.5, until=1.2, text="Do it all.")
        call.model_says("Let me see.", when="do it all", calls=[Call("look_up"), Call("weigh")])
        for name, at in zip(("look_up", "weigh"), finished_at):
            call.tool_finishes(name, at=at, result=name)
        call.user_says(at=6.0, until=6.5, text="Thanks.")

    return script


@pytest.mark.parametrize("finished_at", [(2.2, 2.4), (2.4, 2.2), (2.3, 2.3)])
def test_quick_adopted_tools_of_one_response(finished_at):
    """The quicker result waits for the other; nothing else differs, not even in time."""
    bare, _, ours, timeline = played_twice(all_of_it(*finished_at), tools=ASYNC, until=10)
    assert ours.without(FunctionCallResultFrame) == bare.without(FunctionCallResultFrame)
    results, bare_results = ours.only(FunctionCallResultFrame), bare.only(FunctionCallResultFrame)
    assert results["LLMAssistantAggregator"] == bare_results["LLMAssistantAggregator"]
    arrived = [seen for seen in results["PacedOutput"] if (seen.what, seen.direction) == ("handles", "down")]
    assert [seen.at / 1e9 for seen in arrived] == [pytest.approx(max(finished_at))] * 2
    assert not timeline.operations


@pytest.mark.parametrize(
    "run_in_parallel, finished_at",
    [(True, (0, 0)), (False, (0, 0)), (False, (2.2, 2.4)), (False, (2.4, 2.2))],
)
def test_quick_adopted_tools_one_after_another_are_answered_together(run_in_parallel, finished_at):
    """Pipecat alone runs the model on the first result, since the second call has not begun, and again."""
    _, bare, _, timeline = played_twice(
        all_of_it(*finished_at), tools=ASYNC, run_in_parallel=run_in_parallel, until=10
    )
    assert [len(bare.model_runs), len(timeline.model_runs)] == [4, 3]
    assert bare.heard_text == "Let me see. Okay. Okay. Okay."
    assert timeline.heard_text == "Let me see. Okay. Okay."
    assert not timeline.operations and timeline.history_problems() == []


def test_a_call_whose_cancel_overtook_it_is_ended():
    """The one frame we add to a foreign call: without it Pipecat holds the call for running, for ever."""

    def script(call):
        call.user_says(at=0.5, until=1.2, text="Look it up.")
        call.model_says("Let me see, please.", when="look it up", calls=[Call("look_up")], times=1)
        call.user_says(at=2.5, until=3.0, text="Never mind.")
        call.tool_finishes("look_up", at=9)
        call.at(7.0, lambda: stuck.append(call.line.aggregators.assistant().has_function_calls_in_progress))

    stuck = []
    bare, _, ours, timeline = played_twice(script, tools=SYNC, until=8)
    assert stuck == [True, False]
    assert ours.without(FunctionCallResultFrame) == bare.by_processor()
    assert [(seen.processor, seen.direction) for seen in ours.seen if "CallResult" in seen.frame] == [
        ("LLMAssistantAggregator", "down")
    ]
    assert timeline.history_problems() == [] and "CANCELLED" in str(timeline.context)
