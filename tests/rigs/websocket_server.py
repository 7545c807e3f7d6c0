# SPDX-License-Identifier: BSD-2-Clause
"""A websocket server on loopback whose connections can be dropped and refused."""

from typing import Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response


class WebsocketServer:
    """Listens on a free port of 127.0.0.1 while it is entered.

    Parameters:
        connections: How many connections were accepted.
        refusals: How many were refused with HTTP 401.
    """

    def __init__(self):
        """Initialize the server; it listens once entered."""
        self.connections = 0
        self.refusals = 0
        self._open: set[ServerConnection] = set()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        self._server = await serve(self._accept, "127.0.0.1", 0, process_request=self.check)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drop every connection and stop listening."""
        assert self._server
        self.drop()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server
        host, port = next(iter(self._server.sockets)).getsockname()[:2]
        return f"ws://{host}:{port}"

    def drop(self) -> None:
        """Drop every connection without a word, as a network does."""
        for connection in list(self._open):
            connection.transport.abort()

    def refuse(self, connection: ServerConnection, body: str) -> Response:
        """Answer a handshake with HTTP 401."""
        self.refusals += 1
        return connection.respond(401, body)

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return what refuses a handshake, or None to accept it."""
        raise NotImplementedError

    async def listen(self, connection: ServerConnection) -> None:
        """Serve a connection until one side closes it."""
        raise NotImplementedError

    async def _accept(self, connection: ServerConnection) -> None:
        self.connections += 1
        self._open.add(connection)
        try:
            await self.listen(connection)
        finally:
            self._open.discard(connection)
