# SPDX-License-Identifier: BSD-2-Clause
"""An observer that writes down errors, interruptions and, on request, every frame."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loguru import logger
from pipecat.frames.frames import ErrorFrame, Frame, InterruptionFrame, OutputAudioRawFrame
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.testing.timeline import CallError, SeenFrame

if TYPE_CHECKING:
    from loguru import Message

SWALLOWED = ("unexpected exception", "uncaught exception in event handler", "AsyncTools: ")
"""What is only logged: a swallowed exception of a task or an event handler, processors in the wrong place."""


class Recorder(BaseObserver):
    """Writes down what goes through the pipeline, with the loop's time.

    Args:
        record_frames: Whether to write down every frame but audio.
    """

    def __init__(self, *, record_frames: bool = False):
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.errors: list[CallError] = []
        self.interruptions: list[float] = []
        self.frames: list[SeenFrame] = []
        self._record_frames = record_frames
        self._seen: set[int] = set()

    async def on_push_frame(self, data: FramePushed) -> None:
        """Write down a frame on its way from one processor to the next."""
        frame = data.frame
        at = asyncio.get_running_loop().time()
        if self._record_frames and not isinstance(frame, OutputAudioRawFrame):
            direction = "down" if data.direction == FrameDirection.DOWNSTREAM else "up"
            self.frames.append(SeenFrame(at, data.source.name, type(frame).__name__, direction))
        if isinstance(frame, ErrorFrame) and self._is_new(frame):
            self.errors.append(CallError(at, frame.error, frame.exception))
        # A broadcast travels both ways: the one going down stands for both.
        down = data.direction == FrameDirection.DOWNSTREAM
        if down and isinstance(frame, InterruptionFrame) and self._is_new(frame):
            self.interruptions.append(at)

    @contextmanager
    def listening_to_log(self) -> Generator[None]:
        """Write down the exceptions that Pipecat only logs: those of its tasks and event handlers."""
        loop = asyncio.get_running_loop()

        def on_log(message: Message) -> None:
            text = message.record["message"]
            if any(phrase in text for phrase in SWALLOWED):
                self.errors.append(CallError(loop.time(), text))

        sink = logger.add(on_log, level="ERROR")
        try:
            yield
        finally:
            logger.remove(sink)

    def _is_new(self, frame: Frame) -> bool:
        is_new = frame.id not in self._seen
        self._seen.add(frame.id)
        return is_new
