# SPDX-License-Identifier: BSD-2-Clause
"""Simulated calls through plain Pipecat: what the far end heard, what the model knows, what went wrong."""

import asyncio

import pytest
from pipecat.frames.frames import ErrorFrame, FunctionCallResultFrame, TextFrame
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_async_tools.testing import (
    Call,
    Caller,
    NativeTool,
    ScriptedModel,
    ScriptedVoice,
    SimulatedCall,
    Utterance,
    VirtualTimeError,
    native_tool,
    virtual_time,
)

LONG = "One two three four five six seven eight nine ten."


def about(secs):
    return pytest.approx(secs, abs=0.05)


def spoken_by(timeline, role):
    return [m["content"] for m in timeline.context if m["role"] == role]


@virtual_time
async def test_a_question_is_answered():
    call = SimulatedCall(context_messages=[{"role": "system", "content": "Be brief."}])
    call.user_says(at=0.5, until=1.5, text="Is Thursday free?")
    call.model_says("Yes, it is.", when="THURSDAY")
    timeline = await call.run(until=10)
    # Voice detection 0.2 s, pause 0.4 s, first token 0.3 s, two more words 0.04 s.
    assert timeline.heard == [Utterance(started_at=about(2.44), ended_at=about(3.34), text="Yes, it is.")]
    assert timeline.heard_text == "Yes, it is."
    assert [m["content"] for m in timeline.context] == ["Be brief.", "Is Thursday free?", "Yes, it is."]
    (run,) = timeline.model_runs
    assert (run.at, run.ended_at) == (about(2.1), about(2.44))
    assert run.text == "Yes, it is." and not run.interrupted
    assert run.last_message == {"role": "user", "content": "Is Thursday free?"}
    assert timeline.history_problems() == []
    assert timeline.talked_over() == timeline.overlaps() == []


@virtual_time
@pytest.mark.parametrize("voice", ["words", "sentences"])
@pytest.mark.parametrize("output", ["paced", "unpaced"])
async def test_every_word_is_heard_and_known(voice, output):
    call = SimulatedCall(voice=voice, output=output)
    text = "This is the first sentence of the answer. And here is the second one!"
    call.user_says(at=0, until=1, text="Go on.")
    call.model_says(text)
    timeline = await call.run(until=15)
    assert timeline.heard_text == text
    assert spoken_by(timeline, "assistant") == [text]
    assert timeline.heard[0].ended_at - timeline.heard[0].started_at == about(14 * 0.3)


@virtual_time
@pytest.mark.parametrize("output", ["paced", "unpaced"])
async def test_a_barge_in_cuts_at_the_right_word(output):
    call = SimulatedCall(output=output)
    call.bot_greets(LONG, at=0)
    call.user_speaks(at=1.0, until=2.0, text="Stop.")  # detected at 1.2: after four words
    timeline = await call.run(until=1.9)
    assert timeline.interruptions == [about(1.2)]
    assert timeline.heard == [Utterance(0.0, about(1.2), "One two three four")]
    assert timeline.overlaps() == [(1.0, about(1.2))]
    assert timeline.talked_over() == []


@virtual_time
async def test_the_context_holds_what_was_heard_after_a_barge_in():
    call = SimulatedCall()
    call.bot_greets(LONG, at=0)
    call.user_says(at=0.95, until=2.0, text="Stop.")  # detected at 1.15: the fourth word is nearly over
    timeline = await call.run(until=10)
    assert spoken_by(timeline, "assistant") == ["One two three four", "Okay."]
    assert timeline.heard_text == "One two three four Okay."


@virtual_time
async def test_a_word_counts_as_heard_at_four_fifths():
    for start, heard in ((0.92, "One two three"), (0.96, "One two three four")):
        call = SimulatedCall(output="unpaced")
        call.bot_greets(LONG, at=0)
        call.user_speaks(at=start, until=2)
        timeline = await call.run(until=1.9)
        assert timeline.heard_text == heard


@virtual_time
async def test_a_line_that_keeps_its_buffer_talks_on():
    call = SimulatedCall(output="unpaced", clears_on_interruption=False)
    call.bot_greets(LONG, at=0)
    call.user_speaks(at=1.0, until=2.0)
    timeline = await call.run(until=4)
    assert timeline.interruptions == [about(1.2)]
    assert timeline.heard == [Utterance(0.0, about(3.0), LONG)]


@virtual_time
async def test_the_model_is_cut_off_by_an_interruption():
    call = SimulatedCall()
    call.user_says(at=0, until=1, text="Tell me.")
    call.model_says("a b c d e f", when="tell me", word_secs=0.5)
    call.user_says(at=2.5, until=3, text="Never mind.")
    timeline = await call.run(until=8)
    first, second = timeline.model_runs
    assert first.interrupted and first.ended_at == about(2.7) and first.text == "a b "
    assert not second.interrupted
    assert timeline.heard_text == "Okay."


@virtual_time
async def test_a_cough_has_no_words_and_no_answer():
    call = SimulatedCall()
    call.bot_greets("Hello.")  # before its first words, Pipecat takes a cough for an interruption
    call.user_speaks(at=1, until=1.5)
    call.user_speaks(at=8, until=8.1)  # too short for the voice detection
    timeline = await call.run(until=15)
    assert timeline.model_runs == [] and timeline.heard_text == "Hello."
    assert timeline.interruptions == [about(1.2)]


@virtual_time
async def test_the_callers_delays_can_be_chosen():
    call = SimulatedCall(caller=Caller(start_secs=0.1, stop_secs=0.2, stt_secs=1.5))
    call.user_says(at=0, until=1, text="Hello?")
    timeline = await call.run(until=6)
    assert timeline.interruptions == [about(0.1)]
    assert timeline.model_runs[0].at == about(2.5)


@virtual_time
@pytest.mark.parametrize("in_parallel", [True, False])
async def test_two_tools_of_one_response(in_parallel):
    tools = {"a": native_tool("a"), "b": native_tool("b")}
    call = SimulatedCall(tools=tools, model=ScriptedModel(run_in_parallel=in_parallel))
    call.user_says(at=0, until=1, text="Both, please.")
    call.model_says("One moment.", when="both", calls=[Call("a", {"x": 1}), Call("b")], times=1)
    call.model_says("All done.", run=1)
    call.tool_finishes("a", at=4, result="A")
    call.tool_finishes("b", at=3, result="B")
    timeline = await call.run(until=10)
    a, b = timeline.tool_runs
    assert (a.name, a.arguments, a.ended_at, a.outcome) == ("a", {"x": 1}, about(4), "returned")
    assert b.started_at == (about(a.started_at) if in_parallel else about(4))
    assert b.ended_at == about(3 if in_parallel else 4)
    # One after another, the first result runs the model too: Pipecat does not know of the second call yet.
    assert timeline.heard_text == ("One moment. All done." if in_parallel else "One moment. All done. Okay.")
    assert timeline.history_problems() == []
    assert [call.name for call in timeline.model_runs[0].calls] == ["a", "b"]


@virtual_time
@pytest.mark.parametrize("result", [[], 0, False, "", None, {"slot": "10:00"}])
async def test_a_tool_may_return_anything_and_at_once(result):
    call = SimulatedCall(tools={"a": native_tool("a")}, record_frames=True)
    call.user_says(at=0, until=1, text="Go.")
    call.model_says(when="go.", calls=[Call("a")], times=1)
    call.tool_finishes("a", at=0, result=result)
    timeline = await call.run(until=5)
    (run,) = timeline.tool_runs
    assert run.outcome == "returned" and run.started_at == run.ended_at
    assert any(frame.frame == "FunctionCallResultFrame" for frame in timeline.frames)


@virtual_time
@pytest.mark.parametrize(("reports", "results"), [(0, 0), (1, 1), (2, 1)])
async def test_a_native_tool_may_report_any_number_of_times(reports, results):
    seen = []

    class Counter(FrameProcessor):
        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            if isinstance(frame, FunctionCallResultFrame):
                seen.append(frame.result)
            await self.push_frame(frame, direction)

    tools = {"a": native_tool("a", reports=reports)}
    call = SimulatedCall(tools=tools, arrange=lambda parts: [*parts[:3], Counter(), *parts[3:]])
    call.user_says(at=0, until=1, text="Go.")
    call.model_says(when="go.", calls=[Call("a")], times=1)
    call.tool_finishes("a", at=3, result="x")
    await call.run(until=6)
    assert seen == ["x"] * results


@virtual_time
async def test_tools_fail_hang_and_are_cancelled():
    tools = {
        "fails": native_tool("fails"),
        "hangs": native_tool("hangs"),
        "cancelled": NativeTool(native_tool("cancelled"), cancel_on_interruption=True),
        "late": NativeTool(native_tool("late"), timeout_secs=1.0),
    }
    call = SimulatedCall(tools=tools, expect_errors=True)
    call.user_says(at=0, until=1, text="All.")
    call.model_says(when="all.", calls=[Call(name) for name in tools], times=1)
    call.tool_finishes("fails", at=4, error=ValueError("no such day"))
    for name in ("hangs", "cancelled", "late"):
        call.tool_hangs(name)
    call.user_speaks(at=5, until=6)
    timeline = await call.run(until=8)
    outcomes = {run.name: (run.outcome, run.ended_at) for run in timeline.tool_runs}
    assert outcomes == {
        "fails": ("raised", about(4)),
        "hangs": ("running", None),
        "cancelled": ("cancelled", about(5.2)),
        "late": ("cancelled", about(2.9)),
    }
    assert any("no such day" in error.error for error in timeline.errors)


@virtual_time
async def test_a_tool_end_can_be_scripted_while_the_call_runs():
    call = SimulatedCall(tools={"a": native_tool("a")})
    call.user_says(at=0, until=1, text="Go.")
    call.model_says(when="go.", calls=[Call("a")], times=1)
    call.at(3, lambda: call.tool_finishes("a", at=call.now + 1, result=1))
    timeline = await call.run(until=6)
    assert timeline.tool_runs[0].ended_at == about(4)


@virtual_time
async def test_a_tool_the_script_forgot_fails_the_call():
    call = SimulatedCall(tools={"a": native_tool("a")})
    call.user_says(at=0, until=1, text="Go.")
    call.model_says(when="go.", calls=[Call("a")], times=1)
    with pytest.raises(AssertionError, match=r"(?s)run 0 of the tool 'a'.*tool_finishes.*caller    \"Go\.\""):
        await call.run(until=6)


@virtual_time
async def test_a_silent_voice_is_not_heard_whatever_the_frames_say():
    call = SimulatedCall(voice="silent", expect_errors=True)
    call.user_says(at=0, until=1, text="Hello?")
    timeline = await call.run(until=8)
    assert timeline.heard == []
    assert spoken_by(timeline, "assistant") == ["Okay."]
    assert "completed with no audio" in timeline.errors[0].error


@virtual_time
async def test_a_slow_voice_starts_later():
    call = SimulatedCall(voice=ScriptedVoice(first_audio_secs=0.5, secs_per_word=0.2))
    call.bot_greets("Hello there.", at=1)
    timeline = await call.run(until=3)
    assert timeline.heard == [Utterance(about(1.5), about(1.9), "Hello there.")]


@virtual_time
async def test_a_hang_up_ends_what_is_heard():
    call = SimulatedCall()
    call.bot_greets(LONG, at=0)
    call.user_hangs_up(at=1.0)
    timeline = await call.run(until=10)
    assert timeline.heard == [Utterance(0.0, about(1.0), "One two three")]
    assert timeline.ended_at == about(10)


@virtual_time
async def test_a_polite_end_lets_the_bot_finish():
    call = SimulatedCall()
    call.bot_greets(LONG, at=0)
    call.call_ends(at=1.0)
    timeline = await call.run(until=10)
    assert timeline.heard_text == LONG


@virtual_time
async def test_talking_over_the_caller_is_seen():
    call = SimulatedCall()
    call.user_speaks(at=1, until=3)
    call.bot_greets("Excuse me.", at=2)
    timeline = await call.run(until=6)
    assert timeline.talked_over() == timeline.overlaps() == [(about(2), about(2.6))]


@virtual_time
async def test_errors_fail_the_call_unless_expected():
    for call in (SimulatedCall(), SimulatedCall(expect_errors=True)):
        call.user_says(at=0, until=1, text="Hello?")
        call.model_says("One", fails=RuntimeError("model down"), times=1)
        if call._expect_errors:
            timeline = await call.run(until=5)
            assert isinstance(timeline.errors[0].exception, RuntimeError)
            assert timeline.errors[0].at == about(1.9)
        else:
            with pytest.raises(AssertionError, match=r"(?s)model down.*The call:.*ERROR"):
                await call.run(until=5)


@virtual_time
async def test_an_exception_inside_process_frame_fails_the_call():
    class Broken(FrameProcessor):
        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            if isinstance(frame, TextFrame):
                raise ZeroDivisionError("oops")
            if not isinstance(frame, ErrorFrame):  # a processor that swallows errors, too
                await self.push_frame(frame, direction)

    call = SimulatedCall(arrange=lambda parts: [*parts[:3], Broken(), *parts[3:]])
    call.user_says(at=0, until=1, text="Hello?")
    with pytest.raises(AssertionError, match="oops"):
        await call.run(until=5)


@virtual_time
@pytest.mark.parametrize("where", ["task", "event handler"])
async def test_an_exception_that_pipecat_only_logs_fails_the_call(where):
    call = SimulatedCall()

    async def fail(*_):
        raise ZeroDivisionError("oops")

    if where == "task":
        call.at(1, lambda: call.line.model.create_task(fail()) and None)
    else:
        call.line.worker.event_handler("on_pipeline_started")(fail)
    with pytest.raises(AssertionError, match="oops"):
        await call.run(until=5)


@virtual_time
async def test_a_failing_callback_fails_the_call_and_shows_it():
    call = SimulatedCall()
    call.user_says(at=0, until=1, text="Hello?")

    async def check():
        await asyncio.sleep(1)
        assert call.line.context.get_messages() == [], "it was not empty"

    call.at(3, check)
    with pytest.raises(AssertionError, match="it was not empty") as failure:
        await call.run(until=6)
    assert 'caller    "Hello?"' in failure.value.__notes__[0]


@virtual_time
async def test_a_model_that_hangs_is_freed_by_an_interruption():
    call = SimulatedCall()
    call.user_says(at=0, until=1, text="Hello?")
    call.model_says(when="hello", hang=True)
    call.user_says(at=10, until=11, text="Anybody?")
    timeline = await call.run(until=20)
    assert [run.interrupted for run in timeline.model_runs] == [True, False]


@virtual_time
async def test_two_runs_are_the_same_and_a_second_call_starts_at_zero():
    async def conversation():
        call = SimulatedCall(tools={"a": native_tool("a")}, record_frames=True)
        call.bot_greets("Hello, how can I help?")
        call.user_says(at=3, until=4.5, text="Book Thursday.")
        call.model_says("One moment.", when="thursday", calls=[Call("a")], times=1)
        call.tool_finishes("a", at=6, result=[1, 2])
        call.user_says(at=7, until=8, text="Thanks.")
        return await call.run(until=12)

    first, second = await conversation(), await conversation()
    assert str(first) == str(second)
    assert first.context == second.context
    assert [(f.frame, f.direction) for f in first.frames] == [(f.frame, f.direction) for f in second.frames]
    assert second.user_speech[0].started_at == 3 and second.heard[0].started_at == about(0)


@virtual_time
async def test_a_call_runs_once():
    call = SimulatedCall()
    await call.run(until=1)
    with pytest.raises(RuntimeError, match="once"):
        await call.run(until=1)


def test_a_call_needs_a_virtual_clock():
    with pytest.raises(VirtualTimeError, match="@virtual_time"):
        asyncio.run(SimulatedCall().run())
