# SPDX-License-Identifier: BSD-2-Clause
"""The pipeline of a simulated call, put together the way the README tells users to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.observers.base_observer import BaseObserver
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies

from pipecat_async_tools.testing.caller import Caller
from pipecat_async_tools.testing.model import Message, ScriptedModel
from pipecat_async_tools.testing.output import PacedOutput
from pipecat_async_tools.testing.tools import NativeHandler, NativeTool
from pipecat_async_tools.testing.virtual_time import VirtualClock
from pipecat_async_tools.testing.voice import ScriptedVoice

SAMPLE_RATE = 8000
USER_SPEECH_TIMEOUT_SECS = 0.4

Arrange = Callable[[list[FrameProcessor]], list[FrameProcessor]]


@dataclass(frozen=True)
class Line:
    """The parts of a simulated call.

    Parameters:
        caller: The input transport.
        model: The LLM service.
        voice: The TTS service.
        output: The output transport.
        context: What the model knows.
        aggregators: The user's and the assistant's aggregator of the context, as `pipecat.flows` takes them.
        worker: Runs the pipeline.
    """

    caller: Caller
    model: ScriptedModel
    voice: ScriptedVoice
    output: PacedOutput
    context: LLMContext
    aggregators: LLMContextAggregatorPair
    worker: PipelineWorker


def connect(
    caller: Caller,
    model: ScriptedModel,
    voice: ScriptedVoice,
    output: PacedOutput,
    *,
    async_tools: Any,
    tools: Mapping[str, NativeHandler | NativeTool],
    messages: Sequence[Message],
    user_params: LLMUserAggregatorParams | None,
    assistant_params: LLMAssistantAggregatorParams | None,
    arrange: Arrange | None,
    observer: BaseObserver,
) -> Line:
    """Put the pipeline together."""
    context = LLMContext(messages=[*messages], tools=_advertise(async_tools, model, tools))  # type: ignore[list-item]
    aggregators = LLMContextAggregatorPair(
        context, user_params=user_params or _user_params(), assistant_params=assistant_params
    )
    user, assistant = aggregators
    processors: list[FrameProcessor] = async_tools.processors() if async_tools else []
    playback: list[FrameProcessor] = [async_tools.playback()] if async_tools else []
    parts: list[FrameProcessor] = [caller, user, model, *processors, voice, output, *playback, assistant]
    worker = PipelineWorker(
        Pipeline(arrange(parts) if arrange else parts),
        clock=VirtualClock(),
        enable_rtvi=False,
        observers=[observer],
        params=PipelineParams(audio_out_sample_rate=SAMPLE_RATE),
    )
    return Line(caller, model, voice, output, context, aggregators, worker)


def _advertise(
    async_tools: Any, model: ScriptedModel, tools: Mapping[str, NativeHandler | NativeTool]
) -> list[Any]:
    """Register the native tools with the model, and list every tool for the context."""
    for name, handler in tools.items():
        tool = handler if isinstance(handler, NativeTool) else NativeTool(handler)
        model.register_function(
            name,
            tool.handler,
            cancel_on_interruption=tool.cancel_on_interruption,
            timeout_secs=tool.timeout_secs,
        )
    functions: list[Any] = async_tools.functions if async_tools else []
    return [*functions, *(FunctionSchema(name, f"Run {name}.", {}, []) for name in tools)]


def _user_params() -> LLMUserAggregatorParams:
    """Turns by voice detection and a pause, without a machine-learned end of turn."""
    stop = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=USER_SPEECH_TIMEOUT_SECS)
    strategies = UserTurnStrategies(start=[VADUserTurnStartStrategy()], stop=[stop])
    return LLMUserAggregatorParams(user_turn_strategies=strategies)
