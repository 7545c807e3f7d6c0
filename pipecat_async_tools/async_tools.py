# SPDX-License-Identifier: BSD-2-Clause
"""``AsyncTools``: wires one call; the one object a bot touches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loguru import logger
from pipecat.adapters.llm.schemas.direct_function import DirectFunction
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.utils.base_object import BaseObject

from pipecat_async_tools.background import Background
from pipecat_async_tools.batches.aggregator import BatchAggregator
from pipecat_async_tools.batches.batch import BatchPolicy
from pipecat_async_tools.delivery.clocks import CallClocks, ClockParams
from pipecat_async_tools.delivery.desk import DeliveryDesk
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.gate import ActivityGate
from pipecat_async_tools.delivery.playback import PlaybackTracker
from pipecat_async_tools.delivery.policy import DeliveryPolicy
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.errors import ConfigurationError, StoreError
from pipecat_async_tools.events import EVENT_NAMES, Event, Journal
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.executors.local import LocalExecutor
from pipecat_async_tools.operations.functions import direct_function, flow_function
from pipecat_async_tools.operations.ledger import OperationLedger, in_time
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.registry import Adopt, CallPolicy, OperationRegistry
from pipecat_async_tools.operations.tool import ToolHandler, ToolSpec, spec_of
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.memory import MemoryStore
from pipecat_async_tools.wiring import Wiring


@dataclass(frozen=True, kw_only=True)
class BatchSnapshot:
    """A batch at one moment.

    Parameters:
        batch_id: The batch.
        turn_id: The caller's turn.
        operation_ids: Its operations.
        missing: Ids of the calls it still waits for.
        closed: Whether it has closed.
    """

    batch_id: str
    turn_id: str
    operation_ids: tuple[str, ...]
    missing: tuple[str, ...]
    closed: bool


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot:
    """A call at one moment.

    Parameters:
        session_id: The caller's session.
        operations: Its operations, oldest first.
        batches: Its batches, oldest first.
        deliveries: Its deliveries, oldest first, each with its tellings.
    """

    session_id: str
    operations: tuple[Operation, ...]
    batches: tuple[BatchSnapshot, ...]
    deliveries: tuple[Envelope, ...]


class AsyncTools(BaseObject):
    """Slow tools for one call: accepted at once, run outside the turn, told once when it can be heard.

    Every event of :data:`~pipecat_async_tools.events.EVENT_NAMES` can be subscribed to; handlers get
    this object and an :class:`~pipecat_async_tools.events.Event`::

        @async_tools.event_handler("on_delivery_spoken")
        async def on_delivery_spoken(async_tools, event): ...
    """

    def __init__(
        self,
        *,
        session_id: str,
        tools: Sequence[ToolHandler] = (),
        store: Store | None = None,
        executor: Executor | None = None,
        adopt: Adopt = True,
        adopted_timeout_secs: float = 120.0,
        acknowledge: Literal["template", "model"] = "template",
        batches: BatchPolicy | None = None,
        delivery: DeliveryPolicy | None = None,
        clocks: ClockParams | None = None,
        wording: Wording | None = None,
        channel: str = "",
        drain_secs: float = 10.0,
    ):
        """Wire one call.

        Args:
            session_id: Names the caller's session, across calls.
            tools: Functions decorated with ``@async_tool``.
            store: Remembers operations; None keeps them as long as the process lives.
            executor: Runs operations; None runs them on this event loop.
            adopt: Which native functions registered with ``cancel_on_interruption=False`` are adopted:
                all of them, names, or a predicate of the name.
            adopted_timeout_secs: Seconds until an adopted function that never reports is given up.
            acknowledge: Who says that work has begun when the model did not: a template, or the model.
            batches: When calls are announced and their batch closes.
            delivery: When an update is told.
            clocks: After how long a state that nothing ended is taken for over.
            wording: What is said.
            channel: What kind of channel it is, such as "webrtc" or "twilio", for policies.
            drain_secs: Seconds that running operations may go on after the pipeline has ended.

        Raises:
            ConfigurationError: An argument has a value it cannot have.
            ToolDefinitionError: A tool was not decorated.
        """
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        _check(session_id, store, adopt, adopted_timeout_secs, acknowledge, drain_secs)
        batch_policy, clock_params = batches or BatchPolicy(), clocks or ClockParams()
        self._session_id = session_id
        self._specs = _by_name(tools)
        self._drain_secs = drain_secs
        self._store = store or MemoryStore()
        self._wording = wording or Wording()
        self._background = Background()
        self._stopping: asyncio.Task[None] | None = None
        for name in EVENT_NAMES:
            self._register_event_handler(name)

        self._clocks = CallClocks(clock_params, channel=channel)
        journal = Journal(session_id=session_id, now=_now, publish=self._publish)
        self._ledger = OperationLedger(
            store=self._store, executor=executor or LocalExecutor(), tools=self._specs, journal=journal
        )
        self._desk = DeliveryDesk(policy=delivery or DeliveryPolicy(), journal=journal)
        wiring = Wiring()
        self._registry = OperationRegistry(
            session_id=session_id,
            ledger=self._ledger,
            tools=self._specs,
            policy=CallPolicy(
                grace_secs=batch_policy.grace_secs,
                adopt=adopt,
                adopted_timeout_secs=adopted_timeout_secs,
                model_acknowledges=acknowledge == "model",
            ),
            acceptance=self._wording.acceptance,
            turn_id=lambda: self._clocks.caller.turn_id,
            journal=journal,
            on_ended=self._pipeline_ended,
            wiring=wiring,
        )
        self._aggregator = BatchAggregator(
            policy=batch_policy, tools=self._specs, journal=journal, wiring=wiring
        )
        self._gate = ActivityGate(
            clocks=self._clocks,
            params=clock_params,
            desk=self._desk,
            wording=self._wording,
            correction=self._correction,
            wiring=wiring,
        )
        self._tracker = PlaybackTracker(clocks=self._clocks, wiring=wiring)
        wiring.expect(self.processors(), self._tracker)

    @property
    def functions(self) -> list[DirectFunction]:
        """The tools as ``LLMContext(tools=[...])`` takes them."""
        return [direct_function(spec, self._registry.answer) for spec in self._specs.values()]

    @property
    def flow_functions(self) -> list[Callable[..., Any]]:
        """The tools as the ``functions`` of a ``pipecat.flows`` node take them."""
        return [flow_function(spec, self._registry.answer) for spec in self._specs.values()]

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

    def snapshot(self) -> SessionSnapshot:
        """Return what is running, what is missing, and what the caller is owed."""
        return SessionSnapshot(
            session_id=self._session_id,
            operations=self._ledger.operations,
            batches=tuple(
                BatchSnapshot(
                    batch_id=batch.batch_id,
                    turn_id=batch.turn_id,
                    operation_ids=tuple(o.operation_id for o in batch.operations.values()),
                    missing=batch.missing,
                    closed=batch.closed,
                )
                for batch in self._aggregator.batches
            ),
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

    async def _wind_up(self) -> None:
        await self._ledger.stop(self._drain_secs)
        if writing := self._background.running:
            await asyncio.wait(writing)

    def _correction(self, operation: Operation) -> Envelope:
        return Envelope.of(
            (operation,),
            tools=self._specs,
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
        try:
            await in_time(self._store.append(event), "write an event")
        except StoreError as e:
            logger.error(f"{self}: {event.name} was not written down: {e}")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _by_name(tools: Sequence[ToolHandler]) -> Mapping[str, ToolSpec]:
    if callable(tools):
        raise ConfigurationError(f"tools={tools!r}: pass a list of functions")
    specs: dict[str, ToolSpec] = {}
    for spec in map(spec_of, tools):
        if spec.name in specs:
            raise ConfigurationError(f"tools: two functions are named {spec.name}; rename one")
        specs[spec.name] = spec
    return specs


def _check(
    session_id: str,
    store: Any,
    adopt: Any,
    adopted_timeout_secs: float,
    acknowledge: str,
    drain_secs: float,
) -> None:
    if not session_id:
        raise ConfigurationError("session_id='': pass a name for the caller's session")
    if isinstance(store, str):
        raise ConfigurationError(
            f"store={store!r}: pass a Store object, or None for as long as the process lives"
        )
    if isinstance(adopt, str) or not (callable(adopt) or isinstance(adopt, (bool, Collection))):
        raise ConfigurationError(
            f"adopt={adopt!r}: pass True, False, a list of names or a function of the name"
        )
    if adopted_timeout_secs <= 0:
        raise ConfigurationError(f"adopted_timeout_secs={adopted_timeout_secs}: pass seconds above 0")
    if acknowledge not in ("template", "model"):
        raise ConfigurationError(f"acknowledge={acknowledge!r}: pass 'template' or 'model'")
    if drain_secs < 0:
        raise ConfigurationError(f"drain_secs={drain_secs}: pass seconds, 0 or more")
