# SPDX-License-Identifier: BSD-2-Clause
"""A model without a network: an OpenAI-compatible server on loopback that answers by rule.

    async with ScriptedLLM() as model:
        OpenAILLMService(api_key="offline", base_url=model.url)

What it says follows from the messages alone. It answers the newest request that has no answer yet, by the
first of ``RULES`` whose words it holds, and then tells every result (``FACTS``) that it has not yet said in
full. So an update that was cut off is taken up again where it stopped, sentence by sentence.
"""

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bots.loopback import LoopbackServer
from pipecat_async_tools.delivery.wording import NOTE_MARKER, RECORD_MARKER

FIRST_TOKEN_SECS = 0.15
TOKEN_SECS = 0.015


@dataclass(frozen=True)
class Call:
    """One tool call.

    Parameters:
        name: The tool.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Rule:
    """What to answer.

    Parameters:
        hears: Words that must all be in the request.
        say: The answer; may be empty when there are calls.
        calls: Tools to call in the same response, after the words.
    """

    hears: tuple[str, ...]
    say: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A response of the model.

    Parameters:
        text: The words.
        calls: The tool calls.
    """

    text: str
    calls: tuple[Call, ...] = field(default=())


RULES = (
    Rule(hears=("greet",), say="Good morning, this is the front desk. How can I help?"),
    Rule(
        hears=("thursday", "record"),
        say="One moment please, I am looking at Thursday and fetching your record, and I will tell you "
        "about both as soon as I have them.",
        calls=(
            Call("check_availability", {"date": "thursday"}),
            Call("load_customer", {"name": "Anna Bell"}),
        ),
    ),
    Rule(
        hears=("book", "ten"),
        say="I am booking that for you.",
        calls=(Call("book_appointment", {"date": "thursday", "time": "10:00"}),),
    ),
    Rule(hears=("how far",), say="I am still waiting for an answer."),
    Rule(hears=("hold on",), say="Of course, take your time."),
    Rule(hears=("forget",), say="All right."),
    Rule(hears=("thank you",), say="You are welcome. Goodbye."),
)

NOT_UNDERSTOOD = "Sorry, I did not catch that."

FACTS = (
    (("date", "slots"), "On {date} there is {slots}."),
    (("customer", "record"), "I have your record, {customer}, number {record}."),
    (("booked",), "You are booked for {booked}."),
    (("error",), "Something did not work: {error}."),
)
"""How a result is told: the keys it must have, and the sentence."""

Message = dict[str, Any]


def reply(messages: list[Message]) -> Reply:
    """What the model says to a conversation.

    Args:
        messages: The conversation as the API receives it.

    Returns:
        The response.
    """
    rule = next((rule for rule in RULES if _matches(rule, _unanswered(messages))), None)
    said = _plain(" ".join(_text(message) for message in messages if message["role"] == "assistant"))
    newest = _plain(_text(messages[-1]))
    told = [
        sentence
        for sentence in dict.fromkeys(_sentences(messages))
        if _plain(sentence) not in f"{said} {newest}"
    ]
    words = [rule.say] if rule and rule.say else []
    text = " ".join([*words, *told])
    return Reply(text or ("" if rule else NOT_UNDERSTOOD), rule.calls if rule else ())


def _unanswered(messages: list[Message]) -> str:
    """The newest request, unless something was said or called after it."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            return ""
        if message["role"] != "tool" and not list(_results(_text(message))):
            return _plain(_text(message))
    return ""


def _matches(rule: Rule, request: str) -> bool:
    return bool(request) and all(word in request for word in rule.hears)


def _sentences(messages: list[Message]) -> Iterator[str]:
    """Every result in the conversation that is owed to the caller, told."""
    for message in messages:
        text = _text(message)
        if message["role"] == "assistant" or text.startswith((RECORD_MARKER, NOTE_MARKER)):
            continue
        for result in _results(text):
            yield from (_tell(result, keys, told) for keys, told in FACTS if set(keys) <= set(result))


def _tell(result: dict[str, Any], keys: tuple[str, ...], told: str) -> str:
    return told.format(**{key: _spoken(result[key]) for key in keys})


def _spoken(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "nothing free"
    return str(value)


def _results(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in a text, also those inside others and inside JSON strings."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            end = at + 1
        else:
            yield from _objects(value)
        at = text.find("{", end)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
    elif isinstance(value, str):
        yield from _results(value)


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w:']+", " ", text).lower().split())


class ScriptedLLM(LoopbackServer):
    """The server.

    Parameters:
        replies: Every response begun, in order.
    """

    def __init__(self):
        """Initialize the server; it listens once entered."""
        self.replies: list[Reply] = []
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        super().__init__(app)

    @property
    def url(self) -> str:
        """The base URL to give to an OpenAI client."""
        return f"{super().url}/v1"

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        answer = reply(body["messages"])
        self.replies.append(answer)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for data in self._chunks(answer, body.get("model", "scripted")):
            await response.write(f"data: {data}\n\n".encode())
        return response

    async def _chunks(self, answer: Reply, model: str) -> AsyncIterator[str]:
        head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        await asyncio.sleep(FIRST_TOKEN_SECS)
        for delta in _deltas(answer):
            yield json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            await asyncio.sleep(TOKEN_SECS)
        reason = "tool_calls" if answer.calls else "stop"
        yield json.dumps({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        yield "[DONE]"


def _deltas(answer: Reply) -> Iterator[dict[str, Any]]:
    """The words one by one, then the calls one after another: Pipecat reads one call per chunk."""
    yield {"role": "assistant", "content": ""}
    yield from ({"content": token} for token in re.findall(r"\S+\s*", answer.text))
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield {
            "tool_calls": [
                {"index": index, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
            ]
        }
        yield {"tool_calls": [{"index": index, "function": {"arguments": json.dumps(call.arguments)}}]}
