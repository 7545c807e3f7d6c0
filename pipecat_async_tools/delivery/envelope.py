# SPDX-License-Identifier: BSD-2-Clause
"""What is to be told: the update a closed batch owes the caller, and how far it got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from pipecat_async_tools.operations.operation import Operation, OperationStatus, new_id
from pipecat_async_tools.operations.tool import Priority, Speak, ToolSpec
from pipecat_async_tools.store.rows import DeliveryRow, DeliveryState, TellingEnd, TellingRecord

ContextUpdated = Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A delivery: settled operations that are told together.

    Parameters:
        delivery_id: Names the delivery.
        batch_id: The batch it came from.
        turn_id: The caller's turn the request came from.
        operations: What is told; operations that ask for silence are only put into the context.
        ready_at: Seconds, on the event loop's clock.
        priority: The highest of its tools.
        speak: Whether it is spoken at all.
        subjects: What it is about; a newer delivery of one subject supersedes an older one.
        expires_after_secs: Seconds after ``ready_at`` from which it is no longer worth saying.
        correction: Whether it corrects something that was told before.
        restored: Whether it was left by an earlier call; told after the greeting of this one.
        callbacks: To be run once the outcome is in the context.
        state: How far it got.
        reason: Why it is where it is.
        tellings: The attempts to say it.
        heard: The words heard in the attempt that was cut off last.
        text: All the words of that attempt, as far as they were generated.
    """

    delivery_id: str = field(default_factory=lambda: new_id("delivery"))
    batch_id: str
    turn_id: str
    operations: tuple[Operation, ...]
    ready_at: float
    priority: Priority = "normal"
    speak: Speak = "always"
    subjects: frozenset[str] = frozenset()
    expires_after_secs: float | None = None
    correction: bool = False
    restored: bool = False
    callbacks: tuple[ContextUpdated, ...] = field(default=(), repr=False)
    state: DeliveryState = "pending"
    reason: str = ""
    tellings: tuple[TellingRecord, ...] = ()
    heard: str = ""
    text: str = ""

    @classmethod
    def of(
        cls,
        operations: tuple[Operation, ...],
        *,
        tools: Mapping[str, ToolSpec],
        delivery_id: str,
        batch_id: str,
        turn_id: str,
        ready_at: float,
        callbacks: tuple[ContextUpdated, ...] = (),
        correction: bool = False,
    ) -> Envelope:
        """Build a delivery from what the tools declare about their telling."""
        specs = [tools[o.tool] for o in operations if o.tool in tools]
        expiries = [s.expires_after_secs for s in specs if s.expires_after_secs is not None]
        subjects = {tools[o.tool].subject_of(o.arguments) for o in operations if o.tool in tools}
        return cls(
            delivery_id=delivery_id,
            batch_id=batch_id,
            turn_id=turn_id,
            operations=operations,
            ready_at=ready_at,
            priority="urgent" if any(s.priority == "urgent" for s in specs) else "normal",
            speak=_speak_of(operations, tools),
            subjects=frozenset(s for s in subjects if s is not None),
            expires_after_secs=min(expiries, default=None),
            callbacks=callbacks,
            correction=correction,
        )

    @classmethod
    def restored_from(cls, row: DeliveryRow, *, tools: Mapping[str, ToolSpec], ready_at: float) -> Envelope:
        """Build the delivery that an earlier call left.

        Args:
            row: What the store says; a telling that nobody settled counts as never started.
            tools: What the tools declare about their telling.
            ready_at: When it became ready, on this event loop's clock.
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
            envelope, restored=True, tellings=row.tellings, heard=row.heard, text=row.text, reason=row.reason
        )

    @property
    def told(self) -> tuple[Operation, ...]:
        """The operations that are spoken of."""
        return tuple(o for o in self.operations if not o.silent)

    @property
    def quiet(self) -> tuple[Operation, ...]:
        """The operations that are only put into the context."""
        return tuple(o for o in self.operations if o.silent)

    @property
    def all_succeeded(self) -> bool:
        """Whether nothing in it went wrong."""
        return all(o.status is OperationStatus.SUCCEEDED for o in self.operations)

    @property
    def is_open(self) -> bool:
        """Whether the caller is still owed it."""
        return self.state in ("pending", "telling")

    @property
    def attempts(self) -> int:
        """Tellings that count: one withdrawn before its first audio never started."""
        return sum(t.outcome != "withdrawn" for t in self.tellings)

    def with_operation(self, operation: Operation) -> Envelope:
        """Return it with a newer record of one of its operations; what was heard of it is corrected."""
        operations = tuple(
            operation if o.operation_id == operation.operation_id else o for o in self.operations
        )
        return replace(self, operations=operations, correction=self.correction or bool(self.heard))

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
            tellings=(*self.tellings, telling),
            heard=f"{self.heard} {telling.heard}".strip() if cut_off else self.heard,
            text=text if cut_off and text else self.text,
        )


def _speak_of(operations: tuple[Operation, ...], tools: Mapping[str, ToolSpec]) -> Speak:
    """Return the most talkative wish of the members; adopted functions want to be told."""
    wishes: set[Speak] = {
        "never" if o.silent else tools[o.tool].speak if o.tool in tools else "always" for o in operations
    }
    for speak in ("always", "on_failure"):
        if speak in wishes:
            return speak
    return "never"
