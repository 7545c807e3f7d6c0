# SPDX-License-Identifier: BSD-2-Clause
"""The calls of one response: whose they are, and whether they were quick enough to stay unannounced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipecat.frames.frames import FunctionCallResultFrame, FunctionCallResultProperties

from pipecat_async_tools.frames import ContextUpdated
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.outcome import Outcome
from pipecat_async_tools.store.rows import Accepted

# How long a call's answer may wait behind the audio that was ahead of it.
_ANSWERS_TIMEOUT_SECS = 30.0


# Flows calls a function without its call id. The in-progress frame of the call is handled in the
# very task that runs the function next, so its context remembers the id.
current_call: ContextVar[str | None] = ContextVar("pipecat_async_tools_call", default=None)


class CallKind(Enum):
    """Whose call it is."""

    ANNOUNCED = "announced"
    """Known from the announcement alone: not started yet."""
    OURS = "ours"
    """An ``@async_tool``: answered by its own handler."""
    ADOPTED = "adopted"
    """A native function that survives interruptions: answered on its behalf."""
    FOREIGN = "foreign"
    """None of our business, or over before it could become ours."""


class Verdict(Enum):
    """What became of a group when its grace was over."""

    NATIVE = "native"
    """Everything was quick: the calls are answered with their results."""
    ACCEPTED = "accepted"
    """Something is slow: every member is answered with its acceptance."""


@dataclass
class Call:
    """One call of a group.

    Parameters:
        call_id: The provider's id.
        tool: The function.
        kind: Whose it is.
        arguments: What the model passed.
        operations: What it became, by id: one operation, or one for each item.
        member: Whether the batch knows the operation.
        on_context_updated: What a native function wants to run once its result is in the context.
        silent: Whether a native function wants its result in the context and not told.
        reported: Whether a native function reported its final result.
        answered: Set once the acceptance of a native function is in the context.
    """

    call_id: str
    tool: str
    kind: CallKind = CallKind.ANNOUNCED
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    member: bool = False
    on_context_updated: ContextUpdated | None = None
    silent: bool = False
    reported: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def keep(self, accepted: Sequence[Accepted]) -> tuple[Accepted, ...]:
        """Keep what was accepted of the operations asked for, and return the duplicates."""
        for asked, answer in zip(list(self.operations), accepted, strict=True):
            if answer.duplicate is not None:
                del self.operations[asked]
            elif not self.operations[asked].is_settled:
                self.operations[asked] = answer.operation
        return tuple(answer for answer in accepted if answer.duplicate is not None)

    def answer(
        self, result: Any, run_llm: bool | None
    ) -> tuple[FunctionCallResultFrame, FunctionCallResultFrame]:
        """Return the frames that answer a native function on its behalf, down and up.

        Those upstream, such as who mutes the caller while a call is open, must hear of it as well.
        """

        async def answered() -> None:
            self.answered.set()

        properties = FunctionCallResultProperties(run_llm=run_llm, on_context_updated=answered)
        down, up = (
            FunctionCallResultFrame(
                function_name=self.tool,
                tool_call_id=self.call_id,
                arguments=self.arguments,
                result=result,
                properties=properties if goes_down else None,
            )
            for goes_down in (True, False)
        )
        down.broadcast_sibling_id, up.broadcast_sibling_id = up.id, down.id
        return down, up

    @property
    def operation(self) -> Operation | None:
        """The operation that a native function became."""
        return next(iter(self.operations.values()), None)

    @property
    def is_candidate(self) -> bool:
        """Whether it is, or may yet turn out to be, a member of the batch."""
        return self.kind is not CallKind.FOREIGN

    @property
    def is_settled(self) -> bool:
        """Whether it is a member of its batch, and everything it became has ended."""
        return self.member and all(o.is_settled for o in self.operations.values())

    @property
    def is_over(self) -> bool:
        """Whether its outcome is known."""
        if self.kind is CallKind.OURS:
            return bool(self.operations) and all(o.is_settled for o in self.operations.values())
        return self.kind is CallKind.ADOPTED and self.reported


@dataclass(frozen=True)
class Report:
    """A result that a native function reported within the grace, kept as state.

    Parameters:
        call: The call it answers.
        result: The result.
        run_llm: As on the frame.
        properties: As on the frame.
        error: As on the frame.
        sibling: Which frame went the other way, as on the frame.
    """

    call: Call
    result: Any
    run_llm: bool | None
    properties: FunctionCallResultProperties | None
    error: str | None
    sibling: int | None

    @classmethod
    def of(cls, call: Call, frame: FunctionCallResultFrame) -> Report:
        """Keep what a result frame says."""
        return cls(
            call, frame.result, frame.run_llm, frame.properties, frame.error, frame.broadcast_sibling_id
        )

    @property
    def is_final(self) -> bool:
        """Whether the call is over with it."""
        return self.properties.is_final if self.properties else True

    @property
    def outcome(self) -> Outcome:
        """What it makes of the operation."""
        return outcomes.failed(self.error) if self.error else outcomes.succeeded(self.result)

    def frame(self) -> FunctionCallResultFrame:
        """Return the frame that says it."""
        frame = FunctionCallResultFrame(
            function_name=self.call.tool,
            tool_call_id=self.call.call_id,
            arguments=self.call.arguments,
            result=self.result,
            run_llm=self.run_llm,
            properties=self.properties,
            error=self.error,
        )
        frame.broadcast_sibling_id = self.sibling
        return frame


class CallGroup:
    """The calls of one response, and the decision whether they are announced to the caller."""

    def __init__(self, *, turn_id: str, calls: Mapping[str, str], batch_id: str):
        """Initialize the group from its announcement.

        Args:
            turn_id: The caller's turn.
            calls: Names of the functions by call id.
            batch_id: Replaced by the provider's group id when a call brings one.
        """
        self.turn_id = turn_id
        self.batch_id = batch_id
        self.calls = {call_id: Call(call_id, tool) for call_id, tool in calls.items()}
        self.opened = False
        self.stored = False
        self.reports: list[Report] = []
        self._verdict: Verdict | None = None
        self._decided = asyncio.Event()
        self._on_verdict: Callable[[CallGroup], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def verdict(self) -> Verdict | None:
        """What was decided, if it was."""
        return self._verdict

    @property
    def candidates(self) -> tuple[Call, ...]:
        """The calls that are members, or may yet turn out to be."""
        return tuple(call for call in self.calls.values() if call.is_candidate)

    @property
    def candidate_ids(self) -> tuple[str, ...]:
        """The ids of the candidates."""
        return tuple(call.call_id for call in self.candidates)

    @property
    def is_settled(self) -> bool:
        """Whether every call that can be a member is one, and has ended."""
        return all(call.is_settled for call in self.candidates)

    @property
    def is_mixed(self) -> bool:
        """Whether a call that is none of ours shares the response."""
        return len(self.candidates) < len(self.calls)

    def name(self, batch_id: str) -> None:
        """Take the provider's group id, unless an operation was written down under another one."""
        # A processor behind the model can delay the in-progress frame, and the handler is then first.
        if not self.stored:
            self.batch_id = batch_id

    def share(self, batch_id: str) -> None:
        """Take the id of a batch that other responses contribute to."""
        self.batch_id, self.stored = batch_id, True

    def use_name(self) -> str:
        """Return the batch id for an operation; from now on it stands."""
        self.stored = True
        return self.batch_id

    def watch(self, grace_secs: float, on_verdict: Callable[[CallGroup], None]) -> None:
        """Decide when the grace is over; ``on_verdict`` is called with the group, once."""
        self._on_verdict = on_verdict
        if grace_secs > 0:
            self._timer = asyncio.get_running_loop().call_later(grace_secs, self._grace_over)
        else:
            self._decide(Verdict.ACCEPTED)

    def reconsider(self) -> bool:
        """Decide at once if every member is over already, or none is left.

        Returns:
            Whether the calls take Pipecat's own way.
        """
        if self._verdict is None and all(call.is_over for call in self.candidates):
            self._decide(Verdict.NATIVE)
        return self._verdict is Verdict.NATIVE

    async def decided(self) -> Verdict:
        """Wait for the decision; it comes with the end of the grace at the latest."""
        await self._decided.wait()
        assert self._verdict is not None
        return self._verdict

    def after_answers(self, callback: ContextUpdated) -> ContextUpdated:
        """Put ``callback`` off until the acceptances of native functions are in the context."""

        async def call_back() -> None:
            waiting = [call.answered.wait() for call in self.candidates if call.kind is CallKind.ADOPTED]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*waiting), _ANSWERS_TIMEOUT_SECS)
            await callback()

        return call_back

    def hurry(self) -> None:
        """End the grace now: the conversation has moved on."""
        self._grace_over()

    def drop(self) -> None:
        """Forget the timer: the call is over."""
        if self._timer:
            self._timer.cancel()

    def _grace_over(self) -> None:
        if self._verdict is None:
            self._decide(Verdict.ACCEPTED if self.candidates else Verdict.NATIVE)

    def _decide(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self.drop()
        self._decided.set()
        if self._on_verdict:
            self._on_verdict(self)
