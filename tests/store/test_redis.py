# SPDX-License-Identifier: BSD-2-Clause
"""The contract of stores, on Redis."""

import asyncio
import functools
import os
import uuid
from contextlib import contextmanager
from functools import cache
from urllib.parse import quote

import pytest
import redis

URL = os.environ.get("PIPECAT_ASYNC_TOOLS_TEST_REDIS", "redis://127.0.0.1:6379/0")
LIMIT_SECS = 20.0


@contextmanager
def keys_of_its_own():
    """A prefix whose keys are gone afterwards; skips when there is no server."""
    if missing := _missing():
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    prefix = f"{{test-{uuid.uuid4().hex[:12]}}}"
    try:
        yield prefix
    finally:
        with raw_client() as client:
            for key in client.scan_iter(match=f"{prefix}*", count=1000):
                client.delete(key)


def redis_url(prefix: str) -> str:
    return f"{URL}?prefix={quote(prefix)}"


def raw_client(url: str = URL) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, socket_connect_timeout=2.0)


def real_time(test):
    """Run an `async def` test on a plain event loop, and close its store on the same one."""

    async def run(*args, **kwargs):
        try:
            async with asyncio.timeout(LIMIT_SECS):
                await test(*args, **kwargs)
        finally:
            if "store" in kwargs:
                await kwargs["store"].close()

    @functools.wraps(test)
    def run_test(*args, **kwargs):
        asyncio.run(run(*args, **kwargs))

    return run_test


@cache
def _missing() -> str | None:
    try:
        with raw_client() as client:
            client.ping()
    except redis.RedisError as e:
        return f"no Redis server at PIPECAT_ASYNC_TOOLS_TEST_REDIS ({e})"
    return None
