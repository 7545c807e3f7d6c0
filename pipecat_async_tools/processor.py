# SPDX-License-Identifier: BSD-2-Clause
"""What our four processors have in common: they pass on what is none of theirs, at once."""

from __future__ import annotations

from typing import Any, ClassVar

from pipecat.frames.frames import (
    CancelFrame,
    CancelWorkerFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    StartFrame,
    StopFrame,
)
from pipecat.processors.frame_processor import FrameCallback, FrameDirection, FrameProcessor

from pipecat_async_tools.errors import WiringError
from pipecat_async_tools.wiring import Wiring


class PassingProcessor(FrameProcessor):
    """A processor without queues: a frame is handled, or passed, in the task that brings it.

    So it can neither hold a frame nor reorder two. A frame whose class is not in :attr:`handles`
    goes straight to the neighbour.
    """

    handles: ClassVar[tuple[type[Frame], ...]] = ()

    _lifecycle: ClassVar[tuple[type[Frame], ...]] = (
        StartFrame,
        InterruptionFrame,
        EndFrame,
        StopFrame,
        CancelFrame,
    )
    _concerns: ClassVar[dict[type[Frame], bool]]

    def __init_subclass__(cls, **kwargs: Any):
        """Give each class a memory of which frame classes concern it."""
        super().__init_subclass__(**kwargs)
        cls._concerns = {}

    def __init__(self, *, wiring: Wiring, **kwargs: Any):
        """Initialize the processor.

        Args:
            wiring: Checks where the processors of this call stand when the pipeline starts.
            **kwargs: Passed to ``FrameProcessor``.
        """
        super().__init__(enable_direct_mode=True, **kwargs)  # pyright: ignore[reportUnknownMemberType]
        self._wiring = wiring

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: FrameCallback | None = None,
    ) -> None:
        """Handle a frame that concerns this processor; pass any other to the neighbour."""
        if callback is None and not self._is_concerned(type(frame)):
            neighbour = self.next if direction is FrameDirection.DOWNSTREAM else self.previous
            if neighbour is not None and not self._cancelling:
                await neighbour.queue_frame(frame, direction)
            return
        await super().queue_frame(frame, direction, callback)

    @classmethod
    def _is_concerned(cls, frame_type: type[Frame]) -> bool:
        concern = cls._concerns.get(frame_type)
        if concern is None:
            concern = issubclass(frame_type, (*cls.handles, *cls._lifecycle))
            cls._concerns[frame_type] = concern
        return concern

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Check the wiring when the pipeline starts."""
        await super().process_frame(frame, direction)
        if isinstance(frame, StartFrame) and (
            problem := self._wiring.problem_of(self.pipeline_worker.pipeline)
        ):
            await self.push_error(problem, exception=WiringError(problem), force_treat_as_permanent=True)
            await self.push_frame(CancelWorkerFrame(reason=problem), FrameDirection.UPSTREAM)
