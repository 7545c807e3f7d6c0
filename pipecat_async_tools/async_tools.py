# SPDX-License-Identifier: BSD-2-Clause
"""``AsyncTools``: wires one call; the one object a bot touches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from loguru import logger
from pipecat.adapters.llm.schemas.direct_function import DirectFunction
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.base_object import BaseObject

from pipecat_async_tools.background import Background
from pipecat_async_tools.batches.aggregator import BatchAggregator
from pipecat_async_tools.batches.batch import BatchPolicy
from pipecat_async_tools.call_options import check_call, check_secs
from pipecat_async_tools.delivery.clocks import CallClocks, ClockParams
from pipecat_async_tools.delivery.context import ContextEditor
from pipecat_async_tools.delivery.course import TellingCourse
from pipecat_async_tools.delivery.desk import DeliveryDesk
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.gate import ActivityGate
from pipecat_async_tools.delivery.keep_alive import KeepAlive
from pipecat_async_tools.delivery.live_state import LiveState
from pipecat_async_tools.delivery.marks import CarrierMarks
from pipecat_async_tools.delivery.playback import PlaybackTracker
from pipecat_async_tools.delivery.policy import DeliveryPolicy
from pipecat_async_tools.delivery.progress import ProgressSpeech
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.events import EVENT_NAMES, LOGGED_ONLY, NOT_LOGGED_BY_STORES, Event, Journal
from pipecat_async_tools.operations.answers import Answers
from pipecat_async_tools.operations.batch_book import BatchBook
from pipecat_async_tools.operations.batch_scope import BatchScope
from pipecat_async_tools.operations.call_policy import Adopt, CallPolicy, declared
from pipecat_async_tools.operations.cancelling import CancelTool
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.executors.local import LocalExecutor
from pipecat_async_tools.operations.functions import direct_function, flow_function
from pipecat_async_tools.operations.insisting import in_time
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.operation import Operation, new_id
from pipecat_async_tools.operations.policy import OperationPolicy, Reconciler
from pipecat_async_tools.operations.registry import OperationRegistry
from pipecat_async_tools.operations.standing import TurnGuard
from pipecat_async_tools.operations.subjects import Subjects
from pipecat_async_tools.operations.sweeper import Sweeper
from pipecat_async_tools.operations.telling_options import Priority, TellingOptions
from pipecat_async_tools.operations.tool import ToolHandler, specs_by_name
from pipecat_async_tools.session import SessionKeeper
from pipecat_async_tools.snapshot import BatchSnapshot, SessionSnapshot
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import delivery_id
from pipecat_async_tools.store.url import open_to
from pipecat_async_tools.wiring import Wiring

# How long what is being said may go on after the last operation has ended.
_FAREWELL_SECS = 30.0


class AsyncTools(BaseObject):
    """Slow tools for one call: accepted at once, run outside the turn, told once when it can be heard.

    Every event of :data:`~pipecat_async_tools.events.EVENT_NAMES` but those of
    :data:`~pipecat_async_tools.events.LOGGED_ONLY` can be subscribed to; handlers get this object
    and an :class:`~pipecat_async_tools.events.Event`::

        @async_tools.event_handler("on_delivery_spoken")
        async def on_delivery_spoken(async_tools, event): ...
    """

    def __init__(
        self,
        *,
        session_id: str,
        tools: Sequence[ToolHandler] = (),
        store: Store | str | None = None,
        executor: Executor | None = None,
        adopt: Adopt = True,
        adopted_timeout_secs: float = 120.0,
        acknowledge: Literal["template", "model"] = "template",
        operations: OperationPolicy | None = None,
        batches: BatchPolicy | None = None,
        delivery: DeliveryPolicy | None = None,
        clocks: ClockParams | None = None,
        wording: Wording | None = None,
        channel: str = "",
        marks: CarrierMarks | None = None,
        drain_secs: float = 10.0,
        lease_secs: float = 10.0,
        greeting_timeout_secs: float = 5.0,
        undeliverable_after_secs: float | None = None,
        keep_alive_secs: float = 300.0,
        user_idle_timeout_secs: float | None = None,
    ):
        """Wire one call.

        Args:
            session_id: Names the caller's session. A later call with the same name tells what this one
                still owed.
            tools: Functions decorated with ``@async_tool``.
            store: Remembers everything: a :class:`~pipecat_async_tools.store.base.Store` or its URL, such
                as "sqlite:///calls.db", "postgresql://…" or "redis://…". None takes the URL from the
                environment variable PIPECAT_ASYNC_TOOLS_STORE, or else "sqlite:///calls.db".
            executor: Runs operations; None runs them on this event loop.
            adopt: Which native functions registered with ``cancel_on_interruption=False`` are adopted:
                all of them, names, names with the options of their telling, or a predicate of the name.
            adopted_timeout_secs: Seconds until an adopted function that never reports is given up.
            acknowledge: Who says that work has begun when the model did not: a template, or the model.
            operations: What a new turn of the caller means for running work.
            batches: When calls are announced and their batch closes.
            delivery: When an update is told.
            clocks: After how long a state that nothing ended is taken for over.
            wording: What is said.
            channel: What kind of channel it is, such as "webrtc" or "twilio", for policies.
            marks: Of a :class:`~pipecat_async_tools.delivery.marks.MarkingSerializer`, on a phone line:
                then only what the carrier has played counts as heard.
            drain_secs: Seconds that running operations may go on after the pipeline has ended.
            lease_secs: Seconds after which what a dead process held or ran is free for others.
            greeting_timeout_secs: Seconds after which what an earlier call left is told although the bot
                has not greeted the caller.
            undeliverable_after_secs: Seconds after the end of the call after which what is still pending
                becomes undeliverable (``on_delivery_undeliverable``), so that the application can send a
                message instead; None waits for the caller for ever.
            keep_alive_secs: Seconds for which running work, or an update that is owed, keeps the worker's
                idle time-out and the user aggregator's from acting.
            user_idle_timeout_secs: The ``user_idle_timeout`` you gave the user aggregator, which is held
                meanwhile and in force again afterwards; None if you use none.

        Raises:
            ConfigurationError: An argument has a value it cannot have.
            ToolDefinitionError: A tool was not decorated.
        """
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        check_call(session_id, adopt, acknowledge, operations)
        check_secs(
            adopted_timeout_secs=adopted_timeout_secs,
            drain_secs=drain_secs,
            lease_secs=lease_secs,
            greeting_timeout_secs=greeting_timeout_secs,
            undeliverable_after_secs=undeliverable_after_secs,
            keep_alive_secs=keep_alive_secs,
            user_idle_timeout_secs=user_idle_timeout_secs,
        )
        batch_policy, clock_params = batches or BatchPolicy(), clocks or ClockParams()
        policy, wording = delivery or DeliveryPolicy(), wording or Wording()
        self._session_id = session_id
        self._specs = specs_by_name(tools)
        self._told: Mapping[str, TellingOptions] = {**self._specs, **declared(adopt)}
        self._drain_secs = drain_secs
        self._undeliverable_after_secs = undeliverable_after_secs
        self._store, self._owns_store = open_to(store)
        owner = new_id("call")
        self._background = Background()
        self._started = False
        self._stopping: asyncio.Task[None] | None = None
        for name in set(EVENT_NAMES) - LOGGED_ONLY:
            self._register_event_handler(name)

        self._clocks = CallClocks(clock_params, channel=channel, language=lambda: wording.language)
        if marks:
            self._clocks.ask_carrier(marks)
        journal = Journal(session_id=session_id, now=_now, publish=self._publish)
        guard = TurnGuard(
            turn_id=lambda: self._clocks.caller.turn_id,
            caller_speaking=lambda: self._clocks.caller.is_speaking(_now()),
            now=_now,
        )
        self._ledger = OperationLedger(
            stands=guard.stands,
            store=self._store,
            owner=owner,
            executor=executor or LocalExecutor(),
            tools=self._specs,
            journal=journal,
        )
        self._reconciler = Reconciler(policy=operations or OperationPolicy(), ledger=self._ledger)
        self._cancel_tool = CancelTool(ledger=self._ledger, tools=self._specs)
        book = BatchBook(self._store)
        self._scope = BatchScope(batch_policy.scope)
        subjects = Subjects(tools=self._told, operations=lambda: self._ledger.operations)
        self._desk = DeliveryDesk(policy=policy, journal=journal, is_superseded=subjects.is_superseded)
        wiring = Wiring()
        self._registry = OperationRegistry(
            session_id=session_id,
            ledger=self._ledger,
            book=book,
            scope=self._scope,
            tools=self._specs,
            policy=CallPolicy(
                grace_secs=batch_policy.grace_secs,
                adopt=adopt,
                adopted_timeout_secs=adopted_timeout_secs,
                model_acknowledges=acknowledge == "model",
            ),
            answers=Answers(wording),
            turn_id=lambda: self._clocks.caller.turn_id,
            journal=journal,
            on_started=self._pipeline_started,
            on_ended=self._pipeline_ended,
            wiring=wiring,
        )
        self._aggregator = BatchAggregator(
            policy=batch_policy,
            tools=self._told,
            journal=journal,
            dismissed=book.dismissed,
            deliver_part=book.deliver_part,
            wiring=wiring,
        )
        self._keeper = SessionKeeper(
            store=self._store,
            session_id=session_id,
            owner=owner,
            lease_secs=lease_secs,
            tools=self._told,
            ledger=self._ledger,
            desk=self._desk,
            is_ours=self._registry.knows,
            take_in=lambda envelope: self._gate.take_in(envelope),
        )
        self._sweeper = Sweeper(
            store=self._store,
            owner=owner,
            lease_secs=lease_secs,
            tools=self._specs,
            session_id=session_id,
            submit=self._ledger.run,
        )
        self._gate = self._build_gate(
            policy,
            wording,
            clock_params,
            keep_alive=KeepAlive(
                keep_alive_secs=keep_alive_secs, user_idle_timeout_secs=user_idle_timeout_secs
            ),
            greeting_timeout_secs=greeting_timeout_secs,
            wiring=wiring,
        )
        self._tracker = PlaybackTracker(clocks=self._clocks, wiring=wiring)
        wiring.expect(self.processors(), self._tracker)

    def _build_gate(
        self, policy: DeliveryPolicy, wording: Wording, params: ClockParams, **options: Any
    ) -> ActivityGate:
        context = ContextEditor(lambda frame: self._gate.push_frame(frame, FrameDirection.UPSTREAM))
        return ActivityGate(
            clocks=self._clocks,
            desk=self._desk,
            rights=self._keeper,
            wording=wording,
            context=context,
            course=TellingCourse(
                clocks=self._clocks,
                params=params,
                desk=self._desk,
                policy=policy,
                rights=self._keeper,
                wording=wording,
                context=context,
                push=lambda frame: self._gate.push_frame(frame),
                now=_now,
            ),
            live_state=LiveState(
                context=context, wording=wording, desk=self._desk, running=self._ledger.running
            ),
            progress=ProgressSpeech(policy=policy, wording=wording, running=self._ledger.running),
            caller_said=lambda text: self._background.spawn(self._reconciler.caller_said(text)),
            correction=self._correction,
            **options,
        )

    @property
    def functions(self) -> list[DirectFunction]:
        """The tools as ``LLMContext(tools=[...])`` takes them, and one that cancels, if one can be."""
        ours = [direct_function(spec, self._registry.answer) for spec in self._specs.values()]
        return [*ours, *([self._cancel_tool.direct_function()] if self._cancel_tool.is_needed else [])]

    @property
    def flow_functions(self) -> list[Callable[..., Any]]:
        """The tools as the ``functions`` of a ``pipecat.flows`` node take them."""
        ours = [flow_function(spec, self._registry.answer) for spec in self._specs.values()]
        return [*ours, *([self._cancel_tool.flow_function()] if self._cancel_tool.is_needed else [])]

    def processors(self) -> list[FrameProcessor]:
        """Return the processors that stand between the model and the voice, in their order."""
        return [self._registry, self._aggregator, self._gate]

    def playback(self) -> FrameProcessor:
        """Return the processor that stands right behind ``transport.output()``."""
        return self._tracker

    async def cancel(self, operation_id: str) -> bool:
        """Stop an operation; its batch goes on without it.

        Args:
            operation_id: From an event or :meth:`snapshot`.

        Returns:
            Whether it was cancelled; False when it is unknown here or had ended before.
        """
        return await self._ledger.cancel(operation_id)

    def open_batch(self, name: str, *, priority: Priority = "normal") -> str:
        """Let every slow call from now on join one batch, over several turns, until `close_batch`.

        Args:
            name: What it is about; its id begins with it.
            priority: Of its update; "urgent" makes it urgent whatever its members are.

        Returns:
            The id of the batch.

        Raises:
            ConfigurationError: A batch is open, or an argument has a value it cannot have.
        """
        if not name:
            raise ConfigurationError("open_batch(name=''): pass what the batch is about")
        if priority not in ("normal", "urgent"):
            raise ConfigurationError(f"open_batch(priority={priority!r}): pass 'normal' or 'urgent'")
        return self._scope.open(name, urgent=priority == "urgent")

    async def close_batch(self) -> None:
        """Let nothing join the open batch any more: it is told once its members have settled.

        Raises:
            ConfigurationError: No batch is open.
        """
        await self._registry.release(self._scope.close())

    def snapshot(self) -> SessionSnapshot:
        """Return what is running, what is missing, and what the caller is owed."""
        return SessionSnapshot(
            session_id=self._session_id,
            operations=self._ledger.operations,
            batches=tuple(BatchSnapshot.of(batch) for batch in self._aggregator.batches),
            deliveries=self._desk.deliveries,
        )

    async def stop(self) -> None:
        """Wait until running operations have ended, at most ``drain_secs`` after the pipeline did."""
        self._pipeline_ended()
        assert self._stopping is not None
        await asyncio.shield(self._stopping)

    def _pipeline_ended(self) -> None:
        # Not waited for: the end of a pipeline is never delayed by what still runs.
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._wind_up())

    def _pipeline_started(self) -> None:
        self._started = True
        self._background.spawn(self._take_up())

    async def _take_up(self) -> None:
        # The lease first: only a living owner can hold a session.
        await self._sweeper.start()
        self._keeper.start()

    async def _wind_up(self) -> None:
        await self._sweeper.drain()
        await self._ledger.stop(self._drain_secs)
        if self._started:
            # A farewell may still be playing: until the gate is closed its telling has no end.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gate.closed.wait(), _FAREWELL_SECS)
        await self._sweeper.stop()
        await self._keeper.stop()
        if writing := self._background.running:
            await asyncio.wait(writing)
        if self._undeliverable_after_secs is not None and self._desk.has_open:
            self._background.spawn(self._give_up(self._undeliverable_after_secs))
        elif self._owns_store:
            await self._store.close()

    async def _give_up(self, after_secs: float) -> None:
        await self._keeper.give_up(after_secs)
        if self._owns_store:
            await self._store.close()

    def _correction(self, operation: Operation) -> Envelope:
        return Envelope.of(
            (operation,),
            tools=self._told,
            delivery_id=delivery_id(operation.batch_id, operation, corrected=True),
            batch_id=operation.batch_id,
            turn_id=operation.turn_id,
            ready_at=_now(),
            correction=True,
        )

    def _publish(self, event: Event) -> None:
        if event.operation_id and event.name == "on_operation_accepted":
            self._clocks.operations.accepted(event.operation_id)
        elif event.operation_id and event.name == "on_operation_settled":
            self._clocks.operations.settled(event.operation_id)
        self._background.spawn(self._write_and_tell(event))

    async def _write_and_tell(self, event: Event) -> None:
        await self._call_event_handler(event.name, event)  # pyright: ignore[reportUnknownMemberType]
        if event.name not in NOT_LOGGED_BY_STORES:
            return
        try:
            await in_time(self._store.append(event), "write an event")
        except StoreError as e:
            logger.error(f"{self}: {event.name} was not written down: {e}")


def _now() -> float:
    return asyncio.get_running_loop().time()
