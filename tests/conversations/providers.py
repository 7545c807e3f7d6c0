# SPDX-License-Identifier: BSD-2-Clause
"""A context as OpenAI, Anthropic and Gemini get it from Pipecat's own adapters, and the rules of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipecat.adapters.llm.services.anthropic_adapter import AnthropicLLMAdapter
from pipecat.adapters.llm.services.gemini_adapter import GeminiLLMAdapter
from pipecat.adapters.llm.services.open_ai_adapter import OpenAILLMAdapter
from pipecat.processors.aggregators.llm_context import LLMContext


async def provider_problems(context: LLMContext) -> list[str]:
    """What a provider would not accept; one sentence for each problem."""
    return [
        *(f"OpenAI: {problem}" for problem in _open_ai(await open_ai_messages(context))),
        *(f"Anthropic: {problem}" for problem in _anthropic(await anthropic_messages(context))),
        *(f"Gemini: {problem}" for problem in _gemini(await gemini_contents(context))),
    ]


async def open_ai_messages(context: LLMContext) -> list[dict[str, Any]]:
    """The messages of a Chat Completions request."""
    params = await OpenAILLMAdapter().get_llm_invocation_params(context, convert_developer_to_user=False)
    return [dict(m) for m in params["messages"]]


async def anthropic_messages(context: LLMContext) -> list[dict[str, Any]]:
    """The messages of a Messages request."""
    params = await AnthropicLLMAdapter().get_llm_invocation_params(context, enable_prompt_caching=False)
    return [dict(m) for m in params["messages"]]


async def gemini_contents(context: LLMContext) -> list[Any]:
    """The contents of a generateContent request."""
    params = await GeminiLLMAdapter().get_llm_invocation_params(context)
    return list(params["messages"])


def _open_ai(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Every call is answered, once, before any message that is not an answer."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"message {number} answers a call that is not open"
            else:
                open_calls.remove(message["tool_call_id"])
        else:
            if open_calls:
                yield f"message {number} comes before the answer to {open_calls}"
            open_calls = [call["id"] for call in message.get("tool_calls") or []]
        if not (message.get("content") or message.get("tool_calls")):
            yield f"message {number} is empty"
    if open_calls:
        yield f"{open_calls} is not answered"


def _anthropic(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Roles take turns, the user begins, and the answers are in the message right behind the calls."""
    used: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[number % 2]:
            yield f"message {number} is the {message['role']}'s"
        if not message["content"]:
            yield f"message {number} is empty"
        results = _blocks(message, "tool_result")
        answered = [block["tool_use_id"] for block in results]
        if sorted(answered) != sorted(used):
            yield f"message {number} answers {answered} and not {used}"
        if results != _blocks_first(message, len(results)):
            yield f"message {number} has something before its tool results"
        used = [block["id"] for block in _blocks(message, "tool_use")]
    if used:
        yield f"{used} is not answered"


def _gemini(contents: list[Any]) -> Iterator[str]:
    """A turn of calls is followed by a turn with as many responses, in the same order."""
    called: list[str] = []
    for number, content in enumerate(contents):
        parts = content.parts or []
        if not parts:
            yield f"content {number} is empty"
        answered = [part.function_response.id for part in parts if part.function_response]
        if sorted(answered) != sorted(called):
            yield f"content {number} answers {answered} and not {called}"
        called = [part.function_call.id for part in parts if part.function_call]
        if (called and content.role != "model") or (answered and content.role != "user"):
            yield f"content {number} has the role {content.role}"
    if called:
        yield f"{called} is not answered"


def _blocks(message: dict[str, Any], kind: str) -> list[Any]:
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == kind]


def _blocks_first(message: dict[str, Any], count: int) -> list[Any]:
    content = message["content"]
    return [] if isinstance(content, str) else list(content[:count])
