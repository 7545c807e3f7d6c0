# SPDX-License-Identifier: BSD-2-Clause
"""Hearing of changes in a Redis store, also when the server was away in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from loguru import logger

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.store.redis_link import TIMEOUT_SECS, LoopClients, RedisLink

_QUIET_SECS = 15.0
_FIRST_WAIT_SECS = 0.1
_LONGEST_WAIT_SECS = 5.0


async def watch(link: RedisLink, session_id: str | None) -> AsyncIterator[None]:
    """Yield at the start, on every change, and whenever the connection is there again.

    Args:
        link: The way to the server.
        session_id: Only this session; None for all.
    """
    clients = link.clients()
    channel = f"{link.prefix}:changes" if session_id is None else f"{link.prefix}:changes:{session_id}"
    wait_secs = _FIRST_WAIT_SECS
    while not clients.closed:
        try:
            async with link.explained(), aclosing(_changes(clients, channel)) as changes:
                async for _ in changes:
                    wait_secs = _FIRST_WAIT_SECS
                    yield
        except StoreError as e:
            if clients.closed:
                return
            logger.warning(f"watching goes on in {wait_secs:g} s: {e}")
            await asyncio.sleep(wait_secs)
            wait_secs = min(wait_secs * 2, _LONGEST_WAIT_SECS)


async def _changes(clients: LoopClients, channel: str) -> AsyncGenerator[None]:
    async with clients.watching.pubsub() as subscription:
        # The answer to it is the first message: whatever changes after that is heard.
        await subscription.subscribe(channel)
        # It may have connected just after every connection was closed.
        while not clients.closed:
            message = await _next(subscription, _QUIET_SECS)
            if message is None:
                # A connection that died without a word is quiet too.
                await subscription.ping()
                message = await _next(subscription, TIMEOUT_SECS)
            if message is None:
                raise TimeoutError("the connection is dead")
            if message["type"] != "pong":
                yield


async def _next(subscription: Any, timeout_secs: float) -> dict[str, Any] | None:
    return await subscription.get_message(timeout=timeout_secs)
