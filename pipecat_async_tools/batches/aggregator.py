# SPDX-License-Identifier: BSD-2-Clause
"""``BatchAggregator``: gathers settled operations until their batch is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pipecat.frames.frames import CancelFrame, EndFrame, Frame
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.background import Background
from pipecat_async_tools.batches.batch import BatchPolicy, BatchState, ContextUpdated
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.events import Journal
from pipecat_async_tools.frames import (
    AcknowledgeFrame,
    BatchOpenedFrame,
    BatchReleasedFrame,
    CallDismissedFrame,
    DeliveryReadyFrame,
    OperationAcceptedFrame,
    OperationSettledFrame,
    WorkGoesOnFrame,
)
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.telling_options import TellingOptions
from pipecat_async_tools.processor import PassingProcessor
from pipecat_async_tools.store.rows import DeliveryRow, delivery_id


class BatchAggregator(PassingProcessor):
    """Makes one delivery of one batch, whatever the order and the fate of its members."""

    handles = (
        BatchOpenedFrame,
        BatchReleasedFrame,
        OperationAcceptedFrame,
        CallDismissedFrame,
        OperationSettledFrame,
        WorkGoesOnFrame,
    )

    def __init__(
        self,
        *,
        policy: BatchPolicy,
        tools: Mapping[str, TellingOptions],
        journal: Journal,
        dismissed: Callable[[str, Sequence[str]], None],
        deliver_part: Callable[[str], Awaitable[DeliveryRow | None]],
        **kwargs: Any,
    ):
        """Initialize the aggregator.

        Args:
            policy: When a batch closes.
            tools: How the outcomes of tools are told, by name.
            journal: Takes down what happens.
            dismissed: Called with a batch and the calls of it that were given up; must not block.
            deliver_part: Makes a delivery, in the store, of what has settled of an open batch.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._policy = policy
        self._tools = tools
        self._journal = journal
        self._dismissed = dismissed
        self._deliver_part = deliver_part
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
        elif isinstance(frame, BatchReleasedFrame):
            self._batches[frame.batch_id].held_open = False
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
        batch = self._batches.get(frame.batch_id)
        if batch is None:
            batch = BatchState(frame.batch_id, frame.turn_id, set())
            batch.held_open, batch.urgent = frame.held_open, frame.urgent
            self._batches[frame.batch_id] = batch
            self._part_later(batch)
        batch.join(frame.call_ids)
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
        self._forget_timer(_part_of(batch))
        self._journal.record("on_batch_closed", batch_id=batch.batch_id, turn_id=batch.turn_id)
        if operations:
            name = delivery_id(batch.batch_id, operations[0] if late else None)
            await self._hand_over(batch, operations, callbacks, name=name)

    async def _hand_over(
        self,
        batch: BatchState,
        operations: tuple[Operation, ...],
        callbacks: tuple[ContextUpdated, ...],
        *,
        name: str,
        partial: bool = False,
    ) -> None:
        envelope = Envelope.of(
            operations,
            tools=self._tools,
            delivery_id=name,
            batch_id=batch.batch_id,
            turn_id=batch.turn_id,
            ready_at=asyncio.get_running_loop().time(),
            callbacks=callbacks,
            partial=partial,
            urgent=batch.urgent,
        )
        await self.push_frame(DeliveryReadyFrame(envelope))

    def _part_later(self, batch: BatchState) -> None:
        if self._policy.max_wait_secs is not None:
            self._timers[_part_of(batch)] = asyncio.get_running_loop().call_later(
                self._policy.max_wait_secs, lambda: self._background.spawn(self._part(batch))
            )

    async def _part(self, batch: BatchState) -> None:
        """Tell what has settled so far; the rest is told when the batch closes."""
        if batch.closed:
            return
        if batch.has_part:
            # Not closed meanwhile: the store says what is in the part, and so what is left.
            batch.parting = True
            row = await self._deliver_part(batch.batch_id)
            batch.parting = False
            if row is not None:
                callbacks = batch.part(row.operations)
                await self._hand_over(
                    batch, row.operations, callbacks, name=row.delivery_id, partial=not batch.is_complete
                )
        self._part_later(batch)
        await self._maybe_close(batch)

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


def _part_of(batch: BatchState) -> str:
    return f"part-of-{batch.batch_id}"
