# SPDX-License-Identifier: BSD-2-Clause
"""Things that go wrong around a pipeline, to be put into the one of a simulated call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    FunctionCallResultFrame,
    LLMMessagesTransformFrame,
)
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregator
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_async_tools.testing.output import PacedOutput

Parts = list[FrameProcessor]


class _Prop(FrameProcessor):
    """Passes everything; what it does on top is its own matter."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        await self.pass_on(frame, direction)

    async def pass_on(self, frame: Frame, direction: FrameDirection) -> None:
        await self.push_frame(frame, direction)


class RepeatsResults(_Prop):
    """Stands behind the model and brings each result of a call a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.after_secs = 0.0

    async def pass_on(self, frame: Frame, direction: FrameDirection) -> None:
        await self.push_frame(frame, direction)
        if isinstance(frame, FunctionCallResultFrame) and direction is FrameDirection.DOWNSTREAM:
            self.create_task(self._repeat(frame))

    async def _repeat(self, frame: FunctionCallResultFrame) -> None:
        await asyncio.sleep(self.after_secs)
        self.seen.append(_now())
        await self.push_frame(
            FunctionCallResultFrame(
                function_name=frame.function_name,
                tool_call_id=frame.tool_call_id,
                arguments=frame.arguments,
                result=frame.result,
                run_llm=frame.run_llm,
                properties=replace(frame.properties) if frame.properties else None,
            )
        )


class SlowWayToContext(_Prop):
    """Stands before the model and delays what asks for a run of it."""

    def __init__(self) -> None:
        super().__init__()
        self.delay_secs = 0.3

    async def pass_on(self, frame: Frame, direction: FrameDirection) -> None:
        if isinstance(frame, LLMMessagesTransformFrame) and frame.run_llm:
            await asyncio.sleep(self.delay_secs)
            self.seen.append(_now())
        await self.push_frame(frame, direction)


class LatePlaybackEnd(_Prop):
    """Stands behind the output and holds back the news that the bot has stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.late_secs = 0.0

    async def pass_on(self, frame: Frame, direction: FrameDirection) -> None:
        if isinstance(frame, BotStoppedSpeakingFrame) and direction is FrameDirection.DOWNSTREAM:
            self.create_task(self._late(frame, _now()))
        else:
            await self.push_frame(frame, direction)

    async def _late(self, frame: Frame, due_at: float) -> None:
        await asyncio.sleep(self.late_secs)
        self.seen.append((due_at, _now()))
        await self.push_frame(frame)


class StrayPlayback(_Prop):
    """Stands behind the output and claims that the bot spoke, as padding with silence does."""

    async def claim(self) -> None:
        """The bot started and stopped, both ways, and nothing was heard."""
        await self.broadcast_frame(BotStartedSpeakingFrame)
        await self.broadcast_frame(BotStoppedSpeakingFrame)


class SplitPlayback(_Prop):
    """Stands behind the output and claims that the bot stopped and started again, in mid-sentence."""

    async def claim(self) -> None:
        """The bot stopped and started, both ways, while it is heard."""
        await self.broadcast_frame(BotStoppedSpeakingFrame)
        await self.broadcast_frame(BotStartedSpeakingFrame)


class Arrivals(_Prop):
    """Stands at the end and notes when frames of some kinds arrive."""

    def __init__(self, *kinds: type[Frame]) -> None:
        super().__init__()
        self._kinds = kinds

    async def pass_on(self, frame: Frame, direction: FrameDirection) -> None:
        if direction is FrameDirection.DOWNSTREAM and isinstance(frame, self._kinds):
            self.seen.append((_now(), frame))
        await self.push_frame(frame, direction)

    def at(self, kind: type[Frame]) -> list[float]:
        return [at for at, frame in self.seen if isinstance(frame, kind)]


def behind(kind: type[FrameProcessor], prop: FrameProcessor) -> Callable[[Parts], Parts]:
    """Return the `arrange` of a simulated call that puts a prop right behind a part."""

    def arrange(parts: Parts) -> Parts:
        place = next(i for i, part in enumerate(parts) if isinstance(part, kind)) + 1
        return [*parts[:place], prop, *parts[place:]]

    return arrange


def behind_model(prop: FrameProcessor) -> dict[str, Any]:
    """Options of a simulated call with a prop behind the model."""
    return {"arrange": behind(LLMService, prop), "prop": prop}


def before_model(prop: FrameProcessor) -> dict[str, Any]:
    """Options of a simulated call with a prop between the user aggregator and the model."""
    return {"arrange": behind(LLMUserAggregator, prop), "prop": prop}


def behind_output(prop: FrameProcessor) -> dict[str, Any]:
    """Options of a simulated call with a prop behind the output."""
    return {"arrange": behind(PacedOutput, prop), "prop": prop}


def at_the_end(prop: FrameProcessor) -> Callable[[Parts], Parts]:
    """Return the `arrange` of a simulated call that puts a prop at the end."""
    return lambda parts: [*parts, prop]


def _now() -> float:
    return asyncio.get_running_loop().time()
