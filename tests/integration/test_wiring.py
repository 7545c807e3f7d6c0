# SPDX-License-Identifier: BSD-2-Clause
"""A bot that puts our processors in the wrong place is told so, by name, before its pipeline starts."""

import pytest
from pipecat.pipeline.llm_switcher import LLMSwitcher
from pipecat.pipeline.parallel_pipeline import ParallelPipeline
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.service_switcher import ServiceSwitcherStrategyManual
from pipecat.processors.frame_processor import FrameProcessor

from pipecat_async_tools import AsyncTools, DeliveryPolicy
from pipecat_async_tools.testing import (
    Call,
    ScriptedModel,
    ScriptedVoice,
    SimulatedCall,
    native_tool,
    virtual_time,
)


class Blocks(FrameProcessor):
    """Lets pass what keeps a pipeline going, and no speech or context."""

    def __init__(self, blocked=("Context", "Text")):
        super().__init__()
        self.blocked = blocked

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if not any(part in frame.name for part in self.blocked):
            await self.push_frame(frame, direction)


def parts_of(async_tools, parts):
    """The parts without ours, and ours."""
    registry, aggregator, gate = async_tools.processors()
    ours = (registry, aggregator, gate, async_tools.playback())
    return [part for part in parts if part not in ours], *ours


def in_wrong_order(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, gate, aggregator, registry, voice, output, playback, assistant]


def twice(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    ours = [registry, aggregator, gate]
    return [caller, user, model, *ours, *ours, voice, output, playback, assistant]


def one_missing(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, registry, gate, voice, output, playback, assistant]


def before_the_model(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, registry, aggregator, gate, model, voice, output, playback, assistant]


def after_the_voice(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, voice, registry, aggregator, gate, output, playback, assistant]


def without_processors(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, voice, output, playback, assistant]


def without_playback(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, registry, aggregator, gate, voice, output, assistant]


def playback_twice(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, registry, aggregator, gate, voice, output, playback, playback, assistant]


def playback_before_the_output(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, registry, aggregator, gate, voice, playback, output, assistant]


def playback_first(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, playback, registry, aggregator, gate, voice, output, assistant]


def playback_last(rest, registry, aggregator, gate, playback):
    caller, user, model, voice, output, assistant = rest
    return [caller, user, model, registry, aggregator, gate, voice, output, assistant, playback]


@pytest.mark.parametrize(
    "arrange, message",
    [
        (in_wrong_order, r"processors\(\) must stand in the order they are returned in"),
        (twice, r"processors\(\) must be in the pipeline once, OperationRegistry#\d+ is there 2 times"),
        (one_missing, r"processors\(\) must be in the pipeline once, BatchAggregator#\d+ is there 0 times"),
        (before_the_model, r"processors\(\) must come after the LLM service"),
        (after_the_voice, r"processors\(\) must come before the TTS service"),
        (without_processors, r"processors\(\) must be in the pipeline once, .* is there 0 times"),
        (without_playback, r"playback\(\) must be in the pipeline once, it is there 0 times"),
        (playback_twice, r"playback\(\) must be in the pipeline once, it is there 2 times"),
        (playback_before_the_output, r"playback\(\) must come right after transport.output\(\)"),
        (playback_first, r"playback\(\) must come after processors\(\)"),
        (playback_last, r"playback\(\) must come before the assistant aggregator"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@virtual_time
async def test_wrong_wiring_never_starts(arrange, message):
    async_tools = AsyncTools(session_id="s")
    call = SimulatedCall(
        async_tools, arrange=lambda parts: arrange(*parts_of(async_tools, parts)), record_frames=True
    )
    call.bot_greets("Hello.")
    with pytest.raises(RuntimeError, match="the pipeline did not start.*" + message) as error:
        await call.run(until=5)
    assert "Pipeline([transport.input(), stt, user_aggregator, llm, *async_tools.processors()" in str(
        error.value
    )
    assert call.line.worker.has_finished()
    assert call.line.output.far_end.utterances(until=5) == []


def nested(parts):
    caller, user, model, *ours, voice, output, playback, assistant = parts
    return [
        caller,
        Pipeline([user, model]),
        Pipeline([*ours, voice]),
        Pipeline([output, playback]),
        assistant,
    ]


def all_in_one_branch(parts):
    caller, user, *middle, output, playback, assistant = parts
    other = [Blocks(), ScriptedModel(), ScriptedVoice()]
    return [caller, user, ParallelPipeline(other, middle), output, playback, assistant]


def all_in_the_first_branch(parts):
    caller, user, *middle, output, playback, assistant = parts
    other = [Blocks(), ScriptedModel(), ScriptedVoice()]
    return [caller, user, ParallelPipeline(middle, other), output, playback, assistant]


def with_parallel_voices(parts):
    *before, voice, output, playback, assistant = parts
    return [*before, ParallelPipeline([voice], [Blocks(), ScriptedVoice()]), output, playback, assistant]


def with_a_side_model_before(parts):
    caller, user, model, *rest = parts
    return [caller, user, ParallelPipeline([model], [Blocks(), ScriptedModel()]), *rest]


def with_switched_models(parts):
    caller, user, model, *rest = parts
    switcher = LLMSwitcher(llms=[model, ScriptedModel()], strategy_type=ServiceSwitcherStrategyManual)
    return [caller, user, switcher, *rest]


@pytest.mark.parametrize(
    "arrange",
    [
        nested,
        all_in_one_branch,
        all_in_the_first_branch,
        with_parallel_voices,
        with_a_side_model_before,
        with_switched_models,
    ],
)
@virtual_time
async def test_right_wiring_in_nested_pipelines_works(arrange):
    call = SimulatedCall(
        AsyncTools(session_id="s"), tools={"look_up": native_tool("look_up")}, arrange=arrange
    )
    call.user_says(at=0.5, until=1.2, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")])
    call.tool_finishes("look_up", at=4.0, result={"found": 7})
    call.model_says("I found 7.", when="found")
    timeline = await call.run(until=10)
    assert timeline.heard_text == "One moment. I found 7."
    assert [telling.outcome for telling in timeline.tellings] == ["completed"]


@pytest.mark.parametrize("filters", [0, 1, 3])
@pytest.mark.parametrize("other_first", [False, True])
@virtual_time
async def test_an_update_is_heard_past_parallel_voices_whatever_overtakes_it(filters, other_first):
    """The marks of a telling take the quick branch: they arrive before a slow voice has begun."""

    def arrange(parts):
        *before, voice, output, playback, assistant = parts
        other = [Blocks(blocked=("Context", "Text", "Speak")), ScriptedVoice()]
        ours = [*(Blocks(blocked=()) for _ in range(filters)), voice]
        branches = [other, ours] if other_first else [ours, other]
        return [*before, ParallelPipeline(*branches), output, playback, assistant]

    call = SimulatedCall(
        AsyncTools(session_id="s", delivery=DeliveryPolicy(max_tellings=1)),
        tools={"look_up": native_tool("look_up")},
        voice=ScriptedVoice(first_audio_secs=0.4),
        arrange=arrange,
    )
    call.user_says(at=0.5, until=1.2, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")])
    call.tool_finishes("look_up", at=4.0, result={"found": 7})
    call.model_says("", when="found", times=1)  # lost: the template speaks
    timeline = await call.run(until=20)
    assert timeline.heard_text == "One moment. Look up: found 7."
    assert [telling.outcome for telling in timeline.tellings] == ["completed"]
