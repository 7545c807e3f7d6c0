# SPDX-License-Identifier: BSD-2-Clause
"""A store in Redis 6.2 or newer, for bots and workers on several machines.

Each transition is one Lua script (in the folder ``lua``), so that it is atomic and runs on the server's
clock. The log is a stream; changes are published.

Redis keeps what it answered only as far as it is configured to: without ``appendonly yes`` and
``appendfsync always`` a crash of the server loses the last writes. With an eviction policy other than
``noeviction`` it may throw away operations.

All keys begin with one prefix, ``{pat}`` unless the URL says otherwise
(``redis://localhost:6379/0?prefix={clinic}``). Its braces keep all keys in one hash slot: on a Cluster
the URL names the node that serves this slot, and two prefixes may be on two nodes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from loguru import logger

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED, Outcome, OutcomeClass, timed_out
from pipecat_async_tools.store import redis_rows as rows
from pipecat_async_tools.store.base import OnDuplicate
from pipecat_async_tools.store.redis_link import DEFAULT_PREFIX, RedisLink
from pipecat_async_tools.store.redis_watch import watch
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

_SCHEMA_VERSION = 1
_OLDEST_SERVER = (6, 2)
_REPLACED = Outcome(
    status=OperationStatus.CANCELLED,
    outcome_class=OutcomeClass.CANCELLED,
    error="It was replaced by a newer request.",
)


class RedisStore:
    """A :class:`~pipecat_async_tools.store.base.Store` in Redis.

    It may be used from several event loops, one after another and at once.
    """

    def __init__(self, url: str):
        """Initialize a store; it connects when it is used.

        Args:
            url: ``redis://`` or ``rediss://``, such as ``redis://:password@host:6379/0``. The parameter
                ``prefix`` is what all keys begin with.

        Raises:
            ConfigurationError: The URL is not one of Redis.
        """
        self._link = RedisLink(url)
        self._opened = False

    def __repr__(self) -> str:
        prefix = self._link.prefix
        return f"RedisStore({self._link.name + ('' if prefix == DEFAULT_PREFIX else f'?prefix={prefix}')!r})"

    async def open(self) -> None:
        """Connect, and write the version of the schema down or check it."""
        if self._opened:
            return
        self._check_server(await self._link.info())
        version = int(await self._link.run("open", _SCHEMA_VERSION))
        if version > _SCHEMA_VERSION:
            raise StoreError(
                f"{self._link.name} has schema {version} under {self._link.prefix}, this package knows "
                f"{_SCHEMA_VERSION}: upgrade pipecat-async-tools"
            )
        self._opened = True

    async def close(self) -> None:
        """Let go of every connection; whoever watches through one stops."""
        await self._link.close()

    async def now(self) -> float:
        """Return the time on the server's clock, in seconds since the epoch."""
        return float(await self._run("now"))

    # Owners

    async def renew(self, owner: str, lease_secs: float) -> None:
        """Keep an owner alive for ``lease_secs`` from now."""
        await self._run("renew", owner, lease_secs)

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
        answers = await self._run(
            "accept",
            owner,
            on_duplicate,
            *rows.listed(list(dict.fromkeys(expected))),
            *rows.outcome_arguments(_REPLACED),
            *rows.operation_arguments(operations),
        )
        return tuple(
            Accepted(
                operation=rows.known_operation(operation),
                duplicate=duplicate or None,
                replaced=rows.operation_of(replaced or ()),
            )
            for operation, duplicate, replaced in answers
        )

    async def claim(self, operation_id: str, *, owner: str) -> Claim | None:
        """Take an accepted operation: it becomes running under a new fence."""
        answer = await self._run("claim", operation_id, owner)
        return Claim(operation=rows.known_operation(answer[0]), fence=answer[1]) if answer else None

    async def record_attempt(
        self, operation_id: str, *, fence: int, wait_secs: float, outcome: Outcome, http_status: int | None
    ) -> Operation | None:
        """Note that an attempt failed and that another one follows."""
        outcome_class = str(outcome.outcome_class)
        detail = {
            "outcome_class": outcome_class,
            "http_status": http_status,
            "wait_secs": wait_secs,
            "error": outcome.error,
        }
        # The script puts the number of the attempt in front.
        rest = rows.json_text(detail).removeprefix("{")
        return self._operation(await self._run("record_attempt", operation_id, fence, outcome_class, rest))

    async def record_progress(self, operation_id: str, progress: str) -> Operation | None:
        """Keep the latest progress."""
        return self._operation(await self._run("record_progress", operation_id, progress))

    async def finish(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        silent: bool = False,
        http_status: int | None = None,
    ) -> Finished | None:
        """Settle an operation once, or correct it once."""
        answer = await self._run(
            "finish",
            operation_id,
            rows.optional(None if fence is None else str(fence)),
            rows.json_text(silent),
            rows.json_text(http_status),
            *rows.outcome_arguments(outcome),
        )
        return rows.finished_of(answer) if answer else None

    async def dismiss(self, batch_id: str, call_ids: Sequence[str]) -> DeliveryRow | None:
        """Take announced calls off what a batch waits for."""
        answer = await self._run("dismiss", batch_id, *rows.listed(call_ids))
        return rows.delivery_of(answer) if answer else None

    async def deliver_part(self, batch_id: str) -> DeliveryRow | None:
        """Make a delivery of what has settled of a batch that goes on."""
        answer = await self._run("deliver_part", batch_id)
        return rows.delivery_of(answer) if answer else None

    async def answer_natively(self, batch_id: str) -> None:
        """Note that the calls of a batch were answered with their results: it owes no update."""
        await self._run("answer_natively", batch_id)

    async def recover(self, limit: int = 100) -> Recovered:
        """See to operations that nobody runs, or whose time is up."""
        # What is said of one whose time ran out is in its row.
        answer = await self._run(
            "recover", limit, *rows.outcome_arguments(ABANDONED), *rows.outcome_arguments(timed_out(0.0))
        )
        accepted, finished, deliveries = answer
        return Recovered(
            accepted=tuple(map(rows.known_operation, accepted)),
            finished=tuple(map(rows.finished_of, finished)),
            deliveries=tuple(map(rows.delivery_of, deliveries)),
        )

    async def overdue(self, after_secs: float, limit: int = 100) -> list[Operation]:
        """Return operations accepted over ``after_secs`` ago and not yet claimed, oldest first."""
        return list(map(rows.known_operation, await self._run("overdue", after_secs, limit)))

    async def operation(self, operation_id: str) -> Operation | None:
        """Return an operation."""
        return self._operation(await self._run("operation", operation_id))

    async def operations(self, session_id: str) -> list[Operation]:
        """Return the operations of a session, oldest first."""
        return list(map(rows.known_operation, await self._run("operations", session_id)))

    async def batches(self, session_id: str) -> list[BatchRow]:
        """Return the batches of a session, oldest first."""
        return list(map(rows.batch_of, await self._run("batches", session_id)))

    # Sessions and their deliveries

    async def hold_session(self, session_id: str, *, owner: str) -> int | None:
        """Take, or keep, the right to tell a session's deliveries."""
        return await self._run("hold_session", session_id, owner)

    async def release_session(self, session_id: str, *, owner: str) -> None:
        """Let go of a session, if ``owner`` holds it."""
        await self._run("release_session", session_id, owner)

    async def open_deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return the deliveries that are pending or being told, oldest first."""
        return list(map(rows.delivery_of, await self._run("open_deliveries", session_id)))

    async def deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return every delivery of a session, oldest first."""
        return list(map(rows.delivery_of, await self._run("deliveries", session_id)))

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
        listed = rows.listed(delivery_ids)
        return tuple(await self._run("claim_telling", session_id, telling_id, fence, mode, *listed))

    async def settle_telling(self, telling_id: str, ends: Sequence[TellingEnd]) -> tuple[str, ...]:
        """Write down how a telling ended, for each of its deliveries that is still under it."""
        arguments = [argument for end in ends for argument in rows.end_arguments(end)]
        return tuple(await self._run("settle_telling", telling_id, len(ends), *arguments))

    async def suppress(self, session_id: str, delivery_id: str, reason: str, *, fence: int) -> bool:
        """Give up a pending delivery for good."""
        return bool(await self._run("suppress", session_id, delivery_id, reason, fence))

    async def give_up_deliveries(
        self, unheld_secs: float, *, session_id: str | None = None
    ) -> list[DeliveryRow]:
        """Make deliveries undeliverable that have waited too long for a caller who is not there."""
        reason = f"nobody was there for {unheld_secs:g} s"
        answer = await self._run("give_up_deliveries", unheld_secs, reason, rows.optional(session_id))
        return list(map(rows.delivery_of, answer))

    # Dead letters

    async def dead_letters(
        self, *, session_id: str | None = None, include_closed: bool = False, limit: int = 1000
    ) -> list[DeadLetter]:
        """Return dead letters, oldest first."""
        answer = await self._run(
            "dead_letters", rows.optional(session_id), rows.json_text(include_closed), limit
        )
        return list(map(rows.letter_of, answer))

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return a dead letter."""
        answer = await self._run("dead_letter", letter_id)
        return rows.letter_of(answer) if answer else None

    async def replay(self, letter_id: str) -> DeadLetter:
        """Send a dead letter on its way again, and close it."""
        return rows.letter_of(await self._run("replay", letter_id))

    async def close_dead_letter(self, letter_id: str, note: str) -> DeadLetter:
        """Close a dead letter by hand."""
        return rows.letter_of(await self._run("close_dead_letter", letter_id, note))

    # The log

    async def append(self, event: Event) -> None:
        """Write an event that no transition stands behind; its time is the store's."""
        await self._run("append", *rows.event_arguments(event))

    async def events(
        self, *, session_id: str | None = None, after: str | None = None, limit: int = 1000
    ) -> list[LoggedEvent]:
        """Return events in the order of their positions, which are ids of the stream."""
        answer = await self._run("events", rows.optional(session_id), rows.optional(after), limit)
        return list(map(rows.logged_event_of, answer))

    async def sessions(self, limit: int = 1000) -> list[SessionRow]:
        """Return the sessions, the one with the latest activity first."""
        return list(map(rows.session_of, await self._run("sessions", limit)))

    def watch(self, session_id: str | None = None) -> AsyncIterator[None]:
        """Yield whenever something of a session (or of any) may have changed, from any process."""
        return watch(self._link, session_id)

    async def prune(self, older_than_secs: float) -> Mapping[str, int]:
        """Delete what is over, a little at a time so that nobody waits for it."""
        started_at = await self.now()
        operations, deliveries, letters = await self._sweep("prune_batches", older_than_secs)
        events, sessions = await self._sweep("prune_sessions", older_than_secs)
        await self._link.forget_owners(started_at)
        return {
            "operations": operations,
            "deliveries": deliveries,
            "dead_letters": letters,
            "events": events,
            "sessions": sessions,
        }

    async def _sweep(self, script: str, older_than_secs: float) -> list[int]:
        """Run a script until it has seen everything, and add up what it deleted."""
        done, kept, *totals = await self._run(script, older_than_secs, 0)
        while not done:
            done, kept, *counts = await self._run(script, older_than_secs, kept)
            totals = [total + count for total, count in zip(totals, counts)]
        return totals

    async def _run(self, script: str, *arguments: str | int | float) -> Any:
        await self.open()
        return await self._link.run(script, *arguments)

    def _operation(self, answer: Sequence[str] | None) -> Operation | None:
        return rows.operation_of(answer or ())

    def _check_server(self, info: Mapping[str, Any]) -> None:
        version = str(info.get("redis_version", "6.2"))
        if tuple(map(int, version.split(".")[:2])) < _OLDEST_SERVER:
            raise StoreError(f"{self._link.name} is Redis {version}: 6.2 or newer is needed")
        policy = info.get("maxmemory_policy", "noeviction")
        if info.get("maxmemory") and policy != "noeviction":
            logger.warning(f"{self._link.name} evicts keys ({policy}): set maxmemory-policy noeviction")
