# SPDX-License-Identifier: BSD-2-Clause
"""What is said, and what goes on, when a Redis server refuses, is slow, or goes away."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest
import redis

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.store import redis_watch
from pipecat_async_tools.store.redis import RedisStore
from tests.store.test_redis import keys_of_its_own, raw_client, real_time, redis_url
from tests.store.test_redis_store import an_operation

pytestmark = pytest.mark.realtime
START_SECS = 10.0
WAIT_SECS = 10.0


def free_port() -> int:
    """A port that is free; a node of a cluster listens 10,000 above it as well."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if port + 10_000 < 65_536:
            return port


class Server:
    """A Redis server of the test's own."""

    def __init__(self, folder, *options: str):
        self.port = free_port()
        self._command = ["redis-server", "--port", str(self.port), "--dir", str(folder), *options]
        self._process = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECS
        while not self._answers():
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)

    def send(self, signal_number: int) -> None:
        self._process.send_signal(signal_number)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with raw_client(self.url) as client:
                client.ping()
        except redis.AuthenticationError:
            return True
        except redis.ConnectionError:
            return False
        return True


@contextmanager
def serving(folder, *options: str):
    if shutil.which("redis-server") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("redis-server is not installed")
        pytest.skip("redis-server is not installed")
    server = Server(folder, "--save", "", *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def refusal(url: str) -> str:
    """What a write is refused with."""
    store = RedisStore(url)
    try:
        with pytest.raises(StoreError) as refused:
            await store.renew("bot", 10.0)
    finally:
        await store.close()
    return str(refused.value)


@real_time
async def test_a_server_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = await refusal(f"redis://user:secret@127.0.0.1:{port}/3")
    assert said.startswith(f"redis://127.0.0.1:{port}/3 cannot be reached: is it running")
    assert "secret" not in said


@real_time
async def test_a_password_that_is_wrong_or_missing(tmp_path):
    with serving(tmp_path, "--requirepass", "right-secret") as server:
        wrong = await refusal(server.url.replace("//", "//:wrong-secret@"))
        missing = await refusal(server.url)
        store = RedisStore(server.url.replace("//", "//:right-secret@"))
        await store.renew("bot", 10.0)
        await store.close()
    assert "in the URL" in wrong and "in the URL" in missing
    assert "secret" not in wrong + missing + repr(store)


@real_time
async def test_a_user_who_may_not_write(tmp_path):
    with serving(tmp_path) as server:
        with raw_client(server.url) as client:
            client.execute_command(
                "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection"
            )
        said = await refusal(server.url.replace("//", "//reader:secret@"))
    assert "does not allow this user" in said
    assert "secret" not in said


@real_time
async def test_a_replica(tmp_path):
    with serving(tmp_path, "--replicaof", "127.0.0.1 1") as server:
        assert "is a read-only replica: give the address of the primary" in await refusal(server.url)


@real_time
async def test_a_server_without_memory_keeps_all_or_nothing(tmp_path):
    with serving(tmp_path) as server:
        store = RedisStore(server.url)
        await store.renew("bot", 10.0)
        with raw_client(server.url) as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreError, match="is out of memory: prune the store or raise maxmemory"):
                await store.accept([an_operation()], owner="bot")
            client.config_set("maxmemory", 0)
        assert await store.operations("room") == await store.batches("room") == await store.events() == []
        await store.close()


@real_time
async def test_a_server_that_hangs(tmp_path):
    with serving(tmp_path) as server:
        store = RedisStore(f"{server.url}?socket_timeout=0.3")
        await store.renew("bot", 10.0)
        server.send(signal.SIGSTOP)
        try:
            with pytest.raises(StoreError, match="did not answer within"):
                await store.renew("bot", 10.0)
        finally:
            server.send(signal.SIGCONT)
        assert await store.hold_session("room", owner="bot") == 1
        await store.close()


@real_time
async def test_a_node_of_a_cluster(tmp_path):
    with serving(tmp_path, "--cluster-enabled", "yes") as server:
        with raw_client(server.url) as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
            while "cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                await asyncio.sleep(0.05)
        store = RedisStore(f"{server.url}?prefix={{clinic}}")
        (accepted,) = await store.accept([an_operation()], owner="bot")
        assert await store.operations("room") == [accepted.operation]
        assert await store.prune(0.0)
        await store.close()


@real_time
async def test_watching_goes_on_when_the_server_was_away(tmp_path):
    with serving(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = RedisStore(server.url)
        changes = store.watch("room")
        await anext(changes)
        await store.accept([an_operation()], owner="bot")
        await anext(changes)
        server.stop()
        back = asyncio.ensure_future(anext(changes))
        done, _ = await asyncio.wait([back], timeout=0.5)
        assert not done, "it yielded while nobody was there"
        server.start()
        await asyncio.wait_for(back, WAIT_SECS)
        assert len(await store.operations("room")) == 1
        await store.append(Event(name="on_delivery_waiting", at=0.0, session_id="room"))
        await asyncio.wait_for(anext(changes), WAIT_SECS)
        await changes.aclose()
        await store.close()


@real_time
async def test_watching_begins_before_the_server_does(tmp_path):
    with serving(tmp_path) as server:
        server.stop()
        store = RedisStore(server.url)
        changes = store.watch()
        first = asyncio.ensure_future(anext(changes))
        done, _ = await asyncio.wait([first], timeout=0.3)
        assert not done
        server.start()
        await asyncio.wait_for(first, WAIT_SECS)
        await changes.aclose()
        await store.close()


@real_time
async def test_a_connection_that_died_without_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(redis_watch, "_QUIET_SECS", 0.1)
    monkeypatch.setattr(redis_watch, "TIMEOUT_SECS", 0.2)
    with serving(tmp_path) as server:
        store = RedisStore(f"{server.url}?socket_timeout=0.2")
        changes = store.watch()
        await anext(changes)
        back = asyncio.ensure_future(anext(changes))
        done, _ = await asyncio.wait([back], timeout=0.5)
        assert not done, "a quiet connection is taken for a dead one"
        server.send(signal.SIGSTOP)
        await asyncio.sleep(0.6)
        server.send(signal.SIGCONT)
        await asyncio.wait_for(back, WAIT_SECS)
        await changes.aclose()
        await store.close()


@real_time
async def test_another_store_is_heard_and_another_session_is_not():
    with keys_of_its_own() as prefix:
        here, there = RedisStore(redis_url(prefix)), RedisStore(redis_url(prefix))
        room, everywhere = here.watch("room"), here.watch()
        await anext(room)
        await anext(everywhere)
        await there.append(Event(name="on_delivery_waiting", at=0.0, session_id="hall"))
        await asyncio.wait_for(anext(everywhere), WAIT_SECS)
        heard = asyncio.ensure_future(anext(room))
        done, _ = await asyncio.wait([heard], timeout=0.2)
        assert not done, "it heard of another session"
        await there.append(Event(name="on_delivery_waiting", at=0.0, session_id="room"))
        await asyncio.wait_for(heard, WAIT_SECS)
        await here.close()
        await there.close()


@real_time
async def test_whoever_watches_stops_when_the_store_is_closed():
    with keys_of_its_own() as prefix:
        store = RedisStore(redis_url(prefix))
        changes = store.watch()
        await anext(changes)
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, WAIT_SECS)


@real_time
async def test_an_old_server_is_refused(monkeypatch):
    store = RedisStore("redis://127.0.0.1:6379/0")

    async def info():
        return {"redis_version": "6.0.16"}

    monkeypatch.setattr(store._link, "info", info)
    with pytest.raises(StoreError, match=r"is Redis 6\.0\.16: 6\.2 or newer is needed"):
        await store.open()
