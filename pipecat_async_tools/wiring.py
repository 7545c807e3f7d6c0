# SPDX-License-Identifier: BSD-2-Clause
"""Where our processors must stand, and how a bot that has them elsewhere is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipecat.pipeline.parallel_pipeline import ParallelPipeline
from pipecat.pipeline.sync_parallel_pipeline import SyncParallelPipeline
from pipecat.processors.aggregators.llm_response_universal import LLMAssistantAggregator
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import LLMService
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_output import BaseOutputTransport

_HINT = (
    "build it as Pipeline([transport.input(), stt, user_aggregator, llm, *async_tools.processors(), "
    "tts, transport.output(), async_tools.playback(), assistant_aggregator])"
)


class Wiring:
    """Knows the processors of one call and checks, once, where they stand."""

    def __init__(self):
        """Initialize with no processors; :meth:`expect` names them."""
        self._before_voice: Sequence[FrameProcessor] = ()
        self._playback: FrameProcessor | None = None
        self._checked = False

    def expect(self, before_voice: Sequence[FrameProcessor], playback: FrameProcessor) -> None:
        """Say which processors belong between model and voice, and which one after the output."""
        self._before_voice = before_voice
        self._playback = playback

    def problem_of(self, pipeline: FrameProcessor) -> str | None:
        """Return what is wrong, in words that say how to mend it; None from the second call on."""
        if self._checked or self._playback is None:
            return None
        self._checked = True
        ours = (*self._before_voice, self._playback)
        found = list(_in_line_with(ours, pipeline))
        problem = self._count_problem(found, self._playback) or self._order_problem(found, self._playback)
        return f"AsyncTools: {problem}; {_HINT}" if problem else None

    def _count_problem(self, found: list[FrameProcessor], playback: FrameProcessor) -> str | None:
        for processor in self._before_voice:
            if (count := found.count(processor)) != 1:
                return f"processors() must be in the pipeline once, {processor.name} is there {count} times"
        if (count := found.count(playback)) != 1:
            return f"playback() must be in the pipeline once, it is there {count} times"
        return None

    def _order_problem(self, found: list[FrameProcessor], tracker: FrameProcessor) -> str | None:
        ours = [found.index(processor) for processor in self._before_voice]
        if ours != sorted(ours):
            return "processors() must stand in the order they are returned in"
        first, last, playback = ours[0], ours[-1], found.index(tracker)
        models = _positions(found, LLMService)
        if models and min(models) > first:
            return "processors() must come after the LLM service"
        if any(voice < last for voice in _positions(found, TTSService)):
            return "processors() must come before the TTS service"
        if playback < last:
            return "playback() must come after processors()"
        outputs = [output for output in _positions(found, BaseOutputTransport) if output > last]
        if outputs and playback < min(outputs):
            return "playback() must come right after transport.output()"
        if any(last < position < playback for position in _positions(found, LLMAssistantAggregator)):
            return "playback() must come before the assistant aggregator, which keeps the words to itself"
        return None


def _positions(found: list[FrameProcessor], kind: type[FrameProcessor]) -> list[int]:
    return [index for index, processor in enumerate(found) if isinstance(processor, kind)]


def _in_line_with(ours: Sequence[FrameProcessor], processor: FrameProcessor) -> Iterator[FrameProcessor]:
    """Yield the processors of a pipeline in their order.

    Parallel branches have no order among themselves: if some hold one of ours, the others do not count.
    """
    parts = processor.processors
    if not parts:
        yield processor
    if isinstance(processor, (ParallelPipeline, SyncParallelPipeline)):
        parts = [part for part in parts if any(p in ours for p in _in_line_with(ours, part))] or parts
    for part in parts:
        yield from _in_line_with(ours, part)
