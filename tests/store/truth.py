# SPDX-License-Identifier: BSD-2-Clause
"""What must be so at any moment: the rows are the model's, and the log tells a story that can be."""

from collections import Counter
from collections.abc import Sequence

from pipecat_async_tools.events import Event
from pipecat_async_tools.store.base import Store
from tests.store.model import Model
from tests.store.model_rows import Line

_REASONED = frozenset(
    {
        "on_operation_joined",
        "on_operation_started",
        "on_operation_attempted",
        "on_operation_settled",
        "on_delivery_spoken",
        "on_delivery_interrupted",
        "on_delivery_withdrawn",
        "on_delivery_suppressed",
        "on_dead_letter_closed",
    }
)
# What may happen to an operation after what.
_BEGINS = "on_operation_accepted"
_ALIVE = {"on_operation_started", "on_operation_recovered", "on_operation_replayed", _BEGINS}
_NEXT = {
    "on_operation_started": {_BEGINS, "on_operation_recovered", "on_operation_replayed"},
    "on_operation_recovered": {"on_operation_started"},
    "on_operation_settled": _ALIVE,
    "on_operation_corrected": {"on_operation_settled"},
    "on_operation_replayed": {"on_operation_settled"},
}


def line_of(event: Event) -> Line:
    """An event as the model writes it down."""
    about = event.operation_id or event.delivery_id or event.batch_id or event.session_id
    return event.name, about, event.reason if event.name in _REASONED else ""


def check_log(events: Sequence[Event]) -> None:
    """Every move is legal, no delivery is told to the end twice, and time does not go back."""
    at: dict[str, str] = {}
    for event in events:
        if event.name == _BEGINS:
            assert event.operation_id not in at
        elif event.name in _NEXT:
            assert at[event.operation_id] in _NEXT[event.name], (at[event.operation_id], event.name)
        if event.name == _BEGINS or event.name in _NEXT:
            at[event.operation_id] = event.name
    spoken = Counter(event.delivery_id for event in events if event.name == "on_delivery_spoken")
    assert max(spoken.values(), default=0) <= 1
    times = [event.at for event in events]
    assert times == sorted(times)


async def check_rows(store: Store, model: Model, sessions: Sequence[str]) -> None:
    """Every row is as the model has it, and nothing is lost, doubled or told twice."""
    letters = {letter.letter_id: letter for letter in await store.dead_letters(include_closed=True)}
    assert {name: letter.closed_at is None for name, letter in letters.items()} == {
        name: is_open for name, (_, is_open) in model.letters.items()
    }
    holders = {row.session_id: row.owner for row in await store.sessions()}
    for session in sessions:
        await _check_session(store, model, session)
        held = model.sessions.get(session)
        mine = held.owner if held is not None and model.alive(held.owner) else None
        assert holders.get(session) == mine


async def _check_session(store: Store, model: Model, session: str) -> None:
    operations = await store.operations(session)
    assert [
        (o.operation_id, str(o.status), o.attempts, o.replays, o.idempotency_key) for o in operations
    ] == [
        (o.name, o.status, o.attempts, o.replays, o.effect)
        for o in model.operations.values()
        if o.session == session
    ]
    deliveries = await store.deliveries(session)
    assert {
        row.delivery_id: (
            row.state,
            row.correction,
            row.telling_id,
            [o.operation_id for o in row.operations],
            [telling.outcome for telling in row.tellings],
        )
        for row in deliveries
    } == {
        row.name: (row.state, row.correction, row.telling, row.operations, row.tellings)
        for row in model.deliveries.values()
        if row.session == session
    }
    batches = await store.batches(session)
    assert {b.batch_id: (set(b.expected), b.closed_at is not None, b.native) for b in batches} == {
        b.name: (b.expected, b.closed, b.native) for b in model.batches.values() if b.session == session
    }
    open_ones = await store.open_deliveries(session)
    assert open_ones == [row for row in deliveries if row.state in ("pending", "telling")]
    _check_nothing_is_lost_or_doubled(operations, deliveries, batches)


def _check_nothing_is_lost_or_doubled(operations, deliveries, batches) -> None:
    told = Counter(o.operation_id for row in deliveries if not row.correction for o in row.operations)
    owing = {batch.batch_id for batch in batches if batch.closed_at is not None and not batch.native}
    alive: Counter[str] = Counter()
    for operation in operations:
        assert told[operation.operation_id] <= 1 + operation.replays
        if operation.batch_id in owing:
            assert operation.is_settled
            assert told[operation.operation_id] >= 1
        if operation.intent_key and not operation.adopted and not operation.replays:
            alive[operation.intent_key] += not operation.is_settled
    assert max(alive.values(), default=0) <= 1
    for row in deliveries:
        assert sum(telling.outcome == "completed" for telling in row.tellings) <= 1
