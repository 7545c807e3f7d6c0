# SPDX-License-Identifier: BSD-2-Clause
"""What is to be told: the update a closed batch owes the caller, and how far it got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from pipecat_async_tools.operations.operation import Operation, OperationStatus, new_id
from pipecat_async_tools.operations.telling_options import Priority, Speak, TellingOptions, own_summary
from pipecat_async_tools.store.rows import (
    DeliveryRow,
    DeliveryState,
    TellingEnd,
    TellingMode,
    TellingRecord,
)

ContextUpdated = Callable[[], Awaitable[None]]
Kind = Literal["success", "failure", "mixed", "correction", "partial"]


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A delivery: settled operations that are told together.

    Parameters:
        delivery_id: Names the delivery.
        batch_id: The batch it came from.
        turn_id: The caller's turn the request came from.
        operations: What is told; operations that ask for silence are only put into the context.
        ready_at: Seconds, on the event loop's clock.
        waiting_since: Seconds, since when this call could have told it.
        priority: The highest of its members.
        interrupt_caller: Whether it may be spoken over the caller.
        interruptible: Whether the caller may cut it off.
        proactive: Whether it may be told by itself, rather than with an answer only.
        speak: Whether it is spoken at all.
        quiet_ids: Members that are not spoken of, next to those whose result asks for silence.
        summaries: Sentences that tell members without the model, by operation id.
        subjects: What it is about, by operation id; a newer request of one subject supersedes an older.
        expires_after_secs: Seconds after ``ready_at`` from which it is no longer worth saying.
        correction: Whether it corrects something that was told before.
        partial: Whether more of its batch is still to come.
        restored: Whether it was left by an earlier call; told after the greeting of this one.
        callbacks: To be run once the outcome is in the context.
        state: How far it got.
        reason: Why it is where it is.
        mode: How it is being told, or was told last.
        tellings: The attempts to say it.
        heard: The words heard in the attempt that was cut off last.
        text: All the words of that attempt, as far as they were generated.
    """

    delivery_id: str = field(default_factory=lambda: new_id("delivery"))
    batch_id: str
    turn_id: str
    operations: tuple[Operation, ...]
    ready_at: float
    waiting_since: float = -1.0
    priority: Priority = "normal"
    interrupt_caller: bool = False
    interruptible: bool = True
    proactive: bool = True
    speak: Speak = "always"
    quiet_ids: frozenset[str] = frozenset()
    summaries: Mapping[str, str] = field(default_factory=dict[str, str])
    subjects: Mapping[str, str] = field(default_factory=dict[str, str])
    expires_after_secs: float | None = None
    correction: bool = False
    partial: bool = False
    restored: bool = False
    callbacks: tuple[ContextUpdated, ...] = field(default=(), repr=False)
    state: DeliveryState = "pending"
    reason: str = ""
    mode: TellingMode | None = None
    tellings: tuple[TellingRecord, ...] = ()
    heard: str = ""
    text: str = ""

    def __post_init__(self):
        if self.waiting_since < 0:
            object.__setattr__(self, "waiting_since", self.ready_at)

    @classmethod
    def of(
        cls,
        operations: tuple[Operation, ...],
        *,
        tools: Mapping[str, TellingOptions],
        delivery_id: str,
        batch_id: str,
        turn_id: str,
        ready_at: float,
        callbacks: tuple[ContextUpdated, ...] = (),
        correction: bool = False,
        partial: bool = False,
        urgent: bool = False,
    ) -> Envelope:
        """Build a delivery from what the tools declare about their telling."""
        known = [(tools[o.tool], o) for o in operations if o.tool in tools]
        expiries = [s.expires_after_secs for s, _ in known if s.expires_after_secs is not None]
        urgent_ones = [s for s, o in known if s.priority_of(o) == "urgent"]
        return cls(
            delivery_id=delivery_id,
            batch_id=batch_id,
            turn_id=turn_id,
            operations=operations,
            ready_at=ready_at,
            priority="urgent" if urgent or urgent_ones else "normal",
            interrupt_caller=any(s.interrupt_caller for s in urgent_ones),
            interruptible=all(s.interruptible for s, _ in known),
            proactive=all(s.proactive for s, _ in known),
            speak=_speak_of(operations, tools),
            quiet_ids=_quiet_of(operations, tools, correction),
            summaries=_summaries_of(operations, tools),
            subjects={o.operation_id: subject for s, o in known if (subject := s.subject_of(o))},
            expires_after_secs=min(expiries, default=None),
            callbacks=callbacks,
            correction=correction,
            partial=partial,
        )

    @classmethod
    def restored_from(
        cls, row: DeliveryRow, *, tools: Mapping[str, TellingOptions], ready_at: float, now: float
    ) -> Envelope:
        """Build the delivery that an earlier call left.

        Args:
            row: What the store says; a telling that nobody settled counts as never started.
            tools: What the tools declare about their telling.
            ready_at: When it became ready, on this event loop's clock.
            now: Seconds, on this event loop's clock.
        """
        envelope = cls.of(
            row.operations,
            tools=tools,
            delivery_id=row.delivery_id,
            batch_id=row.batch_id,
            turn_id=row.turn_id,
            ready_at=ready_at,
            correction=row.correction,
        )
        return replace(
            envelope,
            restored=True,
            waiting_since=now,
            mode=row.mode,
            tellings=row.tellings,
            heard=row.heard,
            text=row.text,
            reason=row.reason,
        )

    @property
    def told(self) -> tuple[Operation, ...]:
        """The operations that are spoken of."""
        return tuple(o for o in self.operations if not self._is_quiet(o))

    @property
    def quiet(self) -> tuple[Operation, ...]:
        """The operations that are only put into the context."""
        return tuple(o for o in self.operations if self._is_quiet(o))

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools it tells about, each once."""
        return tuple(dict.fromkeys(o.tool for o in self.told))

    @property
    def all_succeeded(self) -> bool:
        """Whether nothing in it went wrong."""
        return all(o.status is OperationStatus.SUCCEEDED for o in self.operations)

    @property
    def kind(self) -> Kind:
        """What kind of update it is, for a quiet window that depends on it."""
        if self.correction:
            return "correction"
        if self.partial:
            return "partial"
        successes = sum(o.status is OperationStatus.SUCCEEDED for o in self.operations)
        return "success" if successes == len(self.operations) else "mixed" if successes else "failure"

    @property
    def is_open(self) -> bool:
        """Whether the caller is still owed it."""
        return self.state in ("pending", "telling")

    @property
    def attempts(self) -> int:
        """Tellings that count: one withdrawn before its first audio never started.

        An answer that was heard and did not tell it bothered nobody.
        """
        return sum(t.outcome not in ("withdrawn", "uncovered") for t in self.tellings)

    @property
    def misses(self) -> int:
        """How often an answer was heard that had been asked to tell it, and did not."""
        return sum(t.outcome == "uncovered" for t in self.tellings)

    @property
    def cut_offs(self) -> int:
        """How often the caller cut it off."""
        return sum(t.outcome == "interrupted" for t in self.tellings)

    def with_operation(self, operation: Operation) -> Envelope:
        """Return it with a newer record of one of its operations; what was heard of it is corrected."""
        operations = tuple(
            operation if o.operation_id == operation.operation_id else o for o in self.operations
        )
        return replace(self, operations=operations, correction=self.correction or bool(self.heard))

    def hushed(self, operation_ids: Set[str]) -> Envelope:
        """Return it without a word about some of its operations."""
        return replace(self, quiet_ids=self.quiet_ids | operation_ids)

    def ended(self, telling: TellingRecord) -> TellingEnd:
        """Return what the store is told of it after an attempt to say it."""
        return TellingEnd(
            delivery_id=self.delivery_id,
            state=self.state,
            reason=self.reason,
            record=telling,
            heard=self.heard,
            text=self.text,
        )

    def after(self, telling: TellingRecord, *, state: DeliveryState, text: str = "") -> Envelope:
        """Return it after an attempt to say it."""
        cut_off = telling.outcome == "interrupted"
        return replace(
            self,
            state=state,
            reason=telling.outcome,
            mode=telling.mode,
            tellings=(*self.tellings, telling),
            heard=f"{self.heard} {telling.heard}".strip() if cut_off else self.heard,
            text=text if cut_off and text else self.text,
        )

    def _is_quiet(self, operation: Operation) -> bool:
        return operation.silent or operation.operation_id in self.quiet_ids


def _speak_of(operations: tuple[Operation, ...], tools: Mapping[str, TellingOptions]) -> Speak:
    """Return the most talkative wish of the members; adopted functions want to be told."""
    wishes: set[Speak] = {
        "never" if o.silent else tools[o.tool].speak if o.tool in tools else "always" for o in operations
    }
    for speak in ("always", "on_failure", "skip_if_busy"):
        if speak in wishes:
            return speak
    return "never"


def _quiet_of(
    operations: tuple[Operation, ...], tools: Mapping[str, TellingOptions], correction: bool
) -> frozenset[str]:
    """Return the members that ask for silence, unless all do: then the policy gives the delivery up."""
    quiet = {o.operation_id for o in operations if o.silent or _asks_for_silence(o, tools, correction)}
    return frozenset(quiet) if len(quiet) < len(operations) else frozenset()


def _asks_for_silence(operation: Operation, tools: Mapping[str, TellingOptions], correction: bool) -> bool:
    speak = tools[operation.tool].speak if operation.tool in tools else "always"
    went_well = operation.status is OperationStatus.SUCCEEDED and not correction
    return speak == "never" or (speak == "on_failure" and went_well)


def _summaries_of(operations: tuple[Operation, ...], tools: Mapping[str, TellingOptions]) -> dict[str, str]:
    succeeded = [o for o in operations if o.status is OperationStatus.SUCCEEDED]
    made = {
        o.operation_id: tools[o.tool].summary_of(o) if o.tool in tools else own_summary(o.result)
        for o in succeeded
    }
    return {name: text for name, text in made.items() if isinstance(text, str) and text.strip()}
