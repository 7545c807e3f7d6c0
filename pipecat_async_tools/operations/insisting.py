# SPDX-License-Identifier: BSD-2-Clause
"""Asks a store that may be slow or away: in time where somebody waits, else until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from loguru import logger

from pipecat_async_tools.errors import StoreError

STORE_TIMEOUT_SECS = 5.0
_FIRST_WAIT_SECS = 0.1

T = TypeVar("T")


async def in_time(write: Coroutine[Any, Any, T], what: str) -> T:
    """Return what the store answers.

    Args:
        write: What the store was asked.
        what: The same, in words.

    Raises:
        StoreError: It did not answer within ``STORE_TIMEOUT_SECS``.
    """
    try:
        return await asyncio.wait_for(write, STORE_TIMEOUT_SECS)
    except TimeoutError:
        raise StoreError(f"the store did not {what} within {STORE_TIMEOUT_SECS:g} s") from None


async def insist(write: Callable[[], Coroutine[Any, Any, T]], what: str) -> T:
    """Return what the store answers, however often it must be asked.

    An outcome that is not stored must not be told, and must not be lost either.

    Args:
        write: Asks the store.
        what: The same, in words.
    """
    wait_secs = _FIRST_WAIT_SECS
    while True:
        try:
            return await in_time(write(), what)
        except StoreError as e:
            logger.error(f"{e}; trying again in {wait_secs:g} s")
            await asyncio.sleep(wait_secs)
            wait_secs = min(wait_secs * 2, STORE_TIMEOUT_SECS)
