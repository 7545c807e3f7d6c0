# SPDX-License-Identifier: BSD-2-Clause
"""A call that went through a lot, written into a SQLite file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import Outcome, OutcomeClass, failed, succeeded
from pipecat_async_tools.store.rows import TellingEnd, TellingRecord, delivery_id
from pipecat_async_tools.store.sqlite import SqliteStore

SECRET = "Ada Lovelace"
HEARD = "There is a slot at"
UNAVAILABLE = Outcome(
    status=OperationStatus.FAILED, outcome_class=OutcomeClass.UNAVAILABLE, error=f"no slots for {SECRET}"
)


def operation(name: str, tool: str, *, batch: str, session: str = "room-1", **changes) -> Operation:
    return Operation(
        operation_id=name,
        session_id=session,
        turn_id="turn-1",
        batch_id=batch,
        tool_call_id=f"call-{name}",
        tool=tool,
        arguments={"patient": SECRET},
        timeout_secs=60,
        intent_key=f'{tool}:{{"patient":"{SECRET}"}}',
        **changes,
    )


def write_call(path: Path) -> str:
    """Write the call, and return the store's URL."""
    url = f"sqlite:///{path}"
    asyncio.run(_write(SqliteStore(url)))
    return url


async def _write(store: SqliteStore) -> None:
    await store.renew("worker-1", 60)
    fence = await store.hold_session("room-1", owner="worker-1")
    assert fence is not None
    await _check(store)
    await _tell(store, fence)
    await _book(store)
    await store.close()


async def _check(store: SqliteStore) -> None:
    await store.accept(
        [operation("op-checkslots", "check_availability", batch="b1", idempotent=True)], owner="worker-1"
    )
    claim = await store.claim("op-checkslots", owner="worker-1")
    assert claim is not None
    await store.record_attempt(
        "op-checkslots", fence=claim.fence, wait_secs=0.5, outcome=UNAVAILABLE, http_status=503
    )
    await store.finish("op-checkslots", succeeded({"slot": f"10:00 for {SECRET}"}), fence=claim.fence)


async def _tell(store: SqliteStore, fence: int) -> None:
    name = delivery_id("b1")
    await store.append(
        Event(
            name="on_delivery_waiting",
            at=0.0,
            session_id="room-1",
            delivery_id=name,
            batch_id="b1",
            reason="the caller is speaking",
        )
    )
    for telling, outcome, state, heard in (
        ("t1", "interrupted", "pending", HEARD),
        ("t2", "completed", "spoken", f"{HEARD} ten."),
    ):
        assert await store.claim_telling("room-1", [name], telling, fence=fence) == (name,)
        record = TellingRecord(
            telling_id=telling, started_at=1.0, ended_at=1.001, heard=heard, outcome=outcome
        )
        end = TellingEnd(
            delivery_id=name, state=state, reason=outcome, record=record, heard=heard, text=heard
        )
        assert await store.settle_telling(telling, [end]) == (name,)


async def _book(store: SqliteStore) -> None:
    await store.accept([operation("op-bookvisit", "book", batch="b2")], owner="worker-1")
    claim = await store.claim("op-bookvisit", owner="worker-1")
    assert claim is not None
    outcome = failed(f"away: {SECRET}", OutcomeClass.UNAVAILABLE)
    await store.finish("op-bookvisit", outcome, fence=claim.fence, http_status=503)
