# SPDX-License-Identifier: BSD-2-Clause
"""What happens when there is a lot: reading times, memory and the size of the file.

Run it with ``python -m benchmarks.scale``; it takes some minutes. The exit status is 1 if an aim is missed:

- with 100,000 operations in one SQLite file, opening it, and each thing that is read while calls go on or
  that a person asks for, takes less than 50 ms (median);
- a process that writes or runs operations all day does not grow: between operation 2,000 and operation
  10,000 less than 1 MB, as Python counts it;
- a file that is pruned stays within a quarter of the size it had after its first portion was deleted.
"""

import argparse
import asyncio
import contextlib
import gc
import io
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from loguru import logger

from pipecat_async_tools import Operation, Worker, async_tool
from pipecat_async_tools.console.app import app
from pipecat_async_tools.events import Journal
from pipecat_async_tools.operations.executors.local import LocalExecutor
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.outcome import succeeded
from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.store import accepting, settling, tellings
from pipecat_async_tools.store.rows import TellingEnd, TellingRecord, delivery_id
from pipecat_async_tools.store.sqlite import SqliteStore
from pipecat_async_tools.store.transaction import Transaction
from pipecat_async_tools.testing import virtual_time

MAX_READ_MS = 50.0
MAX_GROWTH_KB = 1000.0
MAX_FILE_RATIO = 1.25
OWNER = "benchmark"
A_CALL = 20
RESULT = {"slots": ["10:00", "10:30", "11:15"], "doctor": "Dr. Example", "room": 4}
DAY_SECS = 86400.0

_numbers = count(1)


def new_operation(session: str) -> Operation:
    """An operation in a batch of its own."""
    number = next(_numbers)
    return Operation(
        session_id=session,
        turn_id=f"turn-{number}",
        batch_id=f"batch-{number}",
        tool_call_id=f"call-{number}",
        tool="check_availability",
        arguments={"date": "2026-12-03", "patient": "Ada Example"},
        intent_key=f'check_availability:{{"number":{number}}}',
        timeout_secs=DAY_SECS,
    )


def write_call(tx: Transaction, session: str) -> None:
    """Write a call whose every operation succeeded and was told."""
    fence = tellings.hold(tx, session, OWNER)
    assert fence is not None
    for _ in range(A_CALL):
        operation = new_operation(session)
        accepting.accept(tx, [operation], OWNER, (), "join")
        claim = accepting.claim(tx, operation.operation_id, OWNER)
        assert claim is not None
        settling.finish(tx, operation.operation_id, succeeded(RESULT), claim.fence, False, 200)
        name, telling = delivery_id(operation.batch_id), f"telling-{operation.operation_id}"
        assert tellings.claim(tx, session, [name], telling, fence, "proactive") == (name,)
        record = TellingRecord(
            telling_id=telling, started_at=1.0, ended_at=2.0, heard="There is a slot.", outcome="completed"
        )
        end = TellingEnd(delivery_id=name, state="spoken", reason="completed", record=record)
        assert tellings.settle(tx, telling, [end]) == (name,)
    tellings.release(tx, session, OWNER)


def write_call_going_on(tx: Transaction) -> None:
    """Write a call with deliveries that are owed, and operations running and waiting."""
    tellings.hold(tx, "going-on", OWNER)
    for number in range(A_CALL):
        operation = new_operation("going-on")
        accepting.accept(tx, [operation], OWNER, (), "join")
        claim = accepting.claim(tx, operation.operation_id, OWNER) if number % 3 else None
        if claim is not None and number % 3 == 1:
            settling.finish(tx, operation.operation_id, succeeded(RESULT), claim.fence, False, 200)


async def write_calls(store: SqliteStore, operations: int, name: str) -> None:
    """Write calls by the store's own transitions, many calls to a commit."""
    await store.renew(OWNER, DAY_SECS)
    calls, together = operations // A_CALL, 50
    for first in range(0, calls, together):
        numbers = range(first, min(first + together, calls))
        await store._do(lambda tx, n=numbers: [write_call(tx, f"{name}-{number}") for number in n])


# Reading


async def time_of(do: Callable[[], Awaitable[object]], times: int) -> float:
    """The median time of something, in milliseconds."""
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        await do()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def measure_reading(folder: Path, operations: int) -> bool:
    """Fill a file, print how long each thing takes, and return whether the aims were met."""
    url = f"sqlite:///{folder}/large.db"
    store = SqliteStore(url)
    began = time.perf_counter()
    await write_calls(store, operations, "call")
    await store._do(write_call_going_on)
    await store.close()
    size = os.path.getsize(folder / "large.db") / 1e6
    print(f"{operations:,} operations: {size:.0f} MB, written in {time.perf_counter() - began:.0f} s")
    some = f"call-{operations // A_CALL // 2}"

    async def open_it() -> None:
        another = SqliteStore(url)
        await another.open()
        await another.close()

    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "opening": open_it,
        "open_deliveries": lambda: store.open_deliveries("going-on"),
        "overdue": lambda: store.overdue(0.0),
        "recover": store.recover,
        "events of a session": lambda: store.events(session_id=some),
        "operations of a session": lambda: store.operations(some),
        "dead_letters": store.dead_letters,
        "give_up_deliveries": lambda: store.give_up_deliveries(DAY_SECS),
        "explain": lambda: asyncio.to_thread(explain, url, some),
    }
    met = True
    for name, step in steps.items():
        await step()
        took = await time_of(step, 21)
        met = met and took < MAX_READ_MS
        print(f"  {name:<26}{took:8.2f} ms{'' if took < MAX_READ_MS else '    MISSED'}")
    print(f"  {'sessions, 1,000 of them':<26}{await time_of(store.sessions, 5):8.2f} ms    no aim")
    print(f"  aim: each below {MAX_READ_MS:g} ms")
    await store.close()
    return met


def explain(url: str, session: str) -> None:
    """Tell the story of a call as the command line does."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        app(["explain", session, "--store", url], standalone_mode=False)
    assert "check_availability" in output.getvalue()


# Memory


@dataclass(frozen=True)
class Memory:
    """What a process holds.

    Parameters:
        counted_kb: What Python has allocated and not freed.
        resident_kb: What the system gave it.
    """

    counted_kb: float
    resident_kb: float

    @classmethod
    def now(cls) -> "Memory":
        """Look, after collecting garbage."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1]) if sys.platform == "linux" else 0
        return cls(tracemalloc.get_traced_memory()[0] / 1000, pages * os.sysconf("SC_PAGE_SIZE") / 1000)


async def through_the_store(store: SqliteStore, operations: int) -> None:
    """Take operations through their lives, 32 at a time."""
    left = iter(range(operations))

    async def one_after_another() -> None:
        for _ in left:
            operation = new_operation("all-day")
            await store.accept([operation], owner=OWNER)
            claim = await store.claim(operation.operation_id, owner=OWNER)
            assert claim is not None
            await store.finish(operation.operation_id, succeeded(RESULT), fence=claim.fence)

    await asyncio.gather(*(one_after_another() for _ in range(32)))


@async_tool(timeout_secs=30.0)
async def check_availability(op: object) -> object:
    """Check."""
    return RESULT


async def through_a_worker(store: SqliteStore, operations: int) -> None:
    """Accept operations that nobody claims, and wait until the worker has run them."""
    for _ in range(operations // 100):
        some = [new_operation("all-day") for _ in range(100)]
        await asyncio.gather(*(store.accept([operation], owner=OWNER) for operation in some))
        while await store.overdue(0.0, limit=1):
            await asyncio.sleep(5.0)


async def through_ledgers(store: SqliteStore, operations: int) -> None:
    """Run operations in one call after another, each with a ledger of its own."""
    for number in range(operations // A_CALL):
        executor = LocalExecutor()
        ledger = OperationLedger(
            store=store,
            owner=OWNER,
            executor=executor,
            tools={"check_availability": spec_of(check_availability)},
            journal=Journal(session_id="all-day", now=time.time, publish=lambda event: None),
        )
        for _ in range(A_CALL):
            await ledger.accept([new_operation(f"day-{number}")])
        await ledger.stop(10.0)
        assert all(operation.is_settled for operation in ledger.operations)


async def growth(name: str, folder: Path, go_on: Callable[[SqliteStore, int], Awaitable[None]]) -> bool:
    """Print what a process holds on its way to operation 10,000; return whether it stays the same."""
    store = SqliteStore(f"sqlite:///{folder}/{name.replace(' ', '-')}.db")
    await store.renew(OWNER, 100 * DAY_SECS)
    looks: list[Memory] = []
    tracemalloc.start()
    async with Worker(store=store, tools=[check_availability]):
        for portion in (2000, 4000, 4000):
            await go_on(store, portion)
            # What ran lately is remembered until its time is up.
            await asyncio.sleep(100.0)
            looks.append(Memory.now())
    tracemalloc.stop()
    await store.close()
    counted = "".join(f"{look.counted_kb / 1000:8.2f}" for look in looks)
    resident = "".join(f"{look.resident_kb / 1000:8.1f}" for look in looks)
    grown = looks[-1].counted_kb - looks[0].counted_kb
    met = grown < MAX_GROWTH_KB
    print(
        f"  {name:<18}{counted} MB    resident{resident} MB    "
        f"grown {grown:+.0f} kB{'' if met else '    MISSED'}"
    )
    return met


def measure_memory(folder: Path) -> bool:
    """Print the memory of three long-running processes, and return whether the aims were met."""
    print("Memory at operation 2,000, 6,000 and 10,000")
    ways = (("store", through_the_store), ("worker", through_a_worker), ("ledgers of calls", through_ledgers))
    met = [virtual_time(real_limit_secs=600.0)(growth)(name, folder, way) for name, way in ways]
    print(f"  aim: grown by less than {MAX_GROWTH_KB:g} kB")
    return all(met)


# The file


async def measure_file(folder: Path) -> bool:
    """Print how large a file is that is pruned again and again, and return whether the aim was met."""
    path = folder / "pruned.db"
    store = SqliteStore(f"sqlite:///{path}")
    full, took = list[float](), 0.0
    for number in range(5):
        await write_calls(store, 2000, f"day-{number}")
        full.append(os.path.getsize(path) / 1e6)
        began = time.perf_counter()
        deleted = await store.prune(0.0)
        assert deleted["operations"] == 2000
        took = time.perf_counter() - began
    await store.close()
    empty = os.path.getsize(path) / 1e6
    print("A file that is pruned after each 2,000 operations")
    print(f"  before pruning {', '.join(f'{size:.2f}' for size in full)} MB; {empty:.2f} MB after the last")
    print(f"  the last prune took {took:.2f} s; aim: the last at most {MAX_FILE_RATIO:g} of the first")
    return max(full) <= MAX_FILE_RATIO * full[0]


def main() -> int:
    """Measure all, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operations", type=int, default=100_000, help="operations in the large file")
    parser.add_argument("--folder", type=Path, help="where the files are made")
    options = parser.parse_args()
    logger.remove()
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        met = [
            asyncio.run(measure_reading(folder, options.operations)),
            asyncio.run(measure_file(folder)),
            measure_memory(folder),
        ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
