# SPDX-License-Identifier: BSD-2-Clause
"""``OperationRegistry``: turns slow calls into operations, and answers each call at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallCancelFrame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
)
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.background import Background
from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Journal
from pipecat_async_tools.frames import (
    BatchOpenedFrame,
    CallDismissedFrame,
    OperationAcceptedFrame,
    OperationCorrectedFrame,
    OperationSettledFrame,
)
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.calls import Call, CallGroup, CallKind, Report, Verdict
from pipecat_async_tools.operations.functions import Answer
from pipecat_async_tools.operations.intent import default_intent_key
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.operation import Operation, new_id
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.processor import PassingProcessor

Adopt = bool | Collection[str] | Callable[[str], bool]

# Flows calls a function without its call id. The in-progress frame of the call is handled in the
# very task that runs the function next, so its context remembers the id.
_current_call: ContextVar[str | None] = ContextVar("pipecat_async_tools_call", default=None)


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """How calls are answered.

    Parameters:
        grace_secs: A response whose calls are all over within this time is not announced.
        adopt: Which native functions are adopted: all that survive interruptions, names, or a predicate.
        adopted_timeout_secs: Seconds until an adopted function that never reports is given up.
        model_acknowledges: Whether the model, rather than a template, says that work has begun.
    """

    grace_secs: float
    adopt: Adopt
    adopted_timeout_secs: float
    model_acknowledges: bool

    def adopts(self, tool: str) -> bool:
        """Whether a native function that survives interruptions is adopted."""
        if isinstance(self.adopt, bool):
            return self.adopt
        return self.adopt(tool) if callable(self.adopt) else tool in self.adopt


class OperationRegistry(PassingProcessor):
    """Stands right behind the model, sees every call, and answers the slow ones with an acceptance."""

    handles = (
        FunctionCallsStartedFrame,
        FunctionCallInProgressFrame,
        FunctionCallResultFrame,
        FunctionCallCancelFrame,
    )

    def __init__(
        self,
        *,
        session_id: str,
        ledger: OperationLedger,
        tools: Mapping[str, ToolSpec],
        policy: CallPolicy,
        acceptance: Callable[[Operation], Mapping[str, Any]],
        turn_id: Callable[[], str],
        journal: Journal,
        on_ended: Callable[[], None],
        **kwargs: Any,
    ):
        """Initialize the registry.

        Args:
            session_id: The caller's session.
            ledger: Keeps the operations.
            tools: The ``@async_tool`` functions by name.
            policy: How calls are answered.
            acceptance: Returns the answer of a call that was accepted.
            turn_id: Returns the caller's present turn.
            journal: Takes down what happens.
            on_ended: Called when the pipeline ends; must not block.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._session_id = session_id
        self._ledger = ledger
        self._tools = tools
        self._policy = policy
        self._acceptance = acceptance
        self._turn_id = turn_id
        self._journal = journal
        self._on_ended = on_ended
        self._groups: dict[str, CallGroup] = {}
        self._background = Background()
        ledger.listen(self)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Watch calls begin and end; take the results of slow ones out of the stream."""
        await super().process_frame(frame, direction)
        if direction is FrameDirection.UPSTREAM:
            await self.push_frame(frame, direction)
        elif isinstance(frame, FunctionCallResultFrame):
            await self._handle_result(frame)
        elif isinstance(frame, FunctionCallInProgressFrame):
            await self._handle_in_progress(frame)
        elif isinstance(frame, FunctionCallCancelFrame):
            await self._handle_cancel(frame)
        else:
            if isinstance(frame, FunctionCallsStartedFrame):
                self._announce({c.tool_call_id: c.function_name for c in frame.function_calls})
            elif isinstance(frame, InterruptionFrame):
                self._hurry_groups()
            await self.push_frame(frame, direction)
            if isinstance(frame, (EndFrame, CancelFrame)):
                self._drop_groups()
                self._on_ended()

    async def answer(self, spec: ToolSpec, arguments: Mapping[str, Any], call_id: str | None) -> Answer:
        """Accept a call of an ``@async_tool`` and return its formal answer, at the end of the grace.

        Args:
            spec: The tool.
            arguments: What the model passed.
            call_id: The call; None takes the one this task is running.
        """
        group, call = self._find(call_id or _current_call.get())
        if group is None or call is None:
            logger.error(
                f"{self}: {spec.name} was called, but the call was not seen; is processors() in use?"
            )
            return _refusal(f"{spec.name} is not available.")
        try:
            operation = self._operation(group, call, spec.validate(arguments), spec.timeout_secs)
            call.operation = await self._ledger.accept(operation)
        except (ValueError, StoreError) as e:
            return await self._refuse(group, call, e)
        if await group.decided() is Verdict.NATIVE:
            return _native_answer(call.operation)
        await self._join(group, call)
        return Answer(result=self._acceptance(call.operation), run_llm=self._run_llm(group))

    # What becomes of operations

    def operation_settled(self, operation: Operation) -> None:
        """Pass a settled operation on to its batch."""
        group, call = self._find(operation.tool_call_id)
        if group is None or call is None:
            return
        call.operation = operation
        group.reconsider()
        self._background.spawn(self._push_settled(group, call))

    def operation_corrected(self, operation: Operation) -> None:
        """Pass on an operation that succeeded after its time-out."""
        self._background.spawn(self.push_frame(OperationCorrectedFrame(operation)))

    def operation_progressed(self, operation: Operation) -> None:
        """Note the progress of a running operation."""
        _, call = self._find(operation.tool_call_id)
        if call is not None:
            call.operation = operation

    # Frames

    def _announce(self, calls: Mapping[str, str]) -> CallGroup:
        group = CallGroup(turn_id=self._turn_id(), calls=calls, batch_id=new_id("batch"))
        for call in group.calls.values():
            if call.tool in self._tools:
                call.kind = CallKind.OURS
            self._groups[call.call_id] = group
        group.watch(self._policy.grace_secs, self._decided)
        return group

    async def _handle_in_progress(self, frame: FunctionCallInProgressFrame) -> None:
        call_id = frame.tool_call_id
        group = self._groups.get(call_id) or self._announce({call_id: frame.function_name})
        call = group.calls[call_id]
        _current_call.set(call_id)
        call.arguments = frame.arguments
        if frame.group_id:
            group.name(frame.group_id)
        if call.kind is CallKind.ANNOUNCED:
            call.kind = self._kind_of(frame)
        await self.push_frame(frame)
        if call.kind is CallKind.FOREIGN:
            await self._dismiss(group, call)
        elif call.kind is CallKind.ADOPTED and group.verdict is Verdict.ACCEPTED:
            # Started only after its siblings were announced, one call at a time.
            self._background.spawn(self._admit(group, call))

    async def _handle_result(self, frame: FunctionCallResultFrame) -> None:
        group, call = self._find(frame.tool_call_id)
        if (
            group is None
            or call is None
            or call.kind is not CallKind.ADOPTED
            or group.verdict is Verdict.NATIVE
        ):
            await self.push_frame(frame)
            return
        report = Report.of(call, frame)
        if group.verdict is Verdict.ACCEPTED and call.member:
            self._take(report)
            return
        call.reported = call.reported or report.is_final
        group.reports.append(report)
        if group.reconsider():
            group.reports.pop()
            await self._release(group)
            await self.push_frame(frame)

    async def _handle_cancel(self, frame: FunctionCallCancelFrame) -> None:
        group, call = self._find(frame.tool_call_id)
        if call is None or call.kind is not CallKind.ADOPTED or call.operation is None:
            # One that was accepted is answered: the model would read that it was cancelled as well.
            await self.push_frame(frame)
        if group is None or call is None or call.kind is CallKind.FOREIGN:
            return
        if call.operation is not None:
            # Only Pipecat's own time-out asks for a run.
            outcome = outcomes.timed_out(call.operation.timeout_secs) if frame.run_llm else outcomes.CANCELLED
            self._ledger.settle_soon(call.operation.operation_id, outcome)
        else:
            call.kind = CallKind.FOREIGN
            await self._dismiss(group, call)

    # Decisions

    def _decided(self, group: CallGroup) -> None:
        if group.verdict is Verdict.NATIVE:
            self._background.spawn(self._release(group))
            return
        for call in group.candidates:
            if call.kind is CallKind.ADOPTED:
                self._background.spawn(self._admit(group, call))

    async def _release(self, group: CallGroup) -> None:
        """Let the results of a quick group go where they were going."""
        while group.reports:
            await self.push_frame(group.reports.pop(0).frame())

    async def _admit(self, group: CallGroup, call: Call) -> None:
        """Make an adopted call an operation and answer it on its behalf."""
        try:
            call.operation = await self._ledger.accept(
                self._operation(group, call, call.arguments, self._policy.adopted_timeout_secs, adopted=True)
            )
        except StoreError as e:
            # The handler runs already: without a record its result takes Pipecat's way.
            logger.error(f"{self}: {call.tool} keeps its native answer: {e}")
            call.kind = CallKind.FOREIGN
            await self._dismiss(group, call)
            return
        await self.push_frame(call.answer(self._acceptance(call.operation), self._run_llm(group)))
        await self._join(group, call)
        for report in [r for r in group.reports if r.call is call]:
            group.reports.remove(report)
            self._take(report)

    async def _join(self, group: CallGroup, call: Call) -> None:
        """Make an accepted operation a member of its batch."""
        assert call.operation is not None
        if not group.opened:
            group.opened = True
            await self.push_frame(self._batch_opened(group))
        await self.push_frame(OperationAcceptedFrame(call.operation))
        call.member = True
        if call.operation.is_settled:
            await self._push_settled(group, call)

    def _batch_opened(self, group: CallGroup) -> BatchOpenedFrame:
        self._journal.record("on_batch_opened", batch_id=group.batch_id, turn_id=group.turn_id)
        return BatchOpenedFrame(
            batch_id=group.batch_id,
            turn_id=group.turn_id,
            call_ids=tuple(call.call_id for call in group.candidates),
            tools=tuple(call.tool for call in group.candidates),
            acknowledge=self._run_llm(group) is False,
        )

    async def _dismiss(self, group: CallGroup, call: Call) -> None:
        for report in [r for r in group.reports if r.call is call]:
            group.reports.remove(report)
            await self.push_frame(report.frame())
        if group.reconsider():
            await self._release(group)
        elif group.opened:
            await self.push_frame(CallDismissedFrame(batch_id=group.batch_id, call_id=call.call_id))

    async def _refuse(self, group: CallGroup, call: Call, problem: Exception) -> Answer:
        call.kind = CallKind.FOREIGN
        await self._dismiss(group, call)
        reason = str(problem)
        if isinstance(problem, StoreError):
            logger.error(f"{self}: {call.tool} was refused: {reason}")
            reason = "The request could not be written down, so nothing was started."
        self._journal.record(
            "on_operation_refused",
            turn_id=group.turn_id,
            batch_id=group.batch_id,
            tool=call.tool,
            reason=reason,
        )
        return _refusal(reason)

    def _take(self, report: Report) -> None:
        """Turn what a native function reported into the outcome of its operation."""
        call = report.call
        assert call.operation is not None
        if not report.is_final:
            self._ledger.progress_soon(call.operation.operation_id, str(report.result))
            return
        if report.properties is not None:
            call.on_context_updated = report.properties.on_context_updated
            call.silent = report.properties.run_llm is False
        outcome = (
            outcomes.reported_failure(report.error) if report.error else outcomes.succeeded(report.result)
        )
        self._ledger.settle_soon(call.operation.operation_id, outcome)

    async def _push_settled(self, group: CallGroup, call: Call) -> None:
        if not call.member or call.operation is None:
            return
        callback = group.after_answers(call.on_context_updated) if call.on_context_updated else None
        call.on_context_updated = None
        operation = replace(call.operation, silent=call.silent)
        await self.push_frame(OperationSettledFrame(operation, on_context_updated=callback))

    def _kind_of(self, frame: FunctionCallInProgressFrame) -> CallKind:
        if not frame.cancel_on_interruption and self._policy.adopts(frame.function_name):
            return CallKind.ADOPTED
        return CallKind.FOREIGN

    def _run_llm(self, group: CallGroup) -> bool | None:
        # Next to a synchronous sibling the run is Pipecat's to decide: a False would veto it.
        return None if group.is_mixed or self._policy.model_acknowledges else False

    def _operation(
        self,
        group: CallGroup,
        call: Call,
        arguments: Mapping[str, Any],
        timeout_secs: float,
        *,
        adopted: bool = False,
    ) -> Operation:
        return Operation(
            session_id=self._session_id,
            turn_id=group.turn_id,
            batch_id=group.use_name(),
            tool_call_id=call.call_id,
            tool=call.tool,
            arguments=arguments,
            intent_key=default_intent_key(call.tool, arguments),
            adopted=adopted,
            timeout_secs=timeout_secs,
        )

    def _find(self, call_id: str | None) -> tuple[CallGroup | None, Call | None]:
        group = self._groups.get(call_id) if call_id else None
        return group, group.calls[call_id] if group and call_id else None

    def _hurry_groups(self) -> None:
        # After an interruption Pipecat's own way can lose a result: the run it owed is wiped.
        for group in set(self._groups.values()):
            group.hurry()

    def _drop_groups(self) -> None:
        for group in self._groups.values():
            group.drop()


def _refusal(reason: str) -> Answer:
    return Answer(result={"status": "refused", "error": reason})


def _native_answer(operation: Operation) -> Answer:
    if operation.error is not None:
        return Answer(result={"status": str(operation.status), "error": operation.error})
    # Pipecat takes a falsy result for none: no run, and "COMPLETED" in its place.
    return Answer(result=operation.result or {"result": operation.result})
