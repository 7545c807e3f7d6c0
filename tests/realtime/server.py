# SPDX-License-Identifier: BSD-2-Clause
"""A loopback server that speaks the OpenAI Realtime protocol as `OpenAIRealtimeLLMService` uses it.

On the wire it behaves as the real API does; only the model behind it is a script. It hears speech by
loudness, answers every turn of the caller by itself, cancels an answer the caller speaks over, and
refuses a second response while one is active.
"""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from pipecat_async_tools.testing.voice import WordTape

SAMPLE_RATE = 24000
LOUD = 500
"""A piece of audio whose loudest sample is above this is speech."""
SPEED = 8
"""How much faster than it plays audio is sent."""
SECS_PER_WORD = 0.2

Event = dict[str, Any]


@dataclass
class Reply:
    """What the model makes of a conversation.

    Parameters:
        text: What it says.
        calls: The functions it calls, with their arguments.
        after_secs: Seconds it thinks between the announcement of the response and its first output.
        announced_after_secs: Seconds a response is active at the server before the client hears of it.
        silent: Whether nothing at all comes of it, not even the announcement.
    """

    text: str = ""
    calls: Sequence[tuple[str, Event]] = ()
    after_secs: float = 0.1
    announced_after_secs: float = 0.0
    silent: bool = False


@dataclass
class Rule:
    """A reply for conversations whose newest message or function output holds a text."""

    reply: Reply | Callable[[str], Reply]
    when: str
    times: int | None

    def matches(self, newest: str) -> bool:
        return self.times != 0 and self.when.lower() in newest.lower()


@dataclass
class Item:
    """An item of the conversation."""

    fields: Event
    audio_ms: float = 0.0

    @property
    def id(self) -> str:
        return self.fields["id"]

    @property
    def text(self) -> str:
        """Everything of it that is text."""
        parts = [p.get("text") or p.get("transcript") or "" for p in self.fields.get("content") or []]
        return " ".join([*parts, self.fields.get("output") or ""]).strip()


@dataclass
class Seen:
    """An event the client sent, with the loop's time."""

    at: float
    event: Event

    @property
    def type(self) -> str:
        return self.event["type"]

    @property
    def item(self) -> Event:
        return self.event.get("item", {})


class RealtimeServer:
    """The server; one client at a time."""

    def __init__(self):
        self.tape = WordTape()
        self.seen: list[Seen] = []
        self.sent: list[Seen] = []
        self.heard: list[str] = []
        """What the caller is going to say, in order: stands for the transcription."""
        self.rules: list[Rule] = []
        self.items: list[Item] = []
        self.url = ""
        self._server: Any = None
        self._session: _Session | None = None

    def answers(self, text: str = "", *, when: str = "", times: int | None = None, **reply: Any) -> None:
        """The model has an answer; the first rule that matches decides, and "Okay." is the last."""
        self.rules.append(Rule(Reply(text, **reply), when, times))

    def answer_to(self, newest: str) -> Reply:
        """What the model says to the newest item."""
        for rule in self.rules:
            if rule.matches(newest):
                if rule.times is not None:
                    rule.times -= 1
                return rule.reply if isinstance(rule.reply, Reply) else rule.reply(newest)
        return Reply("Okay.")

    def of_type(self, *types: str) -> list[Seen]:
        """The client's events of some types, in order."""
        return [seen for seen in self.seen if seen.type in types]

    def messages(self, marker: str) -> list[Seen]:
        """The message items the client created that hold a text."""
        return [s for s in self.of_type("conversation.item.create") if marker in Item(s.item).text]

    def outputs(self) -> list[Seen]:
        """The function outputs the client created."""
        created = self.of_type("conversation.item.create")
        return [s for s in created if s.item["type"] == "function_call_output"]

    def errors(self) -> list[str]:
        """The codes of the errors the client was sent."""
        return [s.event["error"]["code"] for s in self.sent if s.type == "error"]

    async def __aenter__(self) -> RealtimeServer:
        self._server = await serve(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{port}/v1/realtime"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, connection: ServerConnection) -> None:
        session = self._session = _Session(self, connection)
        with contextlib.suppress(ConnectionClosed):
            await session.run()
        session.close()

    def respond(self) -> None:
        """Begin a response that nobody asked for, as after a silence that lasts too long."""
        assert self._session is not None
        self._session.begin_response()


@dataclass
class _Response:
    id: str
    task: asyncio.Task[None] | None = None
    announced: bool = False
    output: list[Event] = field(default_factory=list[Event])


class _Session:
    """One connection."""

    def __init__(self, server: RealtimeServer, connection: ServerConnection):
        self._server = server
        self._connection = connection
        self._ids = itertools.count(1)
        self._config: Event = {"type": "realtime", "object": "realtime.session", "id": self._id("sess")}
        self._ears = _Ears()
        self._response: _Response | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Client events

    async def run(self) -> None:
        await self._send("session.created", session=self._config)
        async for message in self._connection:
            event = json.loads(message)
            if event["type"] != "input_audio_buffer.append":
                self._server.seen.append(Seen(asyncio.get_running_loop().time(), event))
            handler = getattr(self, "_on_" + event["type"].replace(".", "_"), None)
            if handler is None:
                await self._error("invalid_value", f"Unknown event {event['type']}", event)
            else:
                await handler(event)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _on_session_update(self, event: Event) -> None:
        self._config.update(event["session"])
        await self._send("session.updated", session=self._config)

    async def _on_input_audio_buffer_append(self, event: Event) -> None:
        turns = self._turn_detection
        if turns is None:
            return
        change = self._ears.listen(base64.b64decode(event["audio"]), turns.get("silence_duration_ms", 500))
        if change == "started":
            await self._speech_started()
        elif change == "stopped":
            await self._speech_stopped()

    async def _on_input_audio_buffer_commit(self, event: Event) -> None:
        await self._commit(self._id("item"))

    async def _on_input_audio_buffer_clear(self, event: Event) -> None:
        await self._send("input_audio_buffer.cleared")

    async def _on_conversation_item_create(self, event: Event) -> None:
        item = event["item"]
        if item["type"] == "function_call_output" and not self._is_open(item["call_id"]):
            await self._error("invalid_value", f"Call {item['call_id']} is not waiting for an output", event)
            return
        await self._add(Item({**item, "object": "realtime.item", "status": "completed"}), done=True)

    async def _on_conversation_item_truncate(self, event: Event) -> None:
        item = self._find(event["item_id"])
        if item is None or event["audio_end_ms"] > item.audio_ms:
            await self._error("invalid_value", "Audio content is shorter than that", event)
            return
        # Without the words: they are no longer known to belong to what is left of the audio.
        for part in item.fields["content"]:
            part.pop("transcript", None)
        fields = {name: event[name] for name in ("item_id", "content_index", "audio_end_ms")}
        await self._send("conversation.item.truncated", **fields)

    async def _on_conversation_item_retrieve(self, event: Event) -> None:
        item = self._find(event["item_id"])
        if item is None:
            await self._error("item_retrieve_invalid_item_id", "No such item", event)
        else:
            await self._send("conversation.item.retrieved", item=item.fields)

    async def _on_response_create(self, event: Event) -> None:
        if self._response is not None:
            message = f"Conversation already has an active response in progress: {self._response.id}"
            await self._error("conversation_already_has_active_response", message, event)
            return
        self.begin_response()

    async def _on_response_cancel(self, event: Event) -> None:
        if self._response is None:
            await self._error("response_cancel_not_active", "No active response", event)
        else:
            await self._cancel("client_cancelled")

    # Turns

    @property
    def _turn_detection(self) -> Event | None:
        given = ((self._config.get("audio") or {}).get("input") or {}).get("turn_detection", {})
        return None if given is None else given

    async def _speech_started(self) -> None:
        self._item_spoken = self._id("item")
        await self._send(
            "input_audio_buffer.speech_started",
            audio_start_ms=int(self._ears.heard_ms),
            item_id=self._item_spoken,
        )
        if self._response is not None:
            await self._cancel("turn_detected")

    async def _speech_stopped(self) -> None:
        await self._send(
            "input_audio_buffer.speech_stopped",
            audio_end_ms=int(self._ears.heard_ms),
            item_id=self._item_spoken,
        )
        await self._commit(self._item_spoken)
        self.begin_response()

    async def _commit(self, item_id: str) -> None:
        words = self._server.heard.pop(0) if self._server.heard else ""
        part = {"type": "input_audio", "transcript": words}
        await self._send("input_audio_buffer.committed", item_id=item_id)
        fields = {"id": item_id, "type": "message", "role": "user", "content": [part]}
        await self._add(Item(fields), done=True)
        transcribed = ((self._config.get("audio") or {}).get("input") or {}).get("transcription")
        if transcribed and words:
            await self._send(
                "conversation.item.input_audio_transcription.completed",
                item_id=item_id,
                content_index=0,
                transcript=words,
            )

    # Responses

    def begin_response(self) -> None:
        # What is in the conversation by now is what it answers.
        newest = next((i.text for i in reversed(self._server.items) if _is_news(i.fields)), "")
        response = self._response = _Response(self._id("resp"))
        reply = self._server.answer_to(newest)
        response.task = asyncio.create_task(self._perform(response, reply))
        self._tasks.add(response.task)
        response.task.add_done_callback(self._tasks.discard)

    async def _perform(self, response: _Response, reply: Reply) -> None:
        with contextlib.suppress(ConnectionClosed):
            if reply.silent:
                return
            await asyncio.sleep(reply.announced_after_secs)
            await self._send("response.created", response=self._described(response, "in_progress"))
            response.announced = True
            await asyncio.sleep(reply.after_secs)
            if reply.text:
                await self._say(response, reply.text)
            for name, arguments in reply.calls:
                await self._call(response, name, arguments)
            self._response = None
            await self._send("response.done", response=self._described(response, "completed"))

    async def _say(self, response: _Response, text: str) -> None:
        part = {"type": "output_audio", "transcript": ""}
        fields = {"id": self._id("item"), "type": "message", "role": "assistant", "content": [part]}
        item = Item(fields)
        where = await self._begin_output(response, item)
        where["content_index"] = 0
        await self._send("response.content_part.added", **where, part={"type": "audio"})
        # The real API is ahead with the words too.
        for number, word in enumerate(text.split()):
            delta = word if number == 0 else f" {word}"
            part["transcript"] += delta
            await self._send("response.output_audio_transcript.delta", **where, delta=delta)
            audio = self._server.tape.record(word, SECS_PER_WORD, SAMPLE_RATE)
            item.audio_ms += SECS_PER_WORD * 1000
            await self._send("response.output_audio.delta", **where, delta=base64.b64encode(audio).decode())
            await asyncio.sleep(SECS_PER_WORD / SPEED)
        await self._send("response.output_audio.done", **where)
        await self._send("response.output_audio_transcript.done", **where, transcript=text)
        await self._send("response.content_part.done", **where, part={"type": "audio", "transcript": text})
        await self._end_output(response, item)

    async def _call(self, response: _Response, name: str, arguments: Event) -> None:
        text = json.dumps(arguments)
        fields = {"id": self._id("item"), "type": "function_call", "call_id": self._id("call"), "name": name}
        item = Item({**fields, "arguments": ""})
        where = await self._begin_output(response, item)
        where["call_id"] = fields["call_id"]
        await self._send("response.function_call_arguments.delta", **where, delta=text)
        await self._send("response.function_call_arguments.done", **where, arguments=text)
        item.fields["arguments"] = text
        await self._end_output(response, item)

    async def _begin_output(self, response: _Response, item: Item) -> Event:
        where = {"response_id": response.id, "output_index": len(response.output)}
        response.output.append(item.fields)
        await self._send("response.output_item.added", **where, item=item.fields)
        await self._add(item)
        return {**where, "item_id": item.id}

    async def _end_output(self, response: _Response, item: Item) -> None:
        item.fields["status"] = "completed"
        index = response.output.index(item.fields)
        await self._send(
            "response.output_item.done", response_id=response.id, output_index=index, item=item.fields
        )
        await self._send("conversation.item.done", item=item.fields)

    async def _cancel(self, reason: str) -> None:
        response, self._response = self._response, None
        assert response is not None and response.task is not None
        response.task.cancel()
        if not response.announced:
            await self._send("response.created", response=self._described(response, "in_progress"))
        details = {"type": "cancelled", "reason": reason}
        await self._send(
            "response.done", response={**self._described(response, "cancelled"), "status_details": details}
        )

    def _described(self, response: _Response, status: str) -> Event:
        return {
            "object": "realtime.response",
            "id": response.id,
            "status": status,
            "output": [] if status == "in_progress" else response.output,
        }

    # The conversation

    async def _add(self, item: Item, *, done: bool = False) -> None:
        self._server.items.append(item)
        await self._send("conversation.item.added", item=item.fields)
        if done:
            await self._send("conversation.item.done", item=item.fields)

    def _find(self, item_id: str) -> Item | None:
        return next((item for item in self._server.items if item.id == item_id), None)

    def _is_open(self, call_id: str) -> bool:
        kinds = [i.fields["type"] for i in self._server.items if i.fields.get("call_id") == call_id]
        return kinds == ["function_call"]

    async def _send(self, event_type: str, **fields: Any) -> None:
        event = {"event_id": self._id("event"), "type": event_type, **fields}
        if event_type != "response.output_audio.delta":
            self._server.sent.append(Seen(asyncio.get_running_loop().time(), json.loads(json.dumps(event))))
        await self._connection.send(json.dumps(event))

    async def _error(self, code: str, message: str, event: Event) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message}
        await self._send("error", error={**error, "event_id": event.get("event_id")})

    def _id(self, kind: str) -> str:
        return f"{kind}_{next(self._ids)}"


class _Ears:
    """Voice detection by loudness."""

    def __init__(self):
        self.heard_ms = 0.0
        self._speaking = False
        self._loud_ms = 0.0
        self._quiet_ms = 0.0

    def listen(self, audio: bytes, silence_ms: float) -> str | None:
        """Return "started" or "stopped" where speech does."""
        samples = array.array("h", audio)
        length = len(samples) * 1000 / SAMPLE_RATE
        self.heard_ms += length
        loud = max(samples, default=0) > LOUD
        self._loud_ms = self._loud_ms + length if loud else 0.0
        self._quiet_ms = 0.0 if loud else self._quiet_ms + length
        if not self._speaking and self._loud_ms >= 60:
            self._speaking = True
            return "started"
        if self._speaking and self._quiet_ms >= silence_ms:
            self._speaking = False
            return "stopped"
        return None


def _is_news(fields: Event) -> bool:
    """Whether an item is something a model answers, and not what it said or called itself."""
    return fields.get("role") in ("user", "system") or fields["type"] == "function_call_output"
