# SPDX-License-Identifier: BSD-2-Clause
"""The deliveries of one call: what is owed, what is due now, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from loguru import logger

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.policy import (
    DeliverNow,
    DeliveryDecision,
    DeliveryPolicy,
    SuppressAndPersist,
)
from pipecat_async_tools.events import Journal
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.rows import DeliveryState, TellingOutcome, TellingRecord

_EVENT_OF: dict[TellingOutcome, str] = {
    "completed": "on_delivery_spoken",
    "interrupted": "on_delivery_interrupted",
    "withdrawn": "on_delivery_withdrawn",
    "lost": "on_delivery_interrupted",
    "unheard": "on_delivery_interrupted",
}


@dataclass(frozen=True)
class Due:
    """What is to be done now.

    Parameters:
        tell: Deliveries to be told together.
        interrupt: Whether to cut off what the bot is saying first.
        suppressed: Deliveries that were just given up.
    """

    tell: tuple[Envelope, ...] = ()
    interrupt: bool = False
    suppressed: tuple[Envelope, ...] = ()


class DeliveryDesk:
    """Keeps every delivery of the call and asks the policy about the open ones."""

    def __init__(self, *, policy: DeliveryPolicy, journal: Journal):
        """Initialize an empty desk.

        Args:
            policy: Decides when a delivery is told.
            journal: Takes down decisions and their reasons.
        """
        self._policy = policy
        self._journal = journal
        self._envelopes: dict[str, Envelope] = {}
        self._denied_until: dict[str, float] = {}
        self._corrections: list[tuple[Operation, Callable[[], Envelope]]] = []

    @property
    def deliveries(self) -> tuple[Envelope, ...]:
        """Every delivery of the call, oldest first."""
        return tuple(self._envelopes.values())

    @property
    def has_open(self) -> bool:
        """Whether the caller is owed anything."""
        return any(e.is_open for e in self._envelopes.values())

    def get(self, delivery_id: str) -> Envelope | None:
        """Return a delivery."""
        return self._envelopes.get(delivery_id)

    def add(self, envelope: Envelope) -> None:
        """Take in a delivery."""
        self._put(envelope, "on_delivery_ready", "correction" if envelope.correction else "")

    def correct(self, operation: Operation, build: Callable[[], Envelope]) -> None:
        """Take in an operation that succeeded after its time-out.

        A failure that nobody heard of yet is simply replaced; one that was told is corrected, and one
        that is just being told is seen to when that is over. Where it was given up untold, the
        correction goes on record without a word.
        """
        mentions = [
            e for e in self.deliveries if any(o.operation_id == operation.operation_id for o in e.operations)
        ]
        for envelope in mentions:
            if envelope.state == "telling":
                self._corrections.append((operation, build))
                return
            if envelope.state == "pending":
                self._envelopes[envelope.delivery_id] = envelope.with_operation(operation)
                return
        if any(e.heard or e.state == "spoken" for e in mentions):
            self.add(build())
        elif mentions:
            self.add(replace(build(), speak="never", subjects=frozenset()))

    def deny(self, delivery_id: str, until: float) -> None:
        """Leave a delivery alone until then: the store did not grant it."""
        self._denied_until[delivery_id] = until

    def settled_elsewhere(self, delivery_id: str, state: DeliveryState, reason: str) -> None:
        """Note what another process, or the passing of time, made of a pending delivery."""
        envelope = self._envelopes.get(delivery_id)
        if envelope is None or envelope.state != "pending":
            return
        self._envelopes[delivery_id] = replace(envelope, state=state, reason=reason)
        if state == "undeliverable":
            self._put(self._envelopes[delivery_id], "on_delivery_undeliverable", reason)

    def due(self, channel: ChannelState, now: float, *, greeted: bool = True) -> Due:
        """Ask the policy about every open delivery; urgent ones go first and alone.

        Args:
            channel: What the clocks say.
            now: Seconds.
            greeted: Whether the caller was greeted, or need not be waited for any longer.
        """
        suppressed: list[Envelope] = []
        ready: list[tuple[Envelope, bool]] = []
        for envelope in [e for e in self._envelopes.values() if e.state == "pending"]:
            decision = self._decide(envelope, channel, now)
            if now < self._denied_until.get(envelope.delivery_id, 0.0):
                decision = DeliveryDecision(reason="the store has not granted it")
            elif isinstance(decision, DeliverNow) and envelope.restored and not greeted:
                decision = DeliveryDecision(reason="the caller has not been greeted yet")
            if isinstance(decision, SuppressAndPersist):
                given_up = replace(envelope, state="suppressed", reason=decision.reason)
                suppressed.append(self._put(given_up, "on_delivery_suppressed", decision.reason))
            elif isinstance(decision, DeliverNow):
                ready.append((envelope, decision.interrupt))
            elif decision.reason != envelope.reason:
                waiting = replace(envelope, reason=decision.reason)
                self._put(waiting, "on_delivery_waiting", decision.reason)
        urgent = [(e, i) for e, i in ready if e.priority == "urgent"]
        chosen = urgent or ready
        return Due(
            tell=tuple(e for e, _ in chosen),
            interrupt=any(i for _, i in chosen),
            suppressed=tuple(suppressed),
        )

    def _decide(self, envelope: Envelope, channel: ChannelState, now: float) -> DeliveryDecision:
        superseded = self._is_superseded(envelope)
        try:
            return self._policy.choose(envelope, channel, now, superseded=superseded)
        except Exception as e:
            # An application's policy: its mistake must not silence the bot for the rest of the call.
            logger.error(f"the delivery policy raised {type(e).__name__}: {e}; the default decides")
            return DeliveryPolicy().choose(envelope, channel, now, superseded=superseded)

    def how_to_tell(self, deliveries: tuple[Envelope, ...]) -> Literal["model", "template"]:
        """Return "model", or "template" when the model had its chances."""
        worn = any(d.attempts >= self._policy.max_tellings for d in deliveries)
        return "template" if worn else "model"

    def begin(self, deliveries: tuple[Envelope, ...], telling_id: str) -> None:
        """Note that a telling began."""
        for envelope in deliveries:
            telling = replace(envelope, state="telling", reason="being told")
            self._put(telling, "on_delivery_started", "", telling_id)

    def finish(
        self, deliveries: tuple[Envelope, ...], telling: TellingRecord, text: str
    ) -> tuple[Envelope, ...]:
        """Note how a telling ended, and return the deliveries as they are now."""
        finished = tuple(self._finish(envelope, telling, text) for envelope in deliveries)
        corrections, self._corrections = self._corrections, []
        for operation, build in corrections:
            self.correct(operation, build)
        return finished

    def _finish(self, envelope: Envelope, telling: TellingRecord, text: str) -> Envelope:
        told = envelope.after(telling, state="pending", text=text)
        if telling.outcome == "completed":
            told = replace(told, state="spoken")
        elif told.attempts > self._policy.max_tellings:
            told = replace(told, state="undeliverable", reason=f"gave up after {told.attempts} attempts")
        self._put(told, _EVENT_OF[telling.outcome], telling.outcome, telling.telling_id)
        if told.state == "undeliverable":
            self._put(told, "on_delivery_undeliverable", told.reason)
        return told

    def _is_superseded(self, envelope: Envelope) -> bool:
        if not envelope.subjects or len(envelope.subjects) < len(envelope.told):
            return False
        newer = [e for e in self._envelopes.values() if e.ready_at > envelope.ready_at]
        return envelope.subjects <= frozenset().union(*(e.subjects for e in newer))

    def _put(self, envelope: Envelope, event: str, reason: str, telling_id: str | None = None) -> Envelope:
        self._envelopes[envelope.delivery_id] = envelope
        self._journal.record(
            event,
            turn_id=envelope.turn_id,
            batch_id=envelope.batch_id,
            delivery_id=envelope.delivery_id,
            telling_id=telling_id,
            reason=reason,
        )
        return envelope
