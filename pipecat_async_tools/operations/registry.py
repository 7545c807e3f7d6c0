# SPDX-License-Identifier: BSD-2-Clause
"""``OperationRegistry``: turns slow calls into operations, and answers each call at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    LLMServiceMetadataFrame,
    StartFrame,
)
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.background import Background
from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Journal
from pipecat_async_tools.frames import (
    BatchOpenedFrame,
    BatchReleasedFrame,
    CallDismissedFrame,
    OperationAcceptedFrame,
    OperationCorrectedFrame,
    OperationSettledFrame,
)
from pipecat_async_tools.operations import outcome as outcomes
from pipecat_async_tools.operations.answers import Answers
from pipecat_async_tools.operations.batch_book import BatchBook
from pipecat_async_tools.operations.batch_scope import BatchScope, SharedBatch
from pipecat_async_tools.operations.call_policy import CallPolicy
from pipecat_async_tools.operations.calls import Call, CallGroup, CallKind, Report, Verdict, current_call
from pipecat_async_tools.operations.functions import Answer
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.operation import Operation, new_id
from pipecat_async_tools.operations.requests import adopted, requested
from pipecat_async_tools.operations.tool import ToolSpec
from pipecat_async_tools.processor import PassingProcessor
from pipecat_async_tools.store.rows import Accepted


class OperationRegistry(PassingProcessor):
    """Stands right behind the model, sees every call, and answers the slow ones with an acceptance."""

    handles = (
        FunctionCallsStartedFrame,
        FunctionCallInProgressFrame,
        FunctionCallResultFrame,
        FunctionCallCancelFrame,
        LLMServiceMetadataFrame,
    )

    def __init__(
        self,
        *,
        session_id: str,
        ledger: OperationLedger,
        book: BatchBook,
        scope: BatchScope,
        tools: Mapping[str, ToolSpec],
        policy: CallPolicy,
        answers: Answers,
        turn_id: Callable[[], str],
        journal: Journal,
        on_started: Callable[[], None],
        on_ended: Callable[[], None],
        **kwargs: Any,
    ):
        """Initialize the registry.

        Args:
            session_id: The caller's session.
            ledger: Keeps the operations.
            book: Keeps the batches in the store.
            scope: Says which responses share a batch.
            tools: The ``@async_tool`` functions by name.
            policy: How calls are answered.
            answers: Words the formal answers.
            turn_id: Returns the caller's present turn.
            journal: Takes down what happens.
            on_started: Called when the pipeline starts; must not block.
            on_ended: Called when the pipeline ends; must not block.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._session_id = session_id
        self._ledger = ledger
        self._book = book
        self._scope = scope
        self._tools = tools
        self._policy = policy
        self._answers = answers
        self._turn_id = turn_id
        self._journal = journal
        self._on_started = on_started
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
            elif isinstance(frame, LLMServiceMetadataFrame):
                self._policy = self._policy.behind(frame)
            await self.push_frame(frame, direction)
            if isinstance(frame, StartFrame):
                self._on_started()
            elif isinstance(frame, (EndFrame, CancelFrame)):
                for group in self._groups.values():
                    group.drop()
                self._on_ended()

    async def answer(self, spec: ToolSpec, arguments: Mapping[str, Any], call_id: str | None) -> Answer:
        """Accept a call of an ``@async_tool`` and return its formal answer, at the end of the grace.

        Args:
            spec: The tool.
            arguments: What the model passed.
            call_id: The call; None takes the one this task is running.
        """
        group, call = self._find(call_id or current_call.get())
        if group is None or call is None:
            logger.error(
                f"{self}: {spec.name} was called, but the call was not seen; is processors() in use?"
            )
            return self._answers.refusal(f"{spec.name} is not available.")
        try:
            parts = spec.split(spec.validate(arguments))
            accepted = await self._accept(group, call, spec, parts)
        except (ValueError, StoreError) as e:
            return await self._refuse(group, call, e)
        duplicates = call.keep(accepted)
        if not call.operations:
            call.kind = CallKind.FOREIGN
            await self._dismiss(group, call)
            return self._answers.duplicate(duplicates)
        if await group.decided() is Verdict.NATIVE:
            return self._answers.native(call.operations.values(), duplicates)
        await self._join(group, call)
        return self._answers.acceptance(call.operations.values(), duplicates, self._run_llm(group))

    def knows(self, batch_id: str) -> bool:
        """Whether a batch is made of calls of this pipeline."""
        return any(group.batch_id == batch_id for group in self._groups.values())

    async def _accept(
        self, group: CallGroup, call: Call, spec: ToolSpec, parts: Sequence[Mapping[str, Any]]
    ) -> tuple[Accepted, ...]:
        operations = requested(spec, parts, **self._ids(group, call))
        # Before the store answers: the first of several can have ended by the time the last is accepted.
        call.operations = {o.operation_id: o for o in operations}
        return await self._ledger.accept(
            operations, expected=self._scope.expected_of(group), on_duplicate=spec.on_duplicate
        )

    # What becomes of operations

    def operation_settled(self, operation: Operation) -> None:
        """Pass a settled operation on to its batch."""
        group, call = self._find(operation.tool_call_id)
        if group is None or call is None:
            return
        call.operations[operation.operation_id] = operation
        group.reconsider()
        self._background.spawn(self._end(group, call, operation))

    def operation_corrected(self, operation: Operation) -> None:
        """Pass on an operation that succeeded after its time-out."""
        self._background.spawn(self.push_frame(OperationCorrectedFrame(operation)))

    def operation_progressed(self, operation: Operation) -> None:
        """Note the progress of a running operation."""
        _, call = self._find(operation.tool_call_id)
        if call is not None:
            call.operations[operation.operation_id] = operation

    # Frames

    def _announce(self, calls: Mapping[str, str]) -> CallGroup:
        group = CallGroup(turn_id=self._turn_id(), calls=calls, batch_id=new_id("batch"))
        for call in group.calls.values():
            if call.tool in self._tools:
                call.kind = CallKind.OURS
            self._groups[call.call_id] = group
        joins = self._scope.take(group)
        group.watch(0.0 if joins else self._policy.grace_secs, self._decided)
        return group

    async def _handle_in_progress(self, frame: FunctionCallInProgressFrame) -> None:
        call_id = frame.tool_call_id
        group = self._groups.get(call_id) or self._announce({call_id: frame.function_name})
        call = group.calls[call_id]
        current_call.set(call_id)
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
            # Whoever cancelled it by Pipecat's own means says so: nothing else of it is told.
            self._ledger.settle_soon(call.operation.operation_id, outcome, silent=not frame.run_llm)
        else:
            call.kind = CallKind.FOREIGN
            await self._dismiss(group, call)

    # Decisions

    def _decided(self, group: CallGroup) -> None:
        if group.verdict is Verdict.NATIVE:
            if group.stored:
                self._book.answered_natively(group.batch_id)
            if shared := self._scope.of(group):
                self._scope.end(shared)
                self._book.dismissed(shared.batch_id, [shared.latch])
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
            operation = adopted(call.arguments, self._policy.adopted_timeout_secs, **self._ids(group, call))
            (accepted,) = await self._ledger.accept([operation], expected=self._scope.expected_of(group))
        except StoreError as e:
            # The handler runs already: without a record its result takes Pipecat's way.
            logger.error(f"{self}: {call.tool} keeps its native answer: {e}")
            call.kind = CallKind.FOREIGN
            await self._dismiss(group, call)
            return
        call.operations = {accepted.operation.operation_id: accepted.operation}
        answer = self._answers.acceptance([accepted.operation], (), self._run_llm(group))
        down, up = call.answer(answer.result, answer.run_llm)
        await self.push_frame(up, FrameDirection.UPSTREAM)
        await self.push_frame(down)
        await self._join(group, call)
        for report in [r for r in group.reports if r.call is call]:
            group.reports.remove(report)
            self._take(report)

    async def _join(self, group: CallGroup, call: Call) -> None:
        """Make an accepted operation a member of its batch."""
        if not group.opened:
            group.opened = True
            await self.push_frame(self._batch_opened(group))
        for operation in call.operations.values():
            await self.push_frame(OperationAcceptedFrame(operation))
        call.member = True
        for operation in [o for o in call.operations.values() if o.is_settled]:
            await self._end(group, call, operation)

    def _batch_opened(self, group: CallGroup) -> BatchOpenedFrame:
        shared = self._scope.of(group)
        self._journal.record("on_batch_opened", batch_id=group.batch_id, turn_id=group.turn_id)
        return BatchOpenedFrame(
            batch_id=group.batch_id,
            turn_id=group.turn_id,
            call_ids=group.candidate_ids,
            tools=tuple(call.tool for call in group.candidates),
            acknowledge=self._run_llm(group) is False,
            held_open=shared is not None,
            urgent=shared is not None and shared.urgent,
        )

    async def _dismiss(self, group: CallGroup, call: Call) -> None:
        for report in [r for r in group.reports if r.call is call]:
            group.reports.remove(report)
            await self.push_frame(report.frame())
        if group.stored:
            self._book.dismissed(group.batch_id, [call.call_id])
        if group.reconsider():
            await self._release(group)
        elif group.opened:
            await self.push_frame(CallDismissedFrame(batch_id=group.batch_id, call_id=call.call_id))
        if group.verdict is Verdict.ACCEPTED:
            await self.release(self._scope.of(group))

    async def _refuse(self, group: CallGroup, call: Call, problem: Exception) -> Answer:
        call.kind = CallKind.FOREIGN
        call.operations.clear()
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
        return self._answers.refusal(reason)

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
        self._ledger.settle_soon(call.operation.operation_id, report.outcome, silent=call.silent)

    async def _end(self, group: CallGroup, call: Call, operation: Operation) -> None:
        await self._push_settled(group, call, operation)
        await self.release(self._scope.of(group))

    async def release(self, shared: SharedBatch | None) -> None:
        """Let a batch close, if it is over, that was held open for calls of later responses."""
        if shared is None or not shared.is_over:
            return
        self._scope.end(shared)
        self._book.dismissed(shared.batch_id, [shared.latch])
        if any(group.opened for group in shared.groups):
            await self.push_frame(BatchReleasedFrame(shared.batch_id))

    async def _push_settled(self, group: CallGroup, call: Call, operation: Operation) -> None:
        if not call.member:
            return
        callback = group.after_answers(call.on_context_updated) if call.on_context_updated else None
        call.on_context_updated = None
        await self.push_frame(OperationSettledFrame(operation, on_context_updated=callback))

    def _kind_of(self, frame: FunctionCallInProgressFrame) -> CallKind:
        if not frame.cancel_on_interruption and self._policy.adopts(frame.function_name):
            return CallKind.ADOPTED
        return CallKind.FOREIGN

    def _run_llm(self, group: CallGroup) -> bool | None:
        # Next to a synchronous sibling the run is Pipecat's to decide: a False would veto it.
        return None if group.is_mixed or self._policy.model_acknowledges else False

    def _ids(self, group: CallGroup, call: Call) -> dict[str, str]:
        return {
            "session_id": self._session_id,
            "turn_id": group.turn_id,
            "batch_id": group.use_name(),
            "tool_call_id": call.call_id,
            "tool": call.tool,
        }

    def _find(self, call_id: str | None) -> tuple[CallGroup | None, Call | None]:
        group = self._groups.get(call_id) if call_id else None
        return group, group.calls[call_id] if group and call_id else None

    def _hurry_groups(self) -> None:
        # After an interruption Pipecat's own way can lose a result: the run it owed is wiped.
        for group in set(self._groups.values()):
            group.hurry()
