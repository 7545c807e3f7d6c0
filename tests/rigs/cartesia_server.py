# SPDX-License-Identifier: BSD-2-Clause
"""Cartesia's streaming speech on loopback, as far as Pipecat's client speaks it.

    async with CartesiaServer(key="secret") as voice:
        CartesiaTTSService(api_key="secret", url=voice.url)

It speaks with one of the offline voices, several times faster than real time. A trouble is scripted for the
next context that is to say certain words:

    voice.script("On Thursday", Drop(after_secs=1.0))
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipecat.audio.utils import create_file_resampler
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from bots.offline_voice import Speech, offline_voice
from tests.rigs.websocket_server import WebsocketServer

PATH = "/tts/websocket"
CHUNK_SECS = 0.1
FIRST_CHUNK_SECS = 0.1
"""How long the first sound of a transcript takes."""

SPEED = 8.0
"""How much faster than real time sound is sent."""

_ROUNDING_SECS = 0.01

Message = dict[str, Any]


@dataclass(frozen=True)
class Drop:
    """The connection is dropped without a word.

    Parameters:
        after_secs: How much of the context's sound is sent before.
    """

    after_secs: float


@dataclass(frozen=True)
class Silence:
    """Text is accepted, and no sound comes of it.

    Parameters:
        words: Whether the words' times are sent.
        done: Whether the context is said to be done.
    """

    words: bool = True
    done: bool = True


@dataclass(frozen=True)
class Refusal:
    """The key is refused: an error, the end of the connection, and HTTP 401 until ``recover``.

    Parameters:
        after_secs: How much of the context's sound is sent before.
    """

    after_secs: float


Trouble = Drop | Silence | Refusal


@dataclass
class Spoken:
    """What was sent of one context.

    Parameters:
        context_id: The context.
        texts: Its transcripts.
        times: Its words, each with its start and its end in the context's sound.
        sent_secs: How much sound was sent.
        trouble: What befell it.
        cancelled: Whether the client cancelled it.
        done: Whether ``done`` was sent.
    """

    context_id: str
    texts: list[str] = field(default_factory=list)
    times: list[tuple[str, float, float]] = field(default_factory=list)
    sent_secs: float = 0.0
    trouble: Trouble | None = None
    cancelled: bool = False
    done: bool = False

    @property
    def words(self) -> list[str]:
        """The words whose sound was sent to the end."""
        return [word for word, _, end in self.times if end <= self.sent_secs + _ROUNDING_SECS]


class CartesiaServer(WebsocketServer):
    """The server and what it saw.

    Parameters:
        key: The key that it accepts.
        refusing: Whether every key is refused.
        spoken: Every context, in order.
    """

    def __init__(self, key: str, *, voice: str = "tone"):
        """Initialize the server; it listens once entered.

        Args:
            key: The key that it accepts.
            voice: ``flite`` or ``tone``.
        """
        super().__init__()
        self.key = key
        self.refusing = False
        self.spoken: list[Spoken] = []
        self._voice = offline_voice(voice)
        self._troubles: list[tuple[str, Trouble]] = []

    @property
    def url(self) -> str:
        """The ``url`` to give to the client."""
        return f"{super().url}{PATH}"

    @property
    def said(self) -> str:
        """All the words whose sound was sent to the end, in order."""
        return " ".join(word for context in self.spoken for word in context.words)

    def script(self, words: str, *troubles: Trouble) -> None:
        """Let the next contexts that are to say certain words fail, one for each trouble."""
        self._troubles += [(words, trouble) for trouble in troubles]

    def recover(self) -> None:
        """Accept the key again, and forget all trouble that is still to come."""
        self.refusing = False
        self._troubles.clear()

    def trouble_for(self, text: str) -> Trouble | None:
        """Take the trouble scripted for a transcript."""
        for at, (words, trouble) in enumerate(self._troubles):
            if words in text:
                del self._troubles[at]
                return trouble
        return None

    async def synthesise(self, text: str, sample_rate: int) -> Speech:
        """Speak a transcript at a sample rate."""
        speech = await self._voice.synthesise(text)
        pcm = await create_file_resampler().resample(speech.pcm, speech.sample_rate, sample_rate)
        return Speech(pcm, sample_rate, speech.word_times)

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return what refuses a handshake, or None to accept it."""
        if request.path.partition("?")[0] != PATH:
            return connection.respond(404, "no such path\n")
        if "Cartesia-Version" not in request.headers:
            return connection.respond(400, "Cartesia-Version is missing\n")
        if self.refusing or request.headers.get("X-API-Key") != self.key:
            return self.refuse(connection, "invalid API key\n")
        return None

    async def listen(self, connection: ServerConnection) -> None:
        """Serve a connection until one side closes it."""
        contexts: dict[str, _Context] = {}
        try:
            async for message in connection:
                self._take(json.loads(message), contexts, connection)
        except ConnectionClosed:
            pass
        finally:
            for context in contexts.values():
                context.cancel()

    def _take(self, message: Message, contexts: dict[str, "_Context"], connection: ServerConnection) -> None:
        context_id = message["context_id"]
        if message.get("cancel"):
            if context := contexts.pop(context_id, None):
                context.spoken.cancelled = not context.spoken.done
                context.cancel()
            return
        if context_id not in contexts:
            self.spoken.append(Spoken(context_id))
            contexts[context_id] = _Context(self, connection, self.spoken[-1])
        contexts[context_id].add(message)


class _Context:
    """One context: its transcripts are spoken one after the other."""

    def __init__(self, server: CartesiaServer, connection: ServerConnection, spoken: Spoken):
        self.spoken = spoken
        self._server = server
        self._connection = connection
        self._requests: asyncio.Queue[Message] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    def add(self, message: Message) -> None:
        """Take a transcript."""
        self._requests.put_nowait(message)

    def cancel(self) -> None:
        """Say no more."""
        self._task.cancel()

    async def _run(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            more = True
            while more:
                request = await self._requests.get()
                if text := request["transcript"].strip():
                    await self._speak(text, request)
                more = request["continue"]
            await self._end()

    async def _speak(self, text: str, request: Message) -> None:
        self.spoken.texts.append(text)
        if trouble := self._server.trouble_for(text):
            self.spoken.trouble = trouble
        rate = request["output_format"]["sample_rate"]
        speech = await self._server.synthesise(text, rate)
        start = self.spoken.sent_secs
        self._note_times(speech, start, start + len(speech.pcm) / 2 / rate)
        if isinstance(self.spoken.trouble, Silence):
            if self.spoken.trouble.words:
                await self._send_words(speech.word_times, start, len(speech.pcm) / 2 / rate)
            return
        await asyncio.sleep(FIRST_CHUNK_SECS)
        for chunk in _chunks(speech):
            await self._meet_trouble()
            await self._send_chunk(chunk, start, rate)
        await self._send("flush_done", flush_done=True, flush_id=len(self.spoken.texts))

    def _note_times(self, speech: Speech, start: float, end: float) -> None:
        starts = [start + at for _, at in speech.word_times]
        words = [word for word, _ in speech.word_times]
        self.spoken.times += zip(words, starts, [*starts[1:], end])

    async def _send_chunk(self, chunk: Speech, start: float, rate: int) -> None:
        secs = len(chunk.pcm) / 2 / rate
        await self._send_words(chunk.word_times, start, self.spoken.sent_secs - start + secs)
        await self._send("chunk", data=base64.b64encode(chunk.pcm).decode(), step_time=secs * 1000 / SPEED)
        self.spoken.sent_secs += secs
        await asyncio.sleep(secs / SPEED)

    async def _send_words(self, times: list[tuple[str, float]], start: float, end: float) -> None:
        if not times:
            return
        starts = [start + at for _, at in times]
        ends = [*starts[1:], start + end]
        words = [word for word, _ in times]
        await self._send("timestamps", word_timestamps={"words": words, "start": starts, "end": ends})

    async def _meet_trouble(self) -> None:
        trouble = self.spoken.trouble
        if isinstance(trouble, Silence | None) or self.spoken.sent_secs < trouble.after_secs:
            return
        if isinstance(trouble, Refusal):
            self._server.refusing = True
            await self._send("error", status_code=401, done=True, error="invalid API key")
            await self._connection.close(1008, "invalid API key")
        self._connection.transport.abort()
        await asyncio.Future()

    async def _end(self) -> None:
        if not isinstance(self.spoken.trouble, Silence) or self.spoken.trouble.done:
            self.spoken.done = True
            await self._send("done", done=True)

    async def _send(self, kind: str, **content: Any) -> None:
        status = {"type": kind, "context_id": self.spoken.context_id, "status_code": 206, "done": False}
        await self._connection.send(json.dumps({**status, **content}))


def _chunks(speech: Speech) -> Iterator[Speech]:
    """Cut sound into chunks, each with the words that begin in it."""
    size = int(CHUNK_SECS * speech.sample_rate)
    for at in range(0, len(speech.pcm) // 2, size):
        since, until = at / speech.sample_rate, (at + size) / speech.sample_rate
        words = [(word, start) for word, start in speech.word_times if since <= start < until]
        yield Speech(speech.pcm[at * 2 : (at + size) * 2], speech.sample_rate, words)
