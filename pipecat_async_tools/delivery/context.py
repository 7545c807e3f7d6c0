# SPDX-License-Identifier: BSD-2-Clause
"""Our messages in the model's context: put in, replaced and taken out again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loguru import logger
from pipecat.frames.frames import Frame, LLMMessagesTransformFrame, SystemFrame

from pipecat_async_tools.background import Background
from pipecat_async_tools.delivery.envelope import ContextUpdated, Envelope

_TRIM_TRIES, _TRIM_EVERY_SECS = 20, 0.1

Message = dict[str, Any]
PushUpstream = Callable[[Frame], Awaitable[None]]


@dataclass
class _ReplaceFrame(SystemFrame, LLMMessagesTransformFrame):
    # A model at work holds up what is queued behind it, and would run next on what no longer holds.
    pass


class ContextEditor:
    """Edits the context through the user aggregator, which owns it.

    Each edit is a function that the aggregator applies to the messages as they are by then, so that
    it can look once more, at the last instant, and knows exactly when it took effect. Messages of
    calls and tools are never touched.
    """

    _replace_frame: type[LLMMessagesTransformFrame] = _ReplaceFrame

    def __init__(self, push_upstream: PushUpstream):
        """Initialize the editor.

        Args:
            push_upstream: Pushes a frame to the user aggregator.
        """
        self.push = push_upstream
        self._messages: dict[str, Message] = {}
        self._shown: Message | None = None
        self._called: set[str] = set()
        self._background = Background()

    async def ask(
        self,
        deliveries: Sequence[Envelope],
        message: Message,
        *,
        unless: Callable[[], bool],
        then: Callable[[], None],
    ) -> None:
        """Put an update into the context and run the model on it.

        Args:
            deliveries: What the message tells; it replaces what stands there for them.
            message: The message.
            unless: Asked at the last instant; if true, nothing happens.
            then: Called once the message is in the context.
        """

        def edit(messages: list[Any]) -> list[Any]:
            if unless():
                frame.run_llm = False
                return messages
            then()
            kept = self._without(messages, deliveries)
            if kept and kept[0] is not messages[0] and _is_assistants(kept[0]):
                # No history may begin with the assistant: the record of what was heard stays.
                kept.insert(0, messages[0])
            return [*kept, self._remember(deliveries, message)]

        frame = LLMMessagesTransformFrame(transform=edit, run_llm=True)
        await self._apply(frame, deliveries)

    async def inject(
        self,
        deliveries: Sequence[Envelope],
        message: Message,
        *,
        unless: Callable[[], bool],
        then: Callable[[], None],
    ) -> None:
        """Put an update into the context for the next answer, without a run of its own.

        Args:
            deliveries: What the message tells; it replaces what stands there for them.
            message: The message.
            unless: Asked at the last instant; if true, nothing happens.
            then: Called once the message is in the context.
        """

        def edit(messages: list[Any]) -> list[Any]:
            if unless():
                return messages
            then()
            return [*self._without(messages, deliveries), self._remember(deliveries, message)]

        await self._apply(self._replace_frame(edit, run_llm=False), deliveries)

    async def show(self, message: Message | None) -> None:
        """Put a message there for the time being, in place of the last one; None takes it away."""

        def edit(messages: list[Any]) -> list[Any]:
            kept = list(messages)
            if self._shown is not None:
                with contextlib.suppress(ValueError):
                    kept.remove(self._shown)
            self._shown = message
            return kept if message is None else [*kept, message]

        await self._apply(self._replace_frame(edit, run_llm=False), ())

    async def replace(
        self, deliveries: Sequence[Envelope], message: Message | None, *, takes_back: bool = False
    ) -> None:
        """Put another message, or none, where the one of these deliveries stands.

        Args:
            deliveries: The deliveries.
            message: The message.
            takes_back: Whether an update that the model was asked to tell is not to be told now; a
                conversation that cannot be edited must be told so.
        """

        def edit(messages: list[Any]) -> list[Any]:
            ours = [self._messages[d.delivery_id] for d in deliveries if d.delivery_id in self._messages]
            place = next((i for i, m in enumerate(messages) if m in ours), len(messages))
            kept = self._without(messages, deliveries)
            if message is not None:
                kept.insert(min(place, len(kept)), self._remember(deliveries, message))
            return kept

        await self._apply(self._replace_frame(edit, run_llm=False), deliveries if message is not None else ())

    def trim(self, said: str, heard: str) -> None:
        """Take out of the history what a carrier was sent and has not played.

        Args:
            said: What Pipecat took for heard.
            heard: How much of it was.
        """
        if len(heard) < len(said):
            self._background.spawn(self._trim(said, heard))

    async def _trim(self, said: str, heard: str) -> None:
        done = False

        def edit(messages: list[Any]) -> list[Any]:
            nonlocal done
            place = _last_saying(messages, said)
            if done or place is None:
                return messages
            done = True
            before, _, _ = messages[place]["content"].rpartition(said)
            text = f"{before}{heard}".strip()
            trimmed = [{**messages[place], "content": text}] if text else []
            return [*messages[:place], *trimmed, *messages[place + 1 :]]

        # The assistant aggregator writes it down on the same interruption: it may be a moment later.
        for _ in range(_TRIM_TRIES):
            await self._apply(self._replace_frame(edit, run_llm=False), ())
            await asyncio.sleep(_TRIM_EVERY_SECS)
            if done:
                return

    async def note(self, delivery: Envelope, message: Message) -> None:
        """Add a record that nobody is asked to speak about."""

        def edit(messages: list[Any]) -> list[Any]:
            return [*messages, message]

        await self._apply(LLMMessagesTransformFrame(transform=edit, run_llm=False), [delivery])

    async def _apply(self, frame: LLMMessagesTransformFrame, deliveries: Sequence[Envelope]) -> None:
        transform = frame.transform

        def edit(messages: list[Any]) -> list[Any]:
            edited = transform(messages)
            if edited is not messages:
                self._call_back(deliveries)
            return edited

        frame.transform = edit
        # An interruption clears the queues on the way: an edit that got lost would leave the model
        # with an instruction that no longer holds.
        frame.interruptible = False
        await self.push(frame)

    def _remember(self, deliveries: Sequence[Envelope], message: Message) -> Message:
        for delivery in deliveries:
            self._messages[delivery.delivery_id] = message
        return message

    def _without(self, messages: list[Any], deliveries: Sequence[Envelope]) -> list[Any]:
        ours = [self._messages.pop(d.delivery_id) for d in deliveries if d.delivery_id in self._messages]
        kept = list(messages)
        for message in {id(m): m for m in ours}.values():
            # One for one: another delivery may have left a message that reads the same.
            with contextlib.suppress(ValueError):
                kept.remove(message)
        return kept

    def _call_back(self, deliveries: Sequence[Envelope]) -> None:
        # Once per delivery, however often it is told, recorded or told again.
        for delivery in deliveries:
            if delivery.callbacks and delivery.delivery_id not in self._called:
                self._called.add(delivery.delivery_id)
                for callback in delivery.callbacks:
                    self._background.spawn(_guarded(callback))


def _last_saying(messages: list[Any], said: str) -> int | None:
    for place in range(len(messages) - 1, -1, -1):
        content = messages[place].get("content") if _is_assistants(messages[place]) else None
        if isinstance(content, str) and said in content:
            return place
    return None


def _is_assistants(message: Any) -> bool:
    return isinstance(message, dict) and cast("Message", message).get("role") == "assistant"


async def _guarded(callback: ContextUpdated) -> None:
    try:
        await callback()
    except Exception as e:
        logger.error(f"on_context_updated of a tool raised {type(e).__name__}: {e}")
