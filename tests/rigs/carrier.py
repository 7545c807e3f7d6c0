# SPDX-License-Identifier: BSD-2-Clause
"""A phone carrier as a media stream shows it: the wire protocol of Twilio, a buffer, and a hang-up API.

It sends the caller's side as 20 ms of 8 kHz mu-law, plays what it gets at real-time pace behind a buffer that
the bot cannot see, returns a mark when the audio before it was played, and on a clear drops its buffer and
returns the marks in it.
"""

import asyncio
import audioop
import base64
import contextlib
import json
import random
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp.web
import uvicorn
import websockets
from fastapi import FastAPI, WebSocket

from bots.inprocess import FRAME_SECS, SAMPLE_RATE, Line
from bots.loopback import LoopbackServer

WIRE_RATE = 8000
WIRE_FRAME = int(WIRE_RATE * FRAME_SECS)
STREAM, CALL, ACCOUNT, TOKEN = "MZ1", "CA1", "AC1", "secret"


@dataclass
class Carrier:
    """The carrier's side of one call.

    Parameters:
        line: What caller and bot hear.
        buffer_secs: How much audio it gathers before it begins to play.
        jitter_secs: How much later than due a message of the caller's audio can be.
        returns_marks: Whether it returns marks at all.
    """

    line: Line
    buffer_secs: float = 0.0
    jitter_secs: float = 0.0
    returns_marks: bool = True
    hung_up_at: float | None = None
    marks: list[str] = field(default_factory=list)
    clears: int = 0

    async def run(self, url: str) -> None:
        """Carry the call until the bot hangs up or closes the stream."""
        self._queue: deque[bytes | str] = deque()
        self._media: asyncio.Event = asyncio.Event()
        async with websockets.connect(url) as socket:
            self.line.open()
            await socket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
            start = {"accountSid": ACCOUNT, "streamSid": STREAM, "callSid": CALL, "tracks": ["inbound"]}
            await socket.send(json.dumps({"event": "start", "streamSid": STREAM, "start": start}))
            parts = [self._talk(socket), self._play(socket), self._listen(socket)]
            tasks = [asyncio.create_task(part) for part in parts]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with contextlib.suppress(Exception):
                    await socket.send(json.dumps({"event": "stop", "streamSid": STREAM}))

    async def _talk(self, socket) -> None:
        state, sent, chance = None, 0, random.Random(7)
        while True:
            pcm, state = audioop.ratecv(self.line.next_caller_frame(), 2, 1, SAMPLE_RATE, WIRE_RATE, state)
            payload = base64.b64encode(audioop.lin2ulaw(pcm, 2)).decode()
            message = {
                "event": "media",
                "streamSid": STREAM,
                "media": {"track": "inbound", "payload": payload},
            }
            await socket.send(json.dumps(message))
            sent += 1
            due = sent * FRAME_SECS - self.line.now
            await asyncio.sleep(max(0.0, due + chance.random() * self.jitter_secs))

    async def _listen(self, socket) -> None:
        async for data in socket:
            message = json.loads(data)
            if message["event"] == "media":
                self._take(base64.b64decode(message["media"]["payload"]))
            elif message["event"] == "mark" and self.returns_marks:
                assert message["streamSid"] == STREAM
                self._queue.append(message["mark"]["name"])
                self._media.set()
            elif message["event"] == "clear":
                await self._clear(socket)

    def _take(self, ulaw: bytes) -> None:
        self._queue.extend(ulaw[at : at + WIRE_FRAME] for at in range(0, len(ulaw), WIRE_FRAME))
        self._media.set()

    async def _clear(self, socket) -> None:
        self.clears += 1
        names = [item for item in self._queue if isinstance(item, str)]
        self._queue.clear()
        for name in names:
            await self._return(socket, name)

    async def _play(self, socket) -> None:
        heard_until, state = 0.0, None
        while True:
            if not self._queue:
                self._media.clear()
                await self._media.wait()
                # Only now does it begin to play again: what comes meanwhile is gathered.
                heard_until = max(heard_until, self.line.now + self.buffer_secs)
                await asyncio.sleep(max(0.0, heard_until - self.line.now))
                continue
            item = self._queue.popleft()
            if isinstance(item, str):
                await self._return(socket, item)
                continue
            start = max(self.line.now, heard_until)
            pcm, state = audioop.ratecv(audioop.ulaw2lin(item, 2), 2, 1, WIRE_RATE, SAMPLE_RATE, state)
            self.line.hear_bot(pcm, start)
            heard_until = start + len(item) / WIRE_RATE
            await asyncio.sleep(max(0.0, heard_until - self.line.now))

    async def _return(self, socket, name: str) -> None:
        self.marks.append(name)
        await socket.send(json.dumps({"event": "mark", "streamSid": STREAM, "mark": {"name": name}}))

    async def hang_up(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        """Answer the REST request that ends the call."""
        credentials = aiohttp.BasicAuth.decode(request.headers["Authorization"])
        form = await request.post()
        if (credentials.login, credentials.password) != (ACCOUNT, TOKEN) or form["Status"] != "completed":
            return aiohttp.web.Response(status=401)
        self.hung_up_at = self.line.now
        self._queue.clear()
        return aiohttp.web.json_response({"sid": CALL, "status": "completed"})


@asynccontextmanager
async def rest_api(carrier: Carrier):
    """The carrier's REST API on loopback; yields its address."""
    app = aiohttp.web.Application()
    app.router.add_post(f"/2010-04-01/Accounts/{ACCOUNT}/Calls/{CALL}.json", carrier.hang_up)
    async with LoopbackServer(app) as server:
        yield server.url


@asynccontextmanager
async def phone_bot(answer):
    """A server that answers media streams with a bot; yields its address.

    Args:
        answer: Gets the websocket of each call after its first two messages.
    """
    app = FastAPI()

    @app.websocket("/ws")
    async def _(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.receive_text()
        await websocket.receive_text()
        await answer(websocket)

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    # Pytest's own handlers stay.
    server.install_signal_handlers = lambda: None
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/ws"
    finally:
        server.should_exit = True
        await serving
