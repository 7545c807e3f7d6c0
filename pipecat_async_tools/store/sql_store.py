# SPDX-License-Identifier: BSD-2-Clause
"""What SQLite and PostgreSQL have in common: each method of the port is one transition in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.store import accepting, letters, pruning, reading, settling, tellings
from pipecat_async_tools.store.base import OnDuplicate
from pipecat_async_tools.store.rows import (
    Accepted,
    BatchRow,
    Claim,
    DeadLetter,
    DeliveryRow,
    Finished,
    LoggedEvent,
    Recovered,
    SessionRow,
    TellingEnd,
    TellingMode,
)
from pipecat_async_tools.store.transaction import Transaction

T = TypeVar("T")


class SqlStore(ABC):
    """A :class:`~pipecat_async_tools.store.base.Store` on SQL; a dialect brings the transaction."""

    @abstractmethod
    async def _do(self, transition: Callable[[Transaction], T]) -> T:
        """Run a transition in a transaction, and return what it returns."""

    @abstractmethod
    def _events(
        self, tx: Transaction, session_id: str | None, after: str | None, limit: int
    ) -> list[LoggedEvent]:
        """Read the log."""

    @abstractmethod
    def watch(self, session_id: str | None = None) -> AsyncIterator[None]:
        """Yield whenever something of a session (or of any) may have changed, from any process."""

    async def now(self) -> float:
        """Return the time on the store's clock, in seconds since the epoch."""
        return await self._do(lambda tx: tx.now)

    async def renew(self, owner: str, lease_secs: float) -> None:
        """Keep an owner alive for ``lease_secs`` from now."""
        await self._do(lambda tx: tellings.renew(tx, owner, lease_secs))

    # Operations and their batches

    async def accept(
        self,
        operations: Sequence[Operation],
        *,
        owner: str,
        expected: Sequence[str] = (),
        on_duplicate: OnDuplicate = "join",
    ) -> tuple[Accepted, ...]:
        """Accept the operations of one call, each once under its intent key, all or none."""
        if not operations:
            raise ConfigurationError("operations=[]: pass at least one operation")
        return await self._do(lambda tx: accepting.accept(tx, operations, owner, expected, on_duplicate))

    async def claim(self, operation_id: str, *, owner: str) -> Claim | None:
        """Take an accepted operation."""
        return await self._do(lambda tx: accepting.claim(tx, operation_id, owner))

    async def record_attempt(
        self, operation_id: str, *, fence: int, wait_secs: float, outcome: Outcome, http_status: int | None
    ) -> Operation | None:
        """Note that an attempt failed and that another one follows."""
        return await self._do(
            lambda tx: accepting.record_attempt(tx, operation_id, fence, wait_secs, outcome, http_status)
        )

    async def record_progress(self, operation_id: str, progress: str) -> Operation | None:
        """Keep the latest progress; None when it is settled already."""
        return await self._do(lambda tx: accepting.record_progress(tx, operation_id, progress))

    async def finish(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        silent: bool = False,
        http_status: int | None = None,
    ) -> Finished | None:
        """Settle an operation once, with all that follows from it."""
        return await self._do(
            lambda tx: settling.finish(tx, operation_id, outcome, fence, silent, http_status)
        )

    async def dismiss(self, batch_id: str, call_ids: Sequence[str]) -> DeliveryRow | None:
        """Take announced calls off what a batch waits for."""
        return await self._do(lambda tx: settling.dismiss(tx, batch_id, call_ids))

    async def deliver_part(self, batch_id: str) -> DeliveryRow | None:
        """Make a delivery of what has settled of a batch that goes on."""
        return await self._do(lambda tx: settling.deliver_part(tx, batch_id))

    async def answer_natively(self, batch_id: str) -> None:
        """Note that the calls of a batch were answered with their results."""
        await self._do(lambda tx: settling.answer_natively(tx, batch_id))

    async def recover(self, limit: int = 100) -> Recovered:
        """See to operations that nobody runs, or whose time is up."""
        accepted: list[Operation] = []
        finished: list[Finished] = []
        deliveries: list[DeliveryRow] = []
        # One transaction each: two that recover at once would otherwise wait for each other's sessions.
        for operation_id in await self._do(lambda tx: reading.left_operations(tx, limit)):
            became = await self._do(lambda tx, name=operation_id: settling.recover_operation(tx, name))
            if isinstance(became, Operation):
                accepted.append(became)
            elif became is not None:
                finished.append(became)
        for batch_id in await self._do(lambda tx: reading.left_batches(tx, limit)):
            delivery = await self._do(lambda tx, name=batch_id: settling.recover_batch(tx, name))
            if delivery is not None:
                deliveries.append(delivery)
        return Recovered(accepted=tuple(accepted), finished=tuple(finished), deliveries=tuple(deliveries))

    async def overdue(self, after_secs: float, limit: int = 100) -> list[Operation]:
        """Return operations accepted over ``after_secs`` ago and not yet claimed."""
        return await self._do(lambda tx: reading.overdue(tx, after_secs, limit))

    async def operation(self, operation_id: str) -> Operation | None:
        """Return an operation."""
        return await self._do(lambda tx: tx.operation(operation_id))

    async def operations(self, session_id: str) -> list[Operation]:
        """Return the operations of a session, oldest first."""
        return await self._do(lambda tx: tx.operations("session_id", session_id))

    async def batches(self, session_id: str) -> list[BatchRow]:
        """Return the batches of a session, oldest first."""
        return await self._do(lambda tx: reading.batches(tx, session_id))

    # Sessions and their deliveries

    async def hold_session(self, session_id: str, *, owner: str) -> int | None:
        """Take, or keep, the right to tell a session's deliveries."""
        return await self._do(lambda tx: tellings.hold(tx, session_id, owner))

    async def release_session(self, session_id: str, *, owner: str) -> None:
        """Let go of a session, if ``owner`` holds it."""
        await self._do(lambda tx: tellings.release(tx, session_id, owner))

    async def open_deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return the deliveries that are pending or being told, oldest first."""
        where = "session_id = ? AND state IN ('pending', 'telling')"
        return await self._do(lambda tx: tx.deliveries(where, session_id))

    async def deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return every delivery of a session, oldest first."""
        return await self._do(lambda tx: tx.deliveries("session_id = ?", session_id))

    async def claim_telling(
        self,
        session_id: str,
        delivery_ids: Sequence[str],
        telling_id: str,
        *,
        fence: int,
        mode: TellingMode = "proactive",
    ) -> tuple[str, ...]:
        """Take deliveries for one telling."""
        return await self._do(
            lambda tx: tellings.claim(tx, session_id, delivery_ids, telling_id, fence, mode)
        )

    async def settle_telling(self, telling_id: str, ends: Sequence[TellingEnd]) -> tuple[str, ...]:
        """Write down how a telling ended, for each delivery that is still under it."""
        return await self._do(lambda tx: tellings.settle(tx, telling_id, ends))

    async def suppress(self, session_id: str, delivery_id: str, reason: str, *, fence: int) -> bool:
        """Give up a pending delivery for good."""
        return await self._do(lambda tx: tellings.suppress(tx, session_id, delivery_id, reason, fence))

    async def give_up_deliveries(
        self, unheld_secs: float, *, session_id: str | None = None
    ) -> list[DeliveryRow]:
        """Make deliveries undeliverable that have waited too long for a caller who is not there."""
        given_up: list[DeliveryRow] = []
        for name in await self._do(lambda tx: reading.unheld_deliveries(tx, unheld_secs, session_id)):
            row = await self._do(lambda tx, name=name: tellings.give_up(tx, name, unheld_secs))
            if row is not None:
                given_up.append(row)
        return given_up

    # Dead letters

    async def dead_letters(
        self, *, session_id: str | None = None, include_closed: bool = False, limit: int = 1000
    ) -> list[DeadLetter]:
        """Return dead letters, oldest first."""
        return await self._do(lambda tx: reading.dead_letters(tx, session_id, include_closed, limit))

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return a dead letter."""
        return await self._do(lambda tx: letters.find(tx, letter_id))

    async def replay(self, letter_id: str) -> DeadLetter:
        """Send a dead letter on its way again, and close it with the note "replayed"."""
        return await self._do(lambda tx: letters.replay(tx, letter_id))

    async def close_dead_letter(self, letter_id: str, note: str) -> DeadLetter:
        """Close a dead letter by hand."""
        return await self._do(lambda tx: letters.close(tx, letter_id, note))

    # The log

    async def append(self, event: Event) -> None:
        """Write an event that no transition stands behind."""
        await self._do(lambda tx: _append(tx, event))

    async def events(
        self, *, session_id: str | None = None, after: str | None = None, limit: int = 1000
    ) -> list[LoggedEvent]:
        """Return events in the order of their positions."""
        return await self._do(lambda tx: self._events(tx, session_id, after, limit))

    async def sessions(self, limit: int = 1000) -> list[SessionRow]:
        """Return the sessions, the one with the latest activity first."""
        return await self._do(lambda tx: reading.sessions(tx, limit))

    async def prune(self, older_than_secs: float) -> Mapping[str, int]:
        """Delete what is over."""
        deleted: Counter[str] = Counter()
        for step in (pruning.prune_batches, pruning.prune_events):
            place: pruning.Place | None = pruning.START
            while place is not None:
                some, place = await self._do(
                    lambda tx, step=step, place=place: step(tx, older_than_secs, place)
                )
                deleted.update(some)
        deleted.update(await self._do(lambda tx: pruning.prune_sessions(tx, older_than_secs)))
        return dict(deleted)


def _append(tx: Transaction, event: Event) -> None:
    tx.lock(event.session_id)
    tx.log(event)
