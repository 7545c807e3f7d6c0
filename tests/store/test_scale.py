# SPDX-License-Identifier: BSD-2-Clause
"""A lot of operations: what is read goes by an index, and who runs them all day holds no more by night."""

import asyncio
import gc
import re
import sqlite3
import sys

import pytest

from pipecat_async_tools import Worker, async_tool
from pipecat_async_tools.operations.outcome import succeeded
from pipecat_async_tools.store.sqlite import SqliteStore
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation

DAY = 86400.0
# What is done, and the indexes it has to go by.
READS = {
    "open_deliveries": (lambda store: store.open_deliveries("room-1"), {"deliveries_open"}),
    "deliveries": (lambda store: store.deliveries("room-1"), {"deliveries_session"}),
    "operations": (lambda store: store.operations("room-1"), {"operations_session"}),
    "batches": (lambda store: store.batches("room-1"), {"batches_session", "operations_batch"}),
    "events": (lambda store: store.events(session_id="room-1"), {"events_session"}),
    "events of all": (lambda store: store.events(after="3"), set()),
    "dead_letters": (lambda store: store.dead_letters(session_id="room-1"), {"dead_letters_session"}),
    "overdue": (lambda store: store.overdue(0.0), {"operations_accepted"}),
    "recover": (
        lambda store: store.recover(),
        {"operations_running", "operations_deadline", "batches_waiting"},
    ),
    "give_up_deliveries": (lambda store: store.give_up_deliveries(DAY), {"deliveries_waiting"}),
    "sessions": (lambda store: store.sessions(), {"sessions_last", "operations_session", "deliveries_open"}),
    "accept": (lambda store: store.accept([fresh(1)], owner="bot"), {"operations_intent"}),
    "claim": (lambda store: store.claim("waiting", owner="bot"), set()),
    "finish": (
        lambda store: store.finish("waiting", succeeded("done")),
        {"operations_batch", "deliveries_batch"},
    ),
}
# What walks along an index and stops at a limit, or along one that holds only what is looked for; "s" is
# the subquery of the former, and constant rows are what is inserted.
IN_ORDER = re.compile(
    r"SCAN (sessions USING INDEX sessions_last|o USING INDEX operations_running"
    r"|b USING INDEX batches_waiting|s|\d+ CONSTANT ROWS)"
)


def fresh(room, **fields):
    made = operation(session_id=f"room-{room}", timeout_secs=DAY, **fields)
    key = {"batch_id": f"batch-{made.operation_id}", "intent_key": made.operation_id}
    return operation(**{**made.__dict__, **{k: v for k, v in key.items() if k not in fields}})


class Recorder(sqlite3.Connection):
    """A connection that can be asked for the plan of all that it ran."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ran = set()

    def execute(self, sql, values=()):
        self.ran.add((sql, tuple(values)))
        return super().execute(sql, values)

    def plans(self):
        """Each statement with the steps that SQLite takes for it."""
        for sql, values in sorted(self.ran, key=str):
            if re.match("SELECT|UPDATE|INSERT|DELETE", sql):
                for step in super().execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall():
                    yield sql, step[-1]


@pytest.fixture
def recorded(monkeypatch):
    """The connections that are opened."""
    opened, connect = [], sqlite3.connect

    def connect_recorded(*args, **kwargs):
        opened.append(connect(*args, factory=Recorder, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_recorded)
    return opened


async def fill(store):
    await store.renew("bot", DAY)
    for room in range(3):
        assert await store.hold_session(f"room-{room}", owner="bot")
        for number in range(4):
            (accepted,) = await store.accept([fresh(room)], owner="bot")
            if number:
                claim = await store.claim(accepted.operation.operation_id, owner="bot")
                assert claim is not None
            if number > 1:
                await store.finish(accepted.operation.operation_id, succeeded("done"))
    await store.accept([fresh(1, operation_id="waiting")], owner="bot")


@pytest.mark.parametrize("name", READS)
@virtual_time
async def test_no_table_is_scanned(name, recorded):
    store = SqliteStore("sqlite:///:memory:")
    await fill(store)
    (connection,) = recorded
    connection.ran.clear()
    do, indexes = READS[name]
    await do(store)
    plans = await store._run(lambda: list(connection.plans()))
    assert plans
    scans = [(step, sql) for sql, step in plans if step.startswith("SCAN") and not IN_ORDER.fullmatch(step)]
    assert not scans
    assert indexes <= set(re.findall(r"INDEX (\w+)", " ".join(step for _, step in plans)))
    await store.close()


def held():
    gc.collect()
    return sys.getallocatedblocks()


@virtual_time
async def test_a_store_holds_no_more_after_many_operations():
    store = SqliteStore("sqlite:///:memory:")

    async def go_on(times):
        for _ in range(times):
            (accepted,) = await store.accept([fresh(1)], owner="bot")
            claim = await store.claim(accepted.operation.operation_id, owner="bot")
            assert claim is not None
            await store.finish(accepted.operation.operation_id, succeeded("done"), fence=claim.fence)

    await go_on(300)
    before = held()
    await go_on(1500)
    # One thing kept of each would be 1,500 blocks or more.
    assert held() - before < 700
    await store.close()


@virtual_time
async def test_a_worker_holds_no_more_after_many_operations():
    store = SqliteStore("sqlite:///:memory:")

    @async_tool(timeout_secs=50.0)
    async def book(op):
        """Book."""
        return "booked"

    async def go_on(portions):
        for _ in range(portions):
            some = [operation(tool="book", batch_id=f"batch-{number}") for number in range(100)]
            for each in some:
                await store.accept([each], owner="bot")
            await asyncio.sleep(25)
            assert all([(await store.operation(each.operation_id)).is_settled for each in some])
        # What ran lately is remembered until its time is up.
        await asyncio.sleep(100)

    async with Worker(store=store, tools=[book]):
        await go_on(3)
        before = held()
        await go_on(15)
        assert held() - before < 700
    await store.close()
