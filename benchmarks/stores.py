# SPDX-License-Identifier: BSD-2-Clause
"""What the three stores cost, side by side: time of a transition, whole operations a second, lag of the loop.

Run it with ``python -m benchmarks.stores``. It uses a new SQLite file, and a schema and a prefix of its own
on the servers that PIPECAT_ASYNC_TOOLS_TEST_POSTGRES and PIPECAT_ASYNC_TOOLS_TEST_REDIS name (else those of
this machine); a server that is not there is left out. All are measured in turns in one run, so that a busy
machine slows all down alike. An operation is one accept, one claim and one finish, with its batch closed and
its delivery made. The exit status is 1 if SQLite, the default, misses an aim:

- an accept takes less than 1 ms (median, one at a time);
- 500 whole operations a second or more, 32 at a time;
- meanwhile the event loop is less than 5 ms late (99th percentile), since the call's audio is on it.
"""

import argparse
import asyncio
import os
import platform
import sqlite3
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from loguru import logger

from pipecat_async_tools import Operation
from pipecat_async_tools.operations.outcome import succeeded
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.url import store_from_url

MAX_ACCEPT_MS = 1.0
MIN_OPERATIONS_A_SECOND = 500.0
MAX_LAG_MS = 5.0
AT_ONCE = 32
TICK_SECS = 0.005
OWNER = "benchmark"
RESULT = {"slots": ["10:00", "10:30", "11:15"], "doctor": "Dr. Example", "room": 4}
POSTGRES = os.environ.get("PIPECAT_ASYNC_TOOLS_TEST_POSTGRES", "postgresql://root@127.0.0.1:5432/test")
REDIS = os.environ.get("PIPECAT_ASYNC_TOOLS_TEST_REDIS", "redis://127.0.0.1:6379/0")

_numbers = count(1)


@dataclass
class Lane:
    """A store, and what was measured of it.

    Parameters:
        name: What it is called in the table.
        store: The store; None measures the event loop with nothing to do.
        facts: What it runs on, and when it answers.
        accept_ms: Times of single accepts.
        finish_ms: Times of single finishes.
        busy_accept_ms: Times of accepts with 32 operations at a time.
        rates: Whole operations a second of each round.
        cpu_ms: CPU of this process for each operation, of each round.
        lag_ms: How late the ticker was each time.
    """

    name: str
    store: Store | None
    facts: str = ""
    accept_ms: list[float] = field(default_factory=list)
    finish_ms: list[float] = field(default_factory=list)
    busy_accept_ms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)


def new_operation() -> Operation:
    """An operation in a batch of its own; a call has twenty."""
    number = next(_numbers)
    return Operation(
        session_id=f"room-{number // 20}",
        turn_id=f"turn-{number}",
        batch_id=f"batch-{number}",
        tool_call_id=f"call-{number}",
        tool="check_availability",
        arguments={"date": "2026-12-03", "patient": "Ada Example"},
        intent_key=f'check_availability:{{"number":{number}}}',
        timeout_secs=30.0,
    )


async def run_one(store: Store, accept_ms: list[float], finish_ms: list[float]) -> None:
    """Take one operation through its life, and note how long its first and last step took."""
    operation = new_operation()
    began = time.perf_counter()
    await store.accept([operation], owner=OWNER)
    accept_ms.append((time.perf_counter() - began) * 1000)
    claim = await store.claim(operation.operation_id, owner=OWNER)
    assert claim is not None
    began = time.perf_counter()
    finished = await store.finish(operation.operation_id, succeeded(RESULT), fence=claim.fence)
    finish_ms.append((time.perf_counter() - began) * 1000)
    assert finished is not None and finished.delivery is not None


@asynccontextmanager
async def ticking(lag_ms: list[float]) -> AsyncIterator[None]:
    """Note how late the event loop is, every 5 ms."""

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK_SECS
            await asyncio.sleep(TICK_SECS)
            lag_ms.append((time.perf_counter() - due) * 1000)

    ticker = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticker.cancel()


async def run_busy(lane: Lane, store: Store, operations: int) -> None:
    """Take operations through their lives, 32 at a time."""
    left = iter(range(operations))

    async def one_after_another() -> None:
        for _ in left:
            await run_one(store, lane.busy_accept_ms, [])

    async with ticking(lane.lag_ms):
        began, began_cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
        cpu, secs = time.process_time() - began_cpu, time.perf_counter() - began
    lane.rates.append(operations / secs)
    lane.cpu_ms.append(cpu / operations * 1000)


async def measure(lane: Lane, operations: int) -> None:
    """Measure one round of a lane."""
    if lane.store is None:
        async with ticking(lane.lag_ms):
            await asyncio.sleep(0.5)
        return
    await lane.store.renew(OWNER, 600.0)
    for _ in range(operations // 4):
        await run_one(lane.store, lane.accept_ms, lane.finish_ms)
    await run_busy(lane, lane.store, operations)


def clear(lane: Lane) -> None:
    """Forget what the warm-up measured."""
    for noted in (lane.accept_ms, lane.finish_ms, lane.busy_accept_ms, lane.rates, lane.cpu_ms, lane.lag_ms):
        noted.clear()


async def open_sqlite(folder: Path) -> tuple[Lane, Callable[[], Awaitable[None]]]:
    """Return the lane of a new file, and what clears it away: the folder goes with it."""
    store = store_from_url(f"sqlite:///{folder}/calls.db")
    await store.open()
    facts = f"{sqlite3.sqlite_version}, WAL, fsync before each answer, in this process"
    return Lane("SQLite", store, facts), store.close


async def open_postgres(folder: Path) -> tuple[Lane, Callable[[], Awaitable[None]]]:
    """Return the lane of a new schema, and what drops it."""
    import psycopg  # noqa: PLC0415
    from psycopg import sql  # noqa: PLC0415

    schema = f"benchmark_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3) as connection:
        version = connection.info.parameter_status("server_version")
        (sync,) = connection.execute("SHOW synchronous_commit").fetchone() or ("unknown",)
    store = store_from_url(f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}schema={schema}")

    async def clear_away() -> None:
        await store.close()
        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            name = sql.Identifier(schema)
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))

    await store.open()
    return Lane("PostgreSQL", store, f"{version}, synchronous_commit={sync}"), clear_away


async def open_redis(folder: Path) -> tuple[Lane, Callable[[], Awaitable[None]]]:
    """Return the lane of a new prefix, and what deletes it."""
    import redis  # noqa: PLC0415

    prefix = f"{{benchmark-{uuid.uuid4().hex[:12]}}}"
    client = redis.Redis.from_url(REDIS, socket_connect_timeout=3, decode_responses=True)
    version = client.info("server")["redis_version"]
    kept = client.config_get("appendonly")["appendonly"]
    fsync = client.config_get("appendfsync")["appendfsync"]
    store = store_from_url(f"{REDIS}{'&' if '?' in REDIS else '?'}prefix={prefix}")

    async def clear_away() -> None:
        await store.close()
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            client.delete(key)
        client.close()

    await store.open()
    facts = (
        f"appendonly yes, fsync {fsync}" if kept == "yes" else "appendonly no: not on the disk when answered"
    )
    return Lane("Redis", store, f"{version}, {facts}"), clear_away


def percentile(values: list[float], percent: int) -> float:
    """A percentile, 100 for the largest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def fsync_ms(folder: Path, times: int = 50) -> float:
    """The median time the disk needs to keep 4 KiB, in milliseconds: no durable commit is faster."""
    took: list[float] = []
    with open(folder / "probe", "wb", buffering=0) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def print_machine(folder: Path) -> None:
    """Print what the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    print(f"{model or platform.machine()}, {os.cpu_count()} cores, load {load}, {platform.system()}")
    print(f"Python {platform.python_version()}; the disk keeps 4 KiB in {fsync_ms(folder):.2f} ms")


def print_table(lanes: list[Lane], rounds: int, operations: int) -> None:
    """Print what was measured."""
    print(
        f"\n{rounds} rounds of {operations} operations, {AT_ONCE} at a time, "
        f"and {operations // 4} one at a time"
    )
    print(
        f"{'':<12}{'accept ms':>15}{'finish ms':>15}{f'accept, {AT_ONCE} at once':>20}"
        f"{'operations':>12}{'CPU ms per':>12}{'loop late ms':>22}"
    )
    middle, both = "median    p95", f"{'median    p95':>15}"
    print(f"{'':<12}{both}{both}{middle:>20}{'a second':>12}{'operation':>12}{'p50    p99    max':>22}")
    for lane in lanes:
        late = "".join(f"{percentile(lane.lag_ms, p):7.2f}" for p in (50, 99, 100))
        if lane.store is None:
            print(f"{lane.name:<12}{'':>74}{late:>22}")
            continue
        times = (lane.accept_ms, lane.finish_ms, lane.busy_accept_ms)
        one, two, busy = (f"{percentile(t, 50):7.2f}{percentile(t, 95):7.2f}" for t in times)
        rate, cpu = statistics.median(lane.rates), statistics.median(lane.cpu_ms)
        print(f"{lane.name:<12}{one:>15}{two:>15}{busy:>20}{rate:>12.0f}{cpu:>12.2f}{late:>22}")
    print("CPU is that of this process: with a server, its own comes on top; SQLite has none.")


def meets_aims(lane: Lane) -> bool:
    """Print each aim with what was measured, and return whether all were met."""
    accept, rate = percentile(lane.accept_ms, 50), statistics.median(lane.rates)
    late = percentile(lane.lag_ms, 99)
    aims = (
        (f"accept {accept:.2f} ms, aim: below {MAX_ACCEPT_MS:g}", accept < MAX_ACCEPT_MS),
        (
            f"{rate:.0f} operations a second, aim: at least {MIN_OPERATIONS_A_SECOND:g}",
            rate >= MIN_OPERATIONS_A_SECOND,
        ),
        (f"loop late by {late:.2f} ms (p99), aim: below {MAX_LAG_MS:g}", late < MAX_LAG_MS),
    )
    for text, met in aims:
        print(f"{lane.name}: {text}{'' if met else '    MISSED'}")
    return all(met for _, met in aims)


async def run(rounds: int, operations: int, folder: Path) -> bool:
    """Measure all, print the table, and return whether the aims were met."""
    lanes, endings = [Lane("nothing", None)], list[Callable[[], Awaitable[None]]]()
    try:
        for opening in (open_sqlite, open_postgres, open_redis):
            try:
                lane, ending = await opening(folder)
            except Exception as e:
                # The message of a client library may hold the URL, and with it the password.
                print(f"{opening.__name__.removeprefix('open_')} is left out: {type(e).__name__}")
                continue
            lanes.append(lane)
            endings.append(ending)
        for lane in lanes:
            await measure(lane, operations // 4)
            clear(lane)
        for number in range(rounds):
            for lane in lanes if number % 2 else reversed(lanes):
                await measure(lane, operations)
    finally:
        for ending in endings:
            await ending()
    for lane in lanes[1:]:
        print(f"{lane.name}: {lane.facts}")
    print_table(lanes, rounds, operations)
    return all(meets_aims(lane) for lane in lanes if lane.name == "SQLite")


def main() -> int:
    """Measure, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each store")
    parser.add_argument("--operations", type=int, default=400, help="operations a round")
    parser.add_argument(
        "--folder", type=Path, help="where the SQLite file is made, on the disk to be measured"
    )
    options = parser.parse_args()
    logger.remove()
    with TemporaryDirectory(dir=options.folder) as folder:
        print_machine(Path(folder))
        met = asyncio.run(run(options.rounds, options.operations, Path(folder)))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
