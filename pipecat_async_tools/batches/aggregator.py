# SPDX-License-Identifier: BSD-2-Clause
"""``BatchAggregator``: gathers settled operations until their batch is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipecat.frames.frames import CancelFrame, EndFrame, Frame
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.background import Background
from pipecat_async_tools.batches.batch import BatchPolicy, BatchState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.events import Journal
from pipecat_async_tools.frames import (
    AcknowledgeFrame,
    BatchOpenedFrame,
    CallDismissedFrame,
    DeliveryReadyFrame,
    OperationAcceptedFrame,
    OperationSettledFrame,
    WorkGoesOnFrame,
)
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.processor import PassingProcessor
from pipecat_async_tools.store.rows import delivery_id


class BatchAggregator(PassingProcessor):
    """Makes one delivery of one batch, whatever the order and the fate of its members."""

    handles = (
        BatchOpenedFrame,
        OperationAcceptedFrame,
        CallDismissedFrame,
        OperationSettledFrame,
        WorkGoesOnFrame,
    )

    def __init__(
        self,
        *,
        policy: BatchPolicy,
        tools: Mapping[str, ToolSpec],
        journal: Journal,
        dismissed: Callable[[str, Sequence[str]], None],
        **kwargs: Any,
    ):
        """Initialize the aggregator.

        Args:
            policy: When a batch closes.
            tools: The ``@async_tool`` functions by name, for what they declare about telling.
            journal: Takes down what happens.
            dismissed: Called with a batch and the calls of it that were given up; must not block.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._policy = policy
        self._tools = tools
        self._journal = journal
        self._dismissed = dismissed
        self._batches: dict[str, BatchState] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._background = Background()

    @property
    def batches(self) -> tuple[BatchState, ...]:
        """The batches of this call, oldest first."""
        return tuple(self._batches.values())

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Keep the batches; pass everything else."""
        await super().process_frame(frame, direction)
        if isinstance(frame, BatchOpenedFrame):
            await self._open(frame)
        elif isinstance(frame, OperationAcceptedFrame):
            self._batches[frame.operation.batch_id].accept(frame.operation)
        elif isinstance(frame, CallDismissedFrame):
            self._batches[frame.batch_id].dismiss(frame.call_id)
            await self._maybe_close(self._batches[frame.batch_id])
        elif isinstance(frame, OperationSettledFrame):
            batch = self._batches[frame.operation.batch_id]
            batch.settle(frame.operation, frame.on_context_updated)
            await self._maybe_close(batch)
        elif not isinstance(frame, WorkGoesOnFrame):
            if isinstance(frame, (EndFrame, CancelFrame)):
                self._forget_timers()
            await self.push_frame(frame, direction)

    async def _open(self, frame: BatchOpenedFrame) -> None:
        self._batches[frame.batch_id] = BatchState(frame.batch_id, frame.turn_id, set(frame.call_ids))
        if frame.acknowledge:
            await self.push_frame(AcknowledgeFrame(frame.batch_id, frame.call_ids, frame.tools))

    async def _maybe_close(self, batch: BatchState) -> None:
        if batch.closed:
            return
        if not batch.is_complete:
            if batch.waits_for_unstarted_only:
                self._give_up_later(batch)
            return
        late = bool(batch.handed_over)
        operations, callbacks = batch.close()
        self._forget_timer(batch.batch_id)
        self._journal.record("on_batch_closed", batch_id=batch.batch_id, turn_id=batch.turn_id)
        if operations:
            envelope = Envelope.of(
                operations,
                tools=self._tools,
                delivery_id=delivery_id(batch.batch_id, operations[0] if late else None),
                batch_id=batch.batch_id,
                turn_id=batch.turn_id,
                ready_at=asyncio.get_running_loop().time(),
                callbacks=callbacks,
            )
            await self.push_frame(DeliveryReadyFrame(envelope))

    def _give_up_later(self, batch: BatchState) -> None:
        # A call can be announced and never start: its predecessor hangs, or the turn was withdrawn.
        self._forget_timer(batch.batch_id)
        self._timers[batch.batch_id] = asyncio.get_running_loop().call_later(
            self._policy.unstarted_timeout_secs, self._give_up, batch
        )

    def _give_up(self, batch: BatchState) -> None:
        if not batch.waits_for_unstarted_only:
            return
        self._dismissed(batch.batch_id, sorted(batch.expected))
        batch.expected.clear()
        self._background.spawn(self._maybe_close(batch))

    def _forget_timer(self, batch_id: str) -> None:
        if timer := self._timers.pop(batch_id, None):
            timer.cancel()

    def _forget_timers(self) -> None:
        for batch_id in list(self._timers):
            self._forget_timer(batch_id)
