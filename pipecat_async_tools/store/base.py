# SPDX-License-Identifier: BSD-2-Clause
"""The port to whatever remembers: the coordination plane in one file.

A store is a set of transitions. Each one is atomic, is decided by the row as it is at that moment
(compare-and-set), and writes its events into the log in the same transaction. Every time is in seconds
on the store's own clock.

Whoever changes or runs anything does so under the name of an *owner*: one call, or one worker. An owner
is alive while its lease, renewed by :meth:`Store.renew`, has not run out. What a dead owner was running
is :meth:`recovered <Store.recover>`; a session that it held is free.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, Protocol

from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome
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

OnDuplicate = Literal["join", "reject", "replace"]


class Store(Protocol):
    """Remembers operations, batches, deliveries, events, leases and dead letters.

    Every method may raise :class:`~pipecat_async_tools.errors.StoreError`, with a message that names
    the store (never its password) and says what is wrong. An id that is not there is no error unless a
    method says so. Nothing on the audio path waits for one of them.
    """

    async def open(self) -> None:
        """Connect, and create or migrate the schema. Called again, it does nothing.

        Two processes may open a new database at once. A schema newer than this package is an error.
        Every other method opens the store by itself if that was not done.
        """
        ...

    async def close(self) -> None:
        """Let go of every connection and thread. What was answered before is kept; who watches is ended."""
        ...

    async def now(self) -> float:
        """Return the time on the store's clock, in seconds since the epoch."""
        ...

    # Owners

    async def renew(self, owner: str, lease_secs: float) -> None:
        """Keep an owner alive for ``lease_secs`` from now; the first call makes it known."""
        ...

    # Operations and their batches

    async def accept(
        self,
        operations: Sequence[Operation],
        *,
        owner: str,
        expected: Sequence[str] = (),
        on_duplicate: OnDuplicate = "join",
    ) -> tuple[Accepted, ...]:
        """Accept the operations of one call, each once under its intent key, all or none.

        They share ``session_id``, ``turn_id``, ``batch_id`` and ``tool_call_id``. If their batch is new
        it is opened (``on_batch_opened``), waiting for the calls of ``expected``; then their call is
        taken off what the batch waits for, also when nothing new was accepted. An operation that comes
        after the batch closed opens it again: what it brings is a further delivery (see `finish`).

        Intent: with the same non-empty ``intent_key`` in the same session,

        - an operation that is accepted or running is a duplicate;
        - so is one that succeeded, or became unknown, at most its own ``intent_window_secs`` ago;
        - one that timed out at most its own ``intent_window_secs`` ago is not, but the new operation
          takes over its ``idempotency_key``;
        - adopted operations neither have duplicates nor are any: Pipecat has started them already.

        A duplicate is answered by ``on_duplicate``: "join" and "reject" accept nothing new
        (`Accepted.duplicate` names which; event ``on_operation_joined`` with the reason "joined" or
        "rejected", on the operation that is there); "replace" cancels one that is not settled, as
        `finish` would, silent and with the error "It was replaced by a newer request.", and accepts the
        new one; it joins one that is settled.

        A new operation is stored with ``accepted_at`` set (``on_operation_accepted``). An adopted one
        is running from the start: ``started_at`` is set, ``attempts`` is 1, and it belongs to
        ``owner`` (``on_operation_started`` with the reason "attempt 1").

        Args:
            operations: One, or one for each item of the call; at least one.
            owner: Who asks; the batch belongs to them.
            expected: The call ids announced with this one, if the batch is new.
            on_duplicate: What a duplicate leads to.

        Returns:
            What became of each, in their order. Two with one key in one call: the second is a
            duplicate of the first.

        Raises:
            StoreError: An ``operation_id`` was accepted before.
        """
        ...

    async def claim(self, operation_id: str, *, owner: str) -> Claim | None:
        """Take an accepted operation: it becomes running, its fence grows by 1, ``attempts`` by 1.

        ``started_at`` is set by the first claim (``on_operation_started``, reason "attempt N", detail
        ``{"attempt": N}``). None when it is not there, not accepted, adopted, or its deadline passed.
        """
        ...

    async def record_attempt(
        self, operation_id: str, *, fence: int, wait_secs: float, outcome: Outcome, http_status: int | None
    ) -> Operation | None:
        """Note that an attempt failed and that another one follows: ``attempts`` grows by 1.

        Event ``on_operation_attempted``: the reason is the error's class, the detail
        ``{"attempt", "outcome_class", "http_status", "wait_secs", "error"}``, where ``attempt`` counts
        the one that failed.

        Returns:
            The record, or None when the fence is old or the operation settled.
        """
        ...

    async def record_progress(self, operation_id: str, progress: str) -> Operation | None:
        """Keep the latest progress (``on_operation_progressed``); None when it is settled already."""
        ...

    async def finish(
        self,
        operation_id: str,
        outcome: Outcome,
        *,
        fence: int | None = None,
        silent: bool = False,
        http_status: int | None = None,
    ) -> Finished | None:
        """Settle an operation once: record, event, batch, delivery and dead letter in one transaction.

        - The record: status, result, error, ``outcome_class``, ``settled_at``, ``silent``
          (``on_operation_settled``, reason the status, detail ``{"attempt", "outcome_class",
          "http_status"}``).
        - A dead letter (``on_dead_letter_opened``) if :func:`~pipecat_async_tools.store.rows.why_dead`
          gives a reason.
        - The batch: once every expected call is gone and every operation settled it closes
          (``on_batch_closed``) and, unless it was answered natively, has one pending delivery
          (``on_delivery_ready``) with every operation that no delivery of the batch holds yet. Its id is
          :func:`~pipecat_async_tools.store.rows.delivery_id`: the first of a batch is named after the
          batch, each further one after its first operation too.
        - A batch in which no operation is left over makes no delivery. Silent ones count.

        A success that comes for an operation that timed out or became unknown corrects it, once:
        status, result, ``late=True``, no error (``on_operation_corrected``), and its open dead letter
        is closed with the note "succeeded after all". Then, by the state of the delivery that holds it:

        - pending, whatever was heard of it: nothing more, it tells the newer record;
        - telling: it is decided when that telling is settled, as if it came then;
        - spoken: a correction is pending, a delivery with ``correction=True`` that holds this operation
          alone (its id made with ``corrected=True``);
        - suppressed or undeliverable: a correction is stored suppressed, reason "it was never told".

        Args:
            operation_id: The operation.
            outcome: How it ended.
            fence: The claim it was run under; None for a decision from outside (cancel, deadline, an
                adopted handler). A correction needs no valid fence.
            silent: The outcome goes into the context and is not told.
            http_status: What the last attempt was answered, for the event.

        Returns:
            What became of it, or None when it was settled before, the fence is old, or it is not there.
        """
        ...

    async def dismiss(self, batch_id: str, call_ids: Sequence[str]) -> DeliveryRow | None:
        """Take announced calls off what a batch waits for; it may close by that, as in `finish`.

        Returns:
            The delivery that came of it, if one did.
        """
        ...

    async def deliver_part(self, batch_id: str) -> DeliveryRow | None:
        """Make a pending delivery of what has settled of an open batch; the batch goes on.

        It holds every settled operation that no delivery holds yet (``on_delivery_ready``, reason
        "partial") and is named as `finish` would; what settles later makes a further one on closing.
        None when the batch is closed, native or not there, or nothing is left.
        """
        ...

    async def answer_natively(self, batch_id: str) -> None:
        """Note that the calls of a batch were answered with their results: it owes no update.

        A pending delivery of it becomes suppressed with the reason "answered at once"
        (``on_delivery_suppressed``); one that would come later is not made, but for what is replayed.
        """
        ...

    async def recover(self, limit: int = 100) -> Recovered:
        """See to operations that nobody runs, or whose time is up.

        - Running under a dead owner: adopted, or not idempotent: settled as ``ABANDONED`` (unknown).
          Idempotent: accepted again (``on_operation_recovered``), unless its deadline passed: then it
          has timed out.
        - Accepted, its deadline passed: timed out.
        - A batch of a dead owner no longer waits for the calls it expected; it may close by that.

        Running under a living owner it is left alone, however late: that owner keeps its deadline.
        """
        ...

    async def overdue(self, after_secs: float, limit: int = 100) -> list[Operation]:
        """Return operations accepted (or accepted again) over ``after_secs`` ago and not yet claimed.

        Not adopted ones, and none whose deadline passed; oldest first.
        """
        ...

    async def operation(self, operation_id: str) -> Operation | None:
        """Return an operation."""
        ...

    async def operations(self, session_id: str) -> list[Operation]:
        """Return the operations of a session, oldest first."""
        ...

    async def batches(self, session_id: str) -> list[BatchRow]:
        """Return the batches of a session, oldest first."""
        ...

    # Sessions and their deliveries

    async def hold_session(self, session_id: str, *, owner: str) -> int | None:
        """Take, or keep, the right to tell a session's deliveries.

        Free is a session that is new, was released, or whose owner is dead. Each time it changes hands
        (also when the same owner takes it again after a release) its fence grows by 1
        (``on_session_held``).

        Returns:
            The fence, or None when another living owner holds it.

        Raises:
            StoreError: ``owner`` has no living lease.
        """
        ...

    async def release_session(self, session_id: str, *, owner: str) -> None:
        """Let go of a session, if ``owner`` holds it (``on_session_released``); its fence is void then."""
        ...

    async def open_deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return the deliveries that are pending or being told, oldest first, with their operations."""
        ...

    async def deliveries(self, session_id: str) -> list[DeliveryRow]:
        """Return every delivery of a session, oldest first, with their operations."""
        ...

    async def claim_telling(
        self,
        session_id: str,
        delivery_ids: Sequence[str],
        telling_id: str,
        *,
        fence: int,
        mode: TellingMode = "proactive",
    ) -> tuple[str, ...]:
        """Take deliveries for one telling: they become "telling" (``on_delivery_started``).

        The row keeps ``mode``, and the event has it as its detail ``{"mode": mode}``.

        Granted are those of the session that are pending, or being told: by a telling that this one
        takes over from, since only the holder of the session tells. None is if ``fence`` is not the
        session's present one.

        Returns:
            The granted ids, in the order they were asked for.
        """
        ...

    async def settle_telling(self, telling_id: str, ends: Sequence[TellingEnd]) -> tuple[str, ...]:
        """Write down how a telling ended, for each of its deliveries that is still under it.

        The telling is appended to the delivery's tellings and the state, reason, heard words and text
        are as the end says. The event is that of the telling's outcome: ``on_delivery_spoken`` for
        "completed", ``on_delivery_withdrawn`` for "withdrawn" and "uncovered", else
        ``on_delivery_interrupted``; with
        the telling's id and the outcome as reason. State "undeliverable" adds
        ``on_delivery_undeliverable`` and a dead letter. Corrections that were waiting for it are
        decided now (see `finish`).

        Returns:
            The ids that were settled; a delivery that another telling has taken since is not one.
        """
        ...

    async def suppress(self, session_id: str, delivery_id: str, reason: str, *, fence: int) -> bool:
        """Give up a pending delivery for good (``on_delivery_suppressed``).

        Returns:
            False if it was not pending, or ``fence`` is not the session's present one.
        """
        ...

    async def give_up_deliveries(
        self, unheld_secs: float, *, session_id: str | None = None
    ) -> list[DeliveryRow]:
        """Make deliveries undeliverable that have waited too long for a caller who is not there.

        Those that are pending (or were being told when their owner died), whose session nobody has held
        for ``unheld_secs`` and that have been ready for as long: state "undeliverable", reason "nobody
        was there for N s" (``on_delivery_undeliverable``), and a dead letter.

        Args:
            unheld_secs: Seconds.
            session_id: Only this session; None looks at all.

        Returns:
            The deliveries that were given up now.
        """
        ...

    # Dead letters

    async def dead_letters(
        self, *, session_id: str | None = None, include_closed: bool = False, limit: int = 1000
    ) -> list[DeadLetter]:
        """Return dead letters, oldest first."""
        ...

    async def dead_letter(self, letter_id: str) -> DeadLetter | None:
        """Return a dead letter."""
        ...

    async def replay(self, letter_id: str) -> DeadLetter:
        """Send a dead letter on its way again, and close it with the note "replayed".

        An operation is accepted anew (``on_operation_replayed``): its result, error and class are
        cleared, ``late`` is False, ``replays`` grows by 1, ``accepted_at`` is now, attempts go on
        counting; its batch is open again and its outcome makes a further delivery (see `finish`). A
        pending delivery that holds it lets it go (and is suppressed, reason "replayed", if it holds
        nothing else). A delivery is pending again (``on_delivery_replayed``), its tellings kept.

        Raises:
            StoreError: It is not there, is closed, or its operation was adopted or is not settled.
        """
        ...

    async def close_dead_letter(self, letter_id: str, note: str) -> DeadLetter:
        """Close a dead letter by hand (``on_dead_letter_closed``, reason the note).

        Raises:
            StoreError: It is not there, or closed.
        """
        ...

    # The log

    async def append(self, event: Event) -> None:
        """Write an event that no transition stands behind; its time is the store's."""
        ...

    async def events(
        self, *, session_id: str | None = None, after: str | None = None, limit: int = 1000
    ) -> list[LoggedEvent]:
        """Return events in the order of their positions.

        A reader that goes on from the last position it saw misses none, however many write at once: an
        event is not shown before everything that can still come before it.

        Args:
            session_id: Only this session; None for all.
            after: The position to go on from, from an earlier answer; None from the beginning.
            limit: How many at most.
        """
        ...

    async def sessions(self, limit: int = 1000) -> list[SessionRow]:
        """Return the sessions, the one with the latest activity first."""
        ...

    def watch(self, session_id: str | None = None) -> AsyncIterator[None]:
        """Yield whenever something of a session (or of any) may have changed, from any process.

        It yields once at the start, several changes may be one, and some may be none. It goes on
        through a store that is away for a while, and yields when it is back.
        """
        ...

    async def prune(self, older_than_secs: float) -> Mapping[str, int]:
        """Delete what is over, and give the space back as well as the store can.

        Batches that closed longer ago than that, with all their operations, deliveries and closed dead
        letters, unless one of these is not over (a delivery open, an operation not settled, a dead
        letter not closed, an intent window running); events older than that of sessions of which
        nothing else is left, or else older than the oldest thing left; sessions without anything;
        owners that are dead.

        Returns:
            How many were deleted, by "operations", "deliveries", "dead_letters", "events", "sessions".
        """
        ...
