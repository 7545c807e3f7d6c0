# SPDX-License-Identifier: BSD-2-Clause
"""What is running, in the model's context for as long as the caller could ask about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.context import ContextEditor, Message
from pipecat_async_tools.delivery.desk import DeliveryDesk
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.operations.operation import Operation


class LiveState:
    """Shows the model what is running from when the caller takes the turn until it is answered."""

    def __init__(
        self,
        *,
        context: ContextEditor,
        wording: Wording,
        desk: DeliveryDesk,
        running: Callable[[], Sequence[Operation]],
    ):
        """Initialize with nothing shown.

        Args:
            context: The model's context.
            wording: Words it.
            desk: The deliveries.
            running: Returns the operations that have not ended.
        """
        self._context = context
        self._wording = wording
        self._desk = desk
        self._running = running
        self._shown: Message | None = None

    @property
    def is_shown(self) -> bool:
        """Whether it is in the context."""
        return self._shown is not None

    async def update(self, channel: ChannelState) -> None:
        """Show it, renew it or take it away, whatever the turn wants."""
        if channel.turn_open:
            await self._show(self._message())
        elif not (channel.answer_owed or channel.response_in_flight):
            await self._show(None)

    def _message(self) -> Message | None:
        running = self._running()
        # What is being told has a message of its own.
        owed = [e for e in self._desk.deliveries if e.state == "pending" and e.told]
        return self._wording.running(running, owed) if running or owed else None

    async def _show(self, message: Message | None) -> None:
        if message != self._shown:
            self._shown = message
            await self._context.show(message)
