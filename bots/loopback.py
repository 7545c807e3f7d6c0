# SPDX-License-Identifier: BSD-2-Clause
"""A server that only this machine can reach."""

from typing import Self

from aiohttp import web


class LoopbackServer:
    """Listens on a free port of 127.0.0.1 while it is entered."""

    def __init__(self, app: web.Application):
        """Initialize the server; it listens once entered.

        Args:
            app: What it serves.
        """
        self._runner = web.AppRunner(app, shutdown_timeout=1.0)

    async def __aenter__(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"
