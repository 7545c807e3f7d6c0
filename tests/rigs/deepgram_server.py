# SPDX-License-Identifier: BSD-2-Clause
"""Deepgram's live transcription on loopback, as far as Pipecat's client speaks it.

    async with DeepgramServer(key="secret") as ears:
        DeepgramSTTService(api_key="secret", base_url=ears.url)

It recognises what the demo's caller says. Words are final when the client asks for it (``Finalize``) or when
the caller has paused; until then they are sent as interim results.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from bots.inprocess import audible
from bots.offline_ears import SAMPLE_RATE, Recogniser
from tests.rigs.websocket_server import WebsocketServer

PATH = "/v1/listen"
ENDPOINT_SECS = 0.7
"""The pause after which words are final although nobody asked. Longer than the client's VAD takes to ask."""

INTERIM_SECS = 0.5
"""How much more must be heard before another interim result."""

LEAD_SECS = 0.5
"""How much of the silence before the words is kept for the recogniser."""

INACTIVE_SECS = 12.0
"""The server closes a connection that sends neither audio nor ``KeepAlive`` for so long (NET-0001)."""

BYTES_PER_SEC = SAMPLE_RATE * 2

Message = dict[str, Any]


class DeepgramServer(WebsocketServer):
    """The server and what it saw.

    Parameters:
        key: The key that it accepts; None refuses every key from now on.
        received: The types of the control messages received.
        sent: Every message sent.
    """

    def __init__(self, key: str):
        """Initialize the server; it listens once entered.

        Args:
            key: The key that it accepts.
        """
        super().__init__()
        self.key: str | None = key
        self.received: list[str] = []
        self.sent: list[Message] = []
        self._recogniser = Recogniser()
        self._recognising = asyncio.Lock()

    def transcripts(self) -> list[str]:
        """Every final transcript, in order."""
        finals = [message for message in self.sent if message.get("is_final")]
        return [words for message in finals if (words := message["channel"]["alternatives"][0]["transcript"])]

    async def recognise(self, pcm: bytes) -> str:
        """Recognise words off the event loop, one request at a time."""
        async with self._recognising:
            return await asyncio.to_thread(self._recogniser.transcribe, pcm)

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return what refuses a handshake, or None to accept it."""
        if request.path.partition("?")[0] != PATH:
            return connection.respond(404, "no such path\n")
        if self.key is None or request.headers.get("Authorization") != f"Token {self.key}":
            return self.refuse(connection, '{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials."}\n')
        return None

    async def listen(self, connection: ServerConnection) -> None:
        """Serve a connection until one side closes it."""
        await _Stream(self, connection).run()


class _Stream:
    """One connection: audio in, results out."""

    def __init__(self, server: DeepgramServer, connection: ServerConnection):
        self._server = server
        self._connection = connection
        self._request_id = str(uuid.uuid4())
        self._pcm = bytearray()
        self._words_began = False
        self._silent_secs = 0.0
        self._next_interim_secs = INTERIM_SECS
        self._final_secs = 0.0
        self._interim: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until one side closes."""
        try:
            while True:
                await self._take(await asyncio.wait_for(self._connection.recv(), INACTIVE_SECS))
        except TimeoutError:
            await self._connection.close(1011, "NET-0001")
        except ConnectionClosed:
            pass
        finally:
            await self._give_up_interim()

    async def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await self._hear(message)
            return
        kind = json.loads(message)["type"]
        self._server.received.append(kind)
        if kind == "Finalize":
            await self._finish(from_finalize=True)
        elif kind == "CloseStream":
            await self._finish()
            await self._send(self._metadata())
            await self._connection.close()

    async def _hear(self, pcm: bytes) -> None:
        self._pcm += pcm
        if audible(pcm):
            self._words_began, self._silent_secs = True, 0.0
        else:
            self._silent_secs += len(pcm) / BYTES_PER_SEC
        if not self._words_began:
            self._forget_silence()
        elif self._silent_secs >= ENDPOINT_SECS:
            await self._finish(speech_final=True)
        elif len(self._pcm) / BYTES_PER_SEC >= self._next_interim_secs and self._interim is None:
            self._interim = asyncio.create_task(self._guess(bytes(self._pcm)))

    def _forget_silence(self) -> None:
        """Keep only a lead of the silence before the words."""
        surplus = max(0, len(self._pcm) - int(LEAD_SECS * BYTES_PER_SEC)) // 2 * 2
        self._final_secs += surplus / BYTES_PER_SEC
        del self._pcm[:surplus]

    async def _guess(self, pcm: bytes) -> None:
        words = await self._server.recognise(pcm)
        self._next_interim_secs = len(pcm) / BYTES_PER_SEC + INTERIM_SECS
        # No interim result may follow the final one.
        if words and self._interim is asyncio.current_task():
            with contextlib.suppress(ConnectionClosed):
                await self._send(self._results(words, len(pcm), is_final=False))
        self._interim = None

    async def _give_up_interim(self) -> None:
        # Not cancelled: its thread would go on with a recogniser that others take for free.
        if interim := self._interim:
            self._interim = None
            await asyncio.wait((interim,))

    async def _finish(self, *, from_finalize: bool = False, speech_final: bool = False) -> None:
        await self._give_up_interim()
        pcm, began = bytes(self._pcm), self._words_began
        self._pcm.clear()
        self._words_began, self._silent_secs, self._next_interim_secs = False, 0.0, INTERIM_SECS
        words = await self._server.recognise(pcm) if began else ""
        if words or from_finalize:
            flags = {"speech_final": speech_final, "from_finalize": from_finalize}
            await self._send(self._results(words, len(pcm), is_final=True, **flags))
        self._final_secs += len(pcm) / BYTES_PER_SEC

    def _results(self, words: str, size: int, *, is_final: bool, **flags: bool) -> Message:
        duration = size / BYTES_PER_SEC
        alternative = {"transcript": words, "confidence": 0.99 if words else 0.0}
        return {
            "type": "Results",
            "channel_index": [0, 1],
            "duration": duration,
            "start": self._final_secs,
            "is_final": is_final,
            "speech_final": flags.get("speech_final", False),
            "from_finalize": flags.get("from_finalize", False),
            "channel": {"alternatives": [{**alternative, "words": list(_words(words, duration))}]},
            "metadata": {
                "request_id": self._request_id,
                "model_info": {"name": "loopback", "version": "1", "arch": "pocketsphinx"},
                "model_uuid": self._request_id,
            },
        }

    def _metadata(self) -> Message:
        return {
            "type": "Metadata",
            "transaction_key": "deprecated",
            "request_id": self._request_id,
            "sha256": "",
            "created": "2026-01-01T00:00:00.000Z",
            "duration": self._final_secs,
            "channels": 1,
        }

    async def _send(self, message: Message) -> None:
        self._server.sent.append(message)
        await self._connection.send(json.dumps(message))


def _words(words: str, duration: float) -> Iterator[Message]:
    """Each word, as if all were of one length."""
    spoken = words.split()
    for index, word in enumerate(spoken):
        start, end = (duration * at / len(spoken) for at in (index, index + 1))
        yield {"word": word, "punctuated_word": word, "start": start, "end": end, "confidence": 0.99}
