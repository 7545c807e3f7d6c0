# SPDX-License-Identifier: BSD-2-Clause
"""The deliveries of one call: what is owed, what is due now, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from loguru import logger

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.policy import (
    DeliverNow,
    DeliveryDecision,
    DeliveryPolicy,
    SuppressAndPersist,
)
from pipecat_async_tools.delivery.telling import Telling
from pipecat_async_tools.events import Journal
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store.rows import DeliveryState, TellingMode, TellingOutcome, TellingRecord

_EVENT_OF: dict[TellingOutcome, str] = {
    "completed": "on_delivery_spoken",
    "interrupted": "on_delivery_interrupted",
    "withdrawn": "on_delivery_withdrawn",
    "uncovered": "on_delivery_withdrawn",
    "lost": "on_delivery_interrupted",
    "unheard": "on_delivery_interrupted",
}


@dataclass(frozen=True)
class Due:
    """What is to be done now.

    Parameters:
        tell: Deliveries to be told together.
        interrupt: Whether to cut off what the bot is saying first.
        over_caller: Whether not to give way to the caller.
        join: Deliveries to be told together with the answer to the turn the caller has taken.
        suppressed: Deliveries that were just given up.
        hushed: Deliveries with operations of which no word is said any more.
    """

    tell: tuple[Envelope, ...] = ()
    interrupt: bool = False
    over_caller: bool = False
    join: tuple[Envelope, ...] = ()
    suppressed: tuple[Envelope, ...] = ()
    hushed: tuple[Envelope, ...] = ()


def _never(operation: Operation) -> bool:
    return False


class DeliveryDesk:
    """Keeps every delivery of the call and asks the policy about the open ones."""

    def __init__(
        self,
        *,
        policy: DeliveryPolicy,
        journal: Journal,
        is_superseded: Callable[[Operation], bool] = _never,
    ):
        """Initialize an empty desk.

        Args:
            policy: Decides when a delivery is told.
            journal: Takes down decisions and their reasons.
            is_superseded: Whether a newer request of the same subject is known.
        """
        self._policy = policy
        self._journal = journal
        self._is_superseded = is_superseded
        self._envelopes: dict[str, Envelope] = {}
        self._denied_until: dict[str, float] = {}
        self._cut_off_in: dict[str, str] = {}
        self._corrections: list[tuple[Operation, Callable[[], Envelope]]] = []
        # Whether a template could be spoken: a speech-to-speech model says everything in its own voice.
        self.has_voice = True

    @property
    def deliveries(self) -> tuple[Envelope, ...]:
        """Every delivery of the call, oldest first."""
        return tuple(self._envelopes.values())

    @property
    def open(self) -> tuple[Envelope, ...]:
        """What the caller is owed."""
        return tuple(e for e in self._envelopes.values() if e.is_open)

    @property
    def has_open(self) -> bool:
        """Whether the caller is owed anything."""
        return any(e.is_open for e in self._envelopes.values())

    def get(self, delivery_id: str) -> Envelope | None:
        """Return a delivery."""
        return self._envelopes.get(delivery_id)

    def add(self, envelope: Envelope) -> Envelope:
        """Take in a delivery; what replaces something the caller was told is a correction of it."""
        if not envelope.correction and self._replaces_something_told(envelope):
            envelope = replace(envelope, correction=True)
        return self._put(envelope, "on_delivery_ready", "correction" if envelope.correction else "")

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
            self.add(replace(build(), speak="never"))

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

    def due(self, channel: ChannelState, now: float, *, greeted: bool = True, turn_id: str = "") -> Due:
        """Ask the policy about every open delivery; urgent ones go first and alone.

        Args:
            channel: What the clocks say.
            now: Seconds.
            greeted: Whether the caller was greeted, or need not be waited for any longer.
            turn_id: The caller's present turn.
        """
        hushed = tuple(self._hush_superseded())
        suppressed: list[Envelope] = []
        ready: list[tuple[Envelope, DeliverNow]] = []
        waiting: list[Envelope] = []
        for envelope in [e for e in self._envelopes.values() if e.state == "pending"]:
            decision = self._decide(envelope, channel, now)
            if isinstance(decision, SuppressAndPersist):
                given_up = replace(envelope, state="suppressed", reason=decision.reason)
                suppressed.append(self._put(given_up, "on_delivery_suppressed", decision.reason))
                continue
            if problem := self._not_yet(envelope, decision, now, greeted):
                decision = DeliveryDecision(reason=problem)
            if isinstance(decision, DeliverNow):
                ready.append((envelope, decision))
            else:
                waiting.append(self._wait(envelope, decision.reason))
        urgent = [(e, d) for e, d in ready if e.priority == "urgent"]
        chosen = urgent or ready
        joins = channel.turn_open and not chosen
        return Due(
            tell=tuple(e for e, _ in chosen),
            interrupt=any(d.interrupt for _, d in chosen),
            over_caller=any(d.over_caller for _, d in chosen),
            join=tuple(e for e in waiting if joins and self._joins(e, channel, now, turn_id)),
            suppressed=tuple(suppressed),
            hushed=hushed,
        )

    def how_to_tell(
        self, deliveries: tuple[Envelope, ...], *, over_caller: bool = False
    ) -> Literal["model", "template"]:
        """Return whether the model words it, or a template.

        A template does what must not be cut off or wait for the model, and what the model had its
        chances at.
        """
        if not self.has_voice:
            return "model"
        worn = any(d.attempts >= self._policy.max_tellings for d in deliveries)
        at_once = over_caller or not all(d.interruptible for d in deliveries)
        summed_up = self._policy.speech == "auto" and all(_is_summed_up(d) for d in deliveries)
        if worn or at_once or summed_up or self._policy.speech == "template":
            return "template"
        return "model"

    def begin(self, deliveries: tuple[Envelope, ...], telling_id: str, mode: TellingMode) -> None:
        """Note that a telling began."""
        reason = "being told" if mode == "proactive" else "it joins the next answer"
        for envelope in deliveries:
            telling = replace(envelope, state="telling", reason=reason, mode=mode)
            self._put(telling, "on_delivery_started", "", telling_id, {"mode": mode})

    def finish(
        self, telling: Telling, records: Mapping[str, TellingRecord], turn_id: str
    ) -> tuple[Envelope, ...]:
        """Note how a telling ended, and return its deliveries as they are now.

        Args:
            telling: The telling.
            records: How it went for each delivery, by id.
            turn_id: The caller's turn in which it ended.
        """
        # As the desk has them: one may have been corrected since the telling began.
        held = [self._envelopes.get(d.delivery_id, d) for d in telling.deliveries]
        finished = tuple(self._finish(e, records[e.delivery_id], telling.text, turn_id) for e in held)
        corrections, self._corrections = self._corrections, []
        for operation, build in corrections:
            self.correct(operation, build)
        return finished

    def _finish(self, envelope: Envelope, telling: TellingRecord, text: str, turn_id: str) -> Envelope:
        told = envelope.after(telling, state="pending", text=text)
        if telling.outcome == "completed":
            told = replace(told, state="spoken")
        elif (tries := max(told.attempts, told.misses)) > self._policy.max_tellings:
            told = replace(told, state="undeliverable", reason=f"gave up after {tries} attempts")
        if telling.outcome == "interrupted":
            self._cut_off_in[envelope.delivery_id] = turn_id
        self._put(told, _EVENT_OF[telling.outcome], telling.outcome, telling.telling_id)
        if told.state == "undeliverable":
            self._put(told, "on_delivery_undeliverable", told.reason)
        return told

    def _decide(self, envelope: Envelope, channel: ChannelState, now: float) -> DeliveryDecision:
        superseded = bool(envelope.told) and all(map(self._is_superseded, envelope.told))
        try:
            return self._policy.choose(envelope, channel, now, superseded=superseded)
        except Exception as e:
            # An application's policy: its mistake must not silence the bot for the rest of the call.
            logger.error(f"the delivery policy raised {type(e).__name__}: {e}; the default decides")
            return DeliveryPolicy().choose(envelope, channel, now, superseded=superseded)

    def _joins(self, envelope: Envelope, channel: ChannelState, now: float, turn_id: str) -> bool:
        if now < self._denied_until.get(envelope.delivery_id, 0.0):
            return False
        try:
            if self._cut_off_in.get(envelope.delivery_id) == turn_id:
                # Who has just cut it off wants to say something else.
                return bool(self._policy.joins_only(envelope, channel, now))
            return self._policy.may_join(envelope, channel, now)
        except Exception as e:
            logger.error(f"the delivery policy raised {type(e).__name__}: {e}; it waits for its own turn")
            return False

    def _not_yet(
        self, envelope: Envelope, decision: DeliveryDecision, now: float, greeted: bool
    ) -> str | None:
        if now < self._denied_until.get(envelope.delivery_id, 0.0):
            return "the store has not granted it"
        if isinstance(decision, DeliverNow) and envelope.restored and not greeted:
            return "the caller has not been greeted yet"
        return None

    def _wait(self, envelope: Envelope, reason: str) -> Envelope:
        if reason == envelope.reason:
            return envelope
        return self._put(replace(envelope, reason=reason), "on_delivery_waiting", reason)

    def _hush_superseded(self) -> list[Envelope]:
        """Say no more about operations of a delivery whose request was replaced, if others are left."""
        hushed: list[Envelope] = []
        for envelope in [e for e in self._envelopes.values() if e.state == "pending"]:
            stale = {o.operation_id for o in envelope.told if self._is_superseded(o)}
            if stale and len(stale) < len(envelope.told):
                self._envelopes[envelope.delivery_id] = envelope.hushed(stale)
                operations = tuple(o for o in envelope.operations if o.operation_id in stale)
                hushed.append(replace(envelope, operations=operations, callbacks=()).hushed(stale))
        return hushed

    def _replaces_something_told(self, envelope: Envelope) -> bool:
        subjects = set(envelope.subjects.values())
        for told in self._envelopes.values():
            if told.heard or told.state == "spoken":
                results = [o.result for o in told.told if told.subjects.get(o.operation_id) in subjects]
                news = [o for o in envelope.told if o.operation_id in envelope.subjects]
                if results and any(_succeeded(o) and o.result not in results for o in news):
                    return True
        return False

    def _put(
        self,
        envelope: Envelope,
        event: str,
        reason: str,
        telling_id: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Envelope:
        self._envelopes[envelope.delivery_id] = envelope
        self._journal.record(
            event,
            turn_id=envelope.turn_id,
            batch_id=envelope.batch_id,
            delivery_id=envelope.delivery_id,
            telling_id=telling_id,
            reason=reason,
            detail=detail,
        )
        return envelope


def _succeeded(operation: Operation) -> bool:
    return operation.status is OperationStatus.SUCCEEDED


def _is_summed_up(delivery: Envelope) -> bool:
    return delivery.all_succeeded and all(o.operation_id in delivery.summaries for o in delivery.told)
