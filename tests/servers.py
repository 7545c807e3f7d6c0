# SPDX-License-Identifier: BSD-2-Clause
"""Databases on real servers, each test with a corner of its own that is cleared away afterwards."""

import os
import uuid

import psycopg
import pytest
import redis

POSTGRES = os.environ.get("PIPECAT_ASYNC_TOOLS_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432/test")
REDIS = os.environ.get("PIPECAT_ASYNC_TOOLS_TEST_REDIS", "redis://127.0.0.1:6379/0")


def unavailable(what: str, error: Exception):
    """Skip with the reason, or fail where a server must be there."""
    reason = f"no {what}: {error}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def postgres_url():
    """The URL of a PostgreSQL store in a schema of its own."""
    schema = f"test_{uuid.uuid4().hex[:12]}"
    try:
        connection = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5)
    except psycopg.Error as e:
        unavailable("PostgreSQL", e)
    with connection:
        yield f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}schema={schema}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def redis_url():
    """The URL of a Redis store under a prefix of its own."""
    prefix = f"{{test-{uuid.uuid4().hex[:12]}}}"
    client = redis.Redis.from_url(REDIS)
    try:
        client.ping()
    except redis.RedisError as e:
        unavailable("Redis", e)
    yield f"{REDIS}{'&' if '?' in REDIS else '?'}prefix={prefix}"
    for key in client.scan_iter(match=f"{prefix}*", count=1000):
        client.delete(key)
    client.close()
