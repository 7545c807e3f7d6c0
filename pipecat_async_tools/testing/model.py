# SPDX-License-Identifier: BSD-2-Clause
"""The model: an LLM service that answers by rules instead of by thinking."""

from __future__ import annotations

import asyncio
import copy
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    Frame,
    FunctionCallFromLLM,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
)
from pipecat.processors.aggregators.llm_context import LLMContext, LLMSpecificMessage
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import LLMService
from pipecat.services.settings import LLMSettings

Message = dict[str, Any]
When = str | Callable[[list[Message]], bool]


@dataclass(frozen=True)
class Call:
    """One tool call the model makes.

    Parameters:
        name: The tool's name.
        arguments: The arguments of the call.
        id: The tool call id; None numbers the calls of the conversation.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None


@dataclass(frozen=True)
class Reply:
    """One response of the model: text first, then tool calls. Neither means it says nothing.

    Parameters:
        text: What it says, streamed word by word; a function makes it from the messages.
        calls: The tools it calls after the text.
        first_token_secs: Seconds until the first word, or until the calls if there is no text.
        word_secs: Seconds between two words.
        fails: Raised after the text, instead of making the calls.
        hang: Whether the model stops answering after the text.
    """

    text: str | Callable[[list[Message]], str] = ""
    calls: Sequence[Call] = ()
    first_token_secs: float = 0.3
    word_secs: float = 0.02
    fails: Exception | None = None
    hang: bool = False


DEFAULT_REPLY = Reply(text="Okay.")


@dataclass
class ModelRun:
    """One run of the model, as it happened.

    Parameters:
        at: When it was asked, in seconds of the call.
        messages: The context it was given.
        text: What it has said so far.
        calls: The tools it has called.
        ended_at: When it was done or cut off; None while it runs.
        interrupted: Whether it was cut off.
    """

    at: float
    messages: list[Message]
    text: str = ""
    calls: Sequence[Call] = ()
    ended_at: float | None = None
    interrupted: bool = False

    @property
    def last_message(self) -> Message:
        """The newest message of the context it was given."""
        return self.messages[-1] if self.messages else {}


@dataclass
class _Rule:
    reply: Reply
    when: When | None
    run: int | None
    times: int | None

    def matches(self, run: int, messages: list[Message]) -> bool:
        if self.times == 0 or self.run not in (None, run):
            return False
        if callable(self.when):
            return self.when(messages)
        return self.when is None or self.when.lower() in newest_input(messages).lower()


class ScriptedModel(LLMService[Any]):
    """An LLM service that gives the first reply whose rule matches, and "Okay." if none does.

    Args:
        run_in_parallel: Whether the tools of one response run at the same time, as in `LLMService`.
        group_parallel_tools: Whether they run the model once, together, as in `LLMService`.
    """

    def __init__(self, *, run_in_parallel: bool = True, group_parallel_tools: bool = True):
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            name="ScriptedModel",
            run_in_parallel=run_in_parallel,
            group_parallel_tools=group_parallel_tools,
            settings=_settings(),
        )
        self.runs: list[ModelRun] = []
        self._rules: list[_Rule] = []
        self._call_numbers = itertools.count(1)

    def answers(
        self,
        reply: Reply,
        *,
        when: When | None = None,
        run: int | None = None,
        times: int | None = None,
    ) -> None:
        """Add a rule; the first that matches decides.

        Args:
            reply: What the model answers.
            when: Part of the newest message that is not the assistant's (letter case is ignored), or a
                predicate over all messages; None matches anything.
            run: Match only this run of the model, counted from 0.
            times: How often the rule may be used; None means always.
        """
        self._rules.append(_Rule(reply, when, run, times))

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Answer a context frame; everything else passes."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        await self.push_frame(LLMFullResponseStartFrame())
        try:
            await self._answer(frame.context)
        except Exception as e:
            await self.push_error(error_msg=f"Error during completion: {e}", exception=e)
        finally:
            await self.push_frame(LLMFullResponseEndFrame())

    async def _answer(self, context: LLMContext) -> None:
        loop = asyncio.get_running_loop()
        run = ModelRun(at=loop.time(), messages=snapshot(context))
        reply = self._choose_reply(len(self.runs), run.messages)
        self.runs.append(run)
        try:
            await self._give(reply, run, context)
        except asyncio.CancelledError:
            run.interrupted = True
            raise
        finally:
            run.ended_at = loop.time()

    def _choose_reply(self, run: int, messages: list[Message]) -> Reply:
        for rule in self._rules:
            if rule.matches(run, messages):
                if rule.times is not None:
                    rule.times -= 1
                return rule.reply
        return DEFAULT_REPLY

    async def _give(self, reply: Reply, run: ModelRun, context: LLMContext) -> None:
        text = reply.text(run.messages) if callable(reply.text) else reply.text
        await asyncio.sleep(reply.first_token_secs)
        for number, word in enumerate(re.findall(r"\S+\s*", text)):
            if number:
                await asyncio.sleep(reply.word_secs)
            run.text += word
            await self._push_llm_text(word)
        if reply.hang:
            await asyncio.Event().wait()
        if reply.fails:
            raise reply.fails
        run.calls = reply.calls
        await self.run_function_calls([self._function_call(call, context) for call in reply.calls])

    def _function_call(self, call: Call, context: LLMContext) -> FunctionCallFromLLM:
        return FunctionCallFromLLM(
            function_name=call.name,
            tool_call_id=call.id or f"call_{next(self._call_numbers)}",
            arguments=dict(call.arguments),
            context=context,
        )


def snapshot(context: LLMContext) -> list[Message]:
    """A copy of the messages of a context, as plain dictionaries."""
    messages = copy.deepcopy(context.get_messages())
    return [m.message if isinstance(m, LLMSpecificMessage) else dict(m) for m in messages]


def newest_input(messages: list[Message]) -> str:
    """The text of the newest message that the assistant did not write."""
    for message in reversed(messages):
        if message.get("role") != "assistant":
            return text_of(message)
    return ""


def text_of(message: Message) -> str:
    """The text of a message, joining the parts if there are several."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _settings() -> LLMSettings:
    return LLMSettings(
        model="scripted",
        system_instruction=None,
        temperature=None,
        max_tokens=None,
        top_p=None,
        top_k=None,
        frequency_penalty=None,
        presence_penalty=None,
        seed=None,
        filter_incomplete_user_turns=False,
        user_turn_completion_config=None,
    )
