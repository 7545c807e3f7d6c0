# SPDX-License-Identifier: BSD-2-Clause
"""What our four processors have in common: they pass on what is none of theirs, at once."""

from __future__ import annotations

from typing import Any, ClassVar

from loguru import logger
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    StartFrame,
    StopFrame,
)
from pipecat.processors.frame_processor import (
    FrameCallback,
    FrameDirection,
    FrameProcessor,
    FrameProcessorSetup,
)

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

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """Check the wiring; a pipeline that holds us in the wrong way is cancelled before it starts."""
        await super().setup(setup)
        if problem := self._wiring.problem_of(self.pipeline_worker.pipeline):
            # Not an error frame: on a chain that is linked in a circle it would never arrive.
            logger.error(problem)
            await self.pipeline_worker.cancel(reason=problem)

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: FrameCallback | None = None,
    ) -> None:
        """Handle a frame that concerns this processor; pass any other to the neighbour."""
        concerned = self._concerns.get(type(frame))
        if concerned is None:
            concerned = self._learn(type(frame))
        if callback is None and not concerned:
            neighbour = self.next if direction is FrameDirection.DOWNSTREAM else self.previous
            if neighbour is not None and not self._cancelling:
                await neighbour.queue_frame(frame, direction)
            return
        await super().queue_frame(frame, direction, callback)

    @classmethod
    def _learn(cls, frame_type: type[Frame]) -> bool:
        concerned = issubclass(frame_type, (*cls.handles, *cls._lifecycle))
        cls._concerns[frame_type] = concerned
        return concerned
