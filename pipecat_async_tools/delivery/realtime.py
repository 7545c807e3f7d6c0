# SPDX-License-Identifier: BSD-2-Clause
"""Speech-to-speech: how an update gets into a conversation that its provider keeps and nobody can edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from pipecat.frames.frames import Frame, LLMMessagesAppendFrame, LLMMessagesTransformFrame, LLMRunFrame

from pipecat_async_tools.delivery.context import ContextEditor, Message, PushUpstream
from pipecat_async_tools.delivery.envelope import Envelope

PushDownstream = Callable[[Frame], Awaitable[None]]


class RealtimeConversation(ContextEditor):
    """Appends to the conversation of a realtime service, and keeps Pipecat's context as ever.

    The service takes a message in as a conversation item when the frame passes it on the way to the
    user aggregator, and asks for a response when a context frame comes from the assistant aggregator,
    on the other side. What was taken in stands for ever: an update that is not told now is taken back
    by an item behind it. The context is edited all the same, for it is what a new connection gets.
    """

    # What an edit is about is on its way in the same queue: overtaking it would miss it.
    _replace_frame = LLMMessagesTransformFrame

    def __init__(self, push_upstream: PushUpstream, push_downstream: PushDownstream, put_off: Message):
        """Initialize the conversation.

        Args:
            push_upstream: Pushes a frame past the service to the user aggregator.
            push_downstream: Pushes a frame to the assistant aggregator.
            put_off: Takes an update back that was asked for and did not come to be told.
        """
        super().__init__(push_upstream)
        self._push_downstream = push_downstream
        self._put_off = put_off
        self._due: set[str] = set()
        self._unacknowledged: set[str] = set()

    async def ask(
        self,
        deliveries: Sequence[Envelope],
        message: Message,
        *,
        unless: Callable[[], bool],
        then: Callable[[], None],
    ) -> None:
        """Append an update and ask for a response to it."""
        if unless():
            return

        def look_again(messages: list[Any]) -> list[Any]:
            # The item is on the wire, but without a request nothing comes of it.
            if unless():
                request.run_llm = False
            else:
                then()
            return messages

        self._due.update(d.delivery_id for d in deliveries)
        await self._append(deliveries, message)
        request = LLMMessagesTransformFrame(transform=look_again, run_llm=True)
        await self._push_downstream(request)

    async def replace(
        self, deliveries: Sequence[Envelope], message: Message | None, *, takes_back: bool = False
    ) -> None:
        """Put another message in the context; one that takes an update back goes to the service as well."""
        due = {d.delivery_id for d in deliveries} & self._due
        if takes_back and due:
            self._due -= due
            await self._append(deliveries, message or self._put_off)
        else:
            await super().replace(deliveries, message)

    async def note(self, delivery: Envelope, message: Message) -> None:
        """Append a record that nobody is asked to speak about."""
        await self._pass_item(message)
        await self._apply(LLMMessagesTransformFrame(transform=list, run_llm=False), [delivery])

    def acknowledge(self, call_ids: Collection[str]) -> None:
        """Let the model say that work has begun, once it has been given the answer to one of these calls."""
        self._unacknowledged.update(call_ids)

    async def answered(self, call_id: str) -> bool:
        """The answer to a call is with the provider; ask for the word that is owed.

        Returns:
            Whether one was owed.
        """
        if call_id not in self._unacknowledged:
            return False
        # One word for all the calls that wait for it.
        self._unacknowledged.clear()
        await self._push_downstream(LLMRunFrame())
        return True

    async def _append(self, deliveries: Sequence[Envelope], message: Message) -> None:
        """Let a message stand for these deliveries: for the service behind all the others."""

        def remember(messages: list[Any]) -> list[Any]:
            self._remember(deliveries, message)
            return [*messages]

        await super().replace(deliveries, None)
        await self._pass_item(message)
        await self._apply(LLMMessagesTransformFrame(transform=remember, run_llm=False), deliveries)

    async def _pass_item(self, message: Message) -> None:
        messages: list[Any] = [message]
        frame = LLMMessagesAppendFrame(messages, run_llm=False)
        # The caller speaking over it clears the queues on the way; what it says still holds.
        frame.interruptible = False
        await self.push(frame)
