# SPDX-License-Identifier: BSD-2-Clause
"""Situations for tests of stores: operations that are running, told, given up; and what the log says."""

from collections.abc import Sequence
from typing import Any

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome, OutcomeClass
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import Claim, DeliveryRow, Finished, TellingEnd, TellingRecord
from tests.builders import operation

DONE = outcomes.succeeded({"slot": "10:00"})
BROKEN = outcomes.failed("It broke.")
BUSY = outcomes.failed("It was busy.", OutcomeClass.RATE_LIMITED)
TIMED_OUT = outcomes.timed_out(30.0)
OUTCOMES = {
    "succeeded": DONE,
    "failed": BROKEN,
    "timed_out": TIMED_OUT,
    "cancelled": outcomes.CANCELLED,
    "unknown": outcomes.ABANDONED,
}
FAR = 1000.0
"""Seconds that do not pass in a test."""


async def accept(store: Store, *operations: Operation, owner: str = "call", **options: Any) -> Operation:
    """Accept the operations of one call, and return the last as it was accepted."""
    answers = await store.accept(operations or (operation(),), owner=owner, **options)
    return answers[-1].operation


async def run(store: Store, owner: str = "worker", **fields: Any) -> Claim:
    """Accept an operation and claim it, for an owner who has a lease."""
    await store.renew(owner, FAR)
    claim = await store.claim((await accept(store, operation(**fields))).operation_id, owner=owner)
    assert claim is not None
    return claim


async def settle(store: Store, outcome: Outcome = DONE, **fields: Any) -> Finished:
    """Accept an operation, claim and finish it; its batch has closed by that unless others are in it."""
    claim = await run(store, **fields)
    finished = await store.finish(claim.operation.operation_id, outcome, fence=claim.fence)
    assert finished is not None
    return finished


async def owe(store: Store, outcome: Outcome = DONE, **fields: Any) -> DeliveryRow:
    """Settle an operation, and return the delivery that came of it."""
    delivery = (await settle(store, outcome, **fields)).delivery
    assert delivery is not None
    return delivery


async def hold(store: Store, session_id: str = "room", owner: str = "call") -> int:
    """Hold a session, and return its fence."""
    await store.renew(owner, FAR)
    fence = await store.hold_session(session_id, owner=owner)
    assert fence is not None
    return fence


async def tell(store: Store, *deliveries: DeliveryRow, telling_id: str = "telling-1") -> int:
    """Hold the session of deliveries and begin to tell them; return the fence."""
    fence = await hold(store, deliveries[0].session_id)
    ids = tuple(delivery.delivery_id for delivery in deliveries)
    assert await store.claim_telling(deliveries[0].session_id, ids, telling_id, fence=fence) == ids
    return fence


def end(delivery_id: str, state: str = "spoken", outcome: str = "completed", **fields: Any) -> TellingEnd:
    """How a telling ended for a delivery."""
    record = TellingRecord(
        telling_id=fields.pop("telling_id", "telling-1"),
        started_at=1.5,
        ended_at=3.25,
        heard=fields.get("heard", ""),
        outcome=outcome,
    )
    return TellingEnd(
        **{"delivery_id": delivery_id, "state": state, "reason": "so it went", "record": record, **fields}
    )


async def finish_telling(
    store: Store, delivery: DeliveryRow, state: str, outcome: str = "completed", **fields: Any
) -> None:
    """Tell a delivery from the beginning to an end."""
    await tell(store, delivery)
    ends = [end(delivery.delivery_id, state, outcome, **fields)]
    assert await store.settle_telling("telling-1", ends) == (delivery.delivery_id,)


async def delivery_of(store: Store, delivery_id: str, session_id: str = "room") -> DeliveryRow:
    """A delivery as it is now."""
    (found,) = [row for row in await store.deliveries(session_id) if row.delivery_id == delivery_id]
    return found


async def events(store: Store, name: str | None = None, **filters: Any) -> list[Event]:
    """What the log says, of one name or all."""
    logged = [line.event for line in await store.events(**filters)]
    return [event for event in logged if name in (None, event.name)]


async def names(store: Store, since: int = 0) -> list[str]:
    """The names in the log, without the first ones."""
    return [event.name for event in await events(store)][since:]


async def the_event(store: Store, name: str) -> Event:
    """The only event of a name."""
    (event,) = await events(store, name)
    return event


def ids_of(operations: Sequence[Operation]) -> list[str]:
    """The ids of operations."""
    return [operation.operation_id for operation in operations]
