# SPDX-License-Identifier: BSD-2-Clause
"""``ActivityGate``: lets an update be heard when the conversation has room for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    FunctionCallsStartedFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    StartFrame,
    TTSSpeakFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.delivery.clocks import CallClocks, ClockParams
from pipecat_async_tools.delivery.context import ContextEditor
from pipecat_async_tools.delivery.desk import DeliveryDesk, Due
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.facts import all_heard, rest_of
from pipecat_async_tools.delivery.rights import TellingRights
from pipecat_async_tools.delivery.telling import Phase, Telling
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.frames import (
    AcknowledgeFrame,
    DeliveryReadyFrame,
    OperationCorrectedFrame,
    TellingEndedFrame,
    TellingStartedFrame,
)
from pipecat_async_tools.operations.operation import Operation, new_id
from pipecat_async_tools.processor import PassingProcessor
from pipecat_async_tools.store.rows import TellingOutcome, TellingRecord

# While something is open the gate asks again at least this often, whatever happens or does not.
_TICK_SECS = 0.1
# How long a delivery that the store did not grant is left alone.
_DENIED_SECS = 0.5


class ActivityGate(PassingProcessor):
    """The only place that makes a sound.

    It decides from the present state, and is asked again on every change and on a timer, so no
    single event can be missed. Frames pass it at once; the deciding is done by a task of its own.
    """

    handles = (
        AcknowledgeFrame,
        DeliveryReadyFrame,
        FunctionCallsStartedFrame,
        LLMContextFrame,
        LLMContextUserTurnFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMTextFrame,
        OperationCorrectedFrame,
        TTSSpeakFrame,
        UserStartedSpeakingFrame,
        UserStoppedSpeakingFrame,
        VADUserStartedSpeakingFrame,
        VADUserStoppedSpeakingFrame,
    )

    def __init__(
        self,
        *,
        clocks: CallClocks,
        params: ClockParams,
        desk: DeliveryDesk,
        rights: TellingRights,
        wording: Wording,
        greeting_timeout_secs: float,
        correction: Callable[[Operation], Envelope],
        **kwargs: Any,
    ):
        """Initialize the gate.

        Args:
            clocks: The clocks of the call; the gate feeds those of caller and response.
            params: After how long what it waits for is taken for lost.
            desk: The deliveries.
            rights: Asked before anything is told, and told how it ended.
            wording: What is said.
            greeting_timeout_secs: Seconds from the start after which what an earlier call left is told
                although the bot has not said anything yet.
            correction: Builds the delivery that corrects a failure that was told.
            **kwargs: Passed to the base class.
        """
        super().__init__(**kwargs)
        self._clocks = clocks
        self._params = params
        self._desk = desk
        self._rights = rights
        self._wording = wording
        self._correction = correction
        self._greeting_timeout_secs = greeting_timeout_secs
        self._started_at = 0.0
        self._context = ContextEditor(self._push_upstream)
        self._telling: Telling | None = None
        self._dropping = False
        self._spoke_before: dict[str, bool] = {}
        self._wake = asyncio.Event()
        self._watch_task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        clocks.on_change = self._wake.set

    async def cleanup(self) -> None:
        """Stop deciding, and leave a telling in flight with what was heard of it."""
        self._stop_watching()
        if self._telling:
            now = self._now()
            outcome = self._telling.verdict(now, voice_busy=False)
            fallback = "withdrawn" if self._telling.may_be_withdrawn else "interrupted"
            self._finish_telling(self._telling, outcome or fallback, now)
        self.closed.set()
        await super().cleanup()

    async def take_in(self, envelope: Envelope) -> None:
        """Take in a delivery, from its batch or from an earlier call."""
        self._desk.add(envelope)
        if envelope.quiet:
            await self._context.note(
                replace(envelope, callbacks=() if envelope.told else envelope.callbacks),
                self._wording.note(envelope.quiet),
            )
        self._wake.set()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Keep the clocks of caller and response; pass frames at once."""
        await super().process_frame(frame, direction)
        now = self._now()
        if direction is FrameDirection.UPSTREAM:
            if isinstance(frame, LLMContextFrame):
                self._clocks.response.requested(now)
            await self.push_frame(frame, direction)
        elif isinstance(frame, DeliveryReadyFrame):
            await self.take_in(frame.envelope)
        elif isinstance(frame, OperationCorrectedFrame):
            self._desk.correct(frame.operation, lambda: self._correction(frame.operation))
        elif isinstance(frame, AcknowledgeFrame):
            await self._acknowledge(frame, now)
        elif isinstance(frame, LLMTextFrame):
            await self._pass_words(frame, now)
        elif isinstance(frame, LLMFullResponseStartFrame):
            await self._pass_response_start(frame, now)
        elif isinstance(frame, LLMFullResponseEndFrame):
            await self._pass_response_end(frame, now)
        else:
            await self._note(frame, now)
            await self.push_frame(frame, direction)
            await self._follow_lifecycle(frame)
        self._wake.set()

    async def _note(self, frame: Frame, now: float) -> None:
        caller = self._clocks.caller
        if isinstance(frame, VADUserStartedSpeakingFrame):
            caller.vad_started(now)
            await self._caller_was_first(now)
        elif isinstance(frame, VADUserStoppedSpeakingFrame):
            caller.vad_stopped(now)
        elif isinstance(frame, UserStartedSpeakingFrame):
            caller.turn_started(now)
            await self._caller_was_first(now)
        elif isinstance(frame, UserStoppedSpeakingFrame):
            caller.turn_stopped(now)
        elif isinstance(frame, LLMContextUserTurnFrame):
            caller.said_words(now)
            await self._caller_was_first(now)
        elif isinstance(frame, TTSSpeakFrame):
            self._clocks.playback.handed_over(now)
        elif isinstance(frame, FunctionCallsStartedFrame):
            for call in frame.function_calls:
                self._spoke_before[call.tool_call_id] = self._clocks.response.has_words
        elif isinstance(frame, InterruptionFrame):
            self._interrupted(now)

    async def _follow_lifecycle(self, frame: Frame) -> None:
        if isinstance(frame, StartFrame):
            self._started_at = self._now()
            self._watch_task = asyncio.create_task(self._watch(), name=f"{self}::watch")
        elif isinstance(frame, (EndFrame, CancelFrame)):
            if isinstance(frame, CancelFrame):
                # The output drops what it has not played: the word that just began was cut off.
                self._clocks.hearing.interrupted(self._now())
            self._stop_watching()

    # Responses on their way to the voice

    async def _pass_response_start(self, frame: LLMFullResponseStartFrame, now: float) -> None:
        self._clocks.response.started(now)
        self._dropping = False
        if self._telling and self._telling.awaits_response:
            self._telling.response_started(now)
            await self.push_frame(TellingStartedFrame(self._telling.telling_id))
        await self.push_frame(frame)

    async def _pass_words(self, frame: LLMTextFrame, now: float) -> None:
        telling = self._telling
        if telling and telling.is_responding:
            if self._clocks.caller.is_speaking(now):
                await self._caller_was_first(now)
            else:
                telling.said(frame.text, now)
                self._clocks.hearing.generated(frame.text)
        if self._dropping:
            return
        if frame.text.strip():
            self._clocks.response.words(now)
            self._clocks.caller.answered()
            self._clocks.playback.handed_over(now)
        await self.push_frame(frame)
        if telling and telling.is_responding and telling is self._telling:
            await self._mark_being_told(telling)

    async def _mark_being_told(self, telling: Telling) -> None:
        # Another run may follow before this one is heard: it must not be asked to tell it again. Not
        # before the first words, or the model may not have read what it is to tell.
        if telling.text and not telling.marked:
            telling.marked = True
            deliveries = telling.deliveries
            await self._context.replace(deliveries, self._wording.being_told(deliveries))

    async def _pass_response_end(self, frame: LLMFullResponseEndFrame, now: float) -> None:
        self._clocks.response.ended(now)
        if self._clocks.response.has_words and not self._dropping:
            self._clocks.playback.expect(frame.id, now)
        self._dropping = False
        telling = self._telling
        is_ours = telling is not None and telling.is_responding
        if telling and is_ours:
            telling.handed_over(now)
        await self.push_frame(frame)
        if telling and is_ours:
            await self.push_frame(TellingEndedFrame(telling.telling_id))

    async def _acknowledge(self, frame: AcknowledgeFrame, now: float) -> None:
        self._clocks.caller.answered()
        if any(self._spoke_before.get(call_id) for call_id in frame.call_ids):
            return
        if self._clocks.caller.is_speaking(now):
            # The caller took the turn: its answer finds the acceptance in the context.
            return
        self._clocks.playback.handed_over(now)
        await self.push_frame(TTSSpeakFrame(self._wording.acknowledgement(frame.tools)))

    # Deliveries

    async def _watch(self) -> None:
        while True:
            is_open = self._telling is not None or self._desk.has_open
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_SECS if is_open else None)
            self._wake.clear()
            await self._decide()

    async def _decide(self) -> None:
        now = self._now()
        if self._telling:
            outcome = self._telling.verdict(now, voice_busy=self._clocks.playback.is_busy(now))
            if outcome is None:
                return
            await self._conclude(self._telling, outcome, now)
        due = await self._due(now)
        if due.tell and due.interrupt:
            await self.broadcast_interruption()
        elif due.tell:
            await self._begin(due.tell)

    async def _due(self, now: float) -> Due:
        greeted = (
            self._clocks.playback.audible_until > 0 or now - self._started_at >= self._greeting_timeout_secs
        )
        due = self._desk.due(self._clocks.channel(now), now, greeted=greeted)
        for envelope in due.suppressed:
            self._rights.suppress(envelope)
            if envelope.told:
                await self._context.note(envelope, self._wording.note(envelope.told))
        return due

    async def _begin(self, deliveries: tuple[Envelope, ...]) -> None:
        telling_id = new_id("telling")
        granted = await self._rights.claim(deliveries, telling_id)
        now = self._now()
        for envelope in deliveries:
            if envelope.delivery_id not in granted:
                self._desk.deny(envelope.delivery_id, now + _DENIED_SECS)
        # The store took its time: the caller may have begun, or a newer result have come.
        due = await self._due(now)
        ready = tuple(e for e in due.tell if e.delivery_id in granted)
        if due.interrupt or len(ready) < len(granted):
            self._give_back(deliveries, granted, telling_id, now)
            return
        if ready:
            await self._tell(ready, telling_id, now)

    def _give_back(
        self, deliveries: tuple[Envelope, ...], granted: frozenset[str], telling_id: str, now: float
    ) -> None:
        record = TellingRecord(
            telling_id=telling_id, started_at=None, ended_at=now, heard="", outcome="withdrawn"
        )
        ends = [envelope.ended(record) for envelope in deliveries if envelope.delivery_id in granted]
        self._rights.settle(telling_id, ends)

    async def _tell(self, deliveries: tuple[Envelope, ...], telling_id: str, now: float) -> None:
        how = self._desk.how_to_tell(deliveries)
        telling = Telling(deliveries, telling_id=telling_id, how=how, params=self._params, now=now)
        telling.evidence = self._clocks.hearing.follow(telling_id)
        self._telling = telling
        self._desk.begin(deliveries, telling_id)
        logger.debug(f"{self}: telling {telling_id} by {how}")
        if how == "model":
            await self._ask_model(telling)
        else:
            await self._speak(telling, self._wording.template(deliveries), now)

    async def _ask_model(self, telling: Telling) -> None:
        def too_late() -> bool:
            # The last look: between the decision and this instant the caller may have begun.
            if self._clocks.caller.is_speaking(self._now()) or self._telling is not telling:
                telling.withdraw()
            return telling.withdrawn

        def done() -> None:
            telling.in_context = True

        await self._context.ask(
            telling.deliveries, self._wording.update(telling.deliveries), unless=too_late, then=done
        )

    async def _speak(self, telling: Telling, text: str, now: float) -> None:
        telling.said(text, now)
        telling.handed_over(now)
        self._clocks.hearing.generated(text)
        self._clocks.playback.handed_over(now)
        await self.push_frame(TellingStartedFrame(telling.telling_id))
        await self.push_frame(TTSSpeakFrame(text))
        await self.push_frame(TellingEndedFrame(telling.telling_id))

    async def _caller_was_first(self, now: float) -> None:
        """Withdraw a telling of which nothing was heard yet."""
        telling = self._telling
        if telling is None or telling.withdrawn or not telling.may_be_withdrawn:
            return
        telling.withdraw()
        self._dropping = telling.is_responding
        if telling.text.strip():
            # Its words are with the voice already, and not every turn start interrupts.
            await self.push_frame(InterruptionFrame())
            self._clocks.playback.interrupted(now)

    def _interrupted(self, now: float) -> None:
        self._clocks.response.interrupted(now)
        self._dropping = False
        telling = self._telling
        if telling is None:
            return
        if telling.phase is Phase.TRIGGERED:
            telling.withdraw()
        else:
            telling.interrupted(now)

    async def _conclude(self, telling: Telling, outcome: TellingOutcome, now: float) -> None:
        outcome = self._finish_telling(telling, outcome, now)
        if outcome == "completed":
            await self._context.replace(telling.deliveries, self._wording.told(telling.deliveries))
        elif outcome in ("interrupted", "unheard"):
            heard = telling.evidence.heard(now)
            await self._context.replace(telling.deliveries, self._wording.cut_off(heard))
        else:
            await self._context.replace(telling.deliveries, None)

    def _finish_telling(self, telling: Telling, outcome: TellingOutcome, now: float) -> TellingOutcome:
        self._telling = None
        if outcome == "interrupted" and self._said_enough(telling, now):
            outcome = "completed"
        record = telling.record(outcome, now)
        finished = self._desk.finish(telling.deliveries, record, telling.text)
        self._rights.settle(telling.telling_id, [envelope.ended(record) for envelope in finished])
        logger.debug(f"{self}: telling {telling.telling_id} {outcome}")
        return outcome

    def _said_enough(self, telling: Telling, now: float) -> bool:
        heard = telling.evidence.heard(now)
        so_far = " ".join([*(d.heard for d in telling.deliveries), heard])
        complete = telling.phase is Phase.HANDED_OVER and not rest_of(telling.text, heard)
        return complete or all_heard([o for d in telling.deliveries for o in d.told], so_far)

    async def _push_upstream(self, frame: Frame) -> None:
        await self.push_frame(frame, FrameDirection.UPSTREAM)

    def _stop_watching(self) -> None:
        if self._watch_task:
            self._watch_task.cancel()
            self._watch_task = None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
