# SPDX-License-Identifier: BSD-2-Clause
"""``TellingCourse``: the telling in flight, from the decision to the verdict. One at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from loguru import logger
from pipecat.frames.frames import Frame, TTSSpeakFrame

from pipecat_async_tools.delivery.clocks import CallClocks, ChannelState, ClockParams
from pipecat_async_tools.delivery.context import ContextEditor
from pipecat_async_tools.delivery.desk import DeliveryDesk, Due
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.facts import (
    all_heard,
    can_be_checked,
    names_request,
    partly_told,
    rest_of,
)
from pipecat_async_tools.delivery.joining import Joining
from pipecat_async_tools.delivery.policy import DeliveryPolicy
from pipecat_async_tools.delivery.rights import TellingRights
from pipecat_async_tools.delivery.telling import Phase, Telling
from pipecat_async_tools.delivery.wording import Wording, is_offered
from pipecat_async_tools.frames import TellingEndedFrame, TellingStartedFrame
from pipecat_async_tools.operations.operation import new_id
from pipecat_async_tools.store.rows import TellingMode, TellingOutcome, TellingRecord

# How long a delivery that the store did not grant is left alone.
_DENIED_SECS = 0.5


class TellingCourse:
    """Begins a telling when the desk says so, follows it, and tells desk, store and context how it ended."""

    def __init__(
        self,
        *,
        clocks: CallClocks,
        params: ClockParams,
        desk: DeliveryDesk,
        policy: DeliveryPolicy,
        rights: TellingRights,
        wording: Wording,
        context: ContextEditor,
        push: Callable[[Frame], Awaitable[None]],
        now: Callable[[], float],
    ):
        """Initialize with nothing being told.

        Args:
            clocks: The clocks of the call.
            params: After how long what it waits for is taken for lost.
            desk: The deliveries.
            policy: Says what an answer must hold to have told a delivery.
            rights: Asked before anything is told, and told how it ended.
            wording: What is said.
            context: The model's context.
            push: Pushes a frame on to the voice.
            now: Returns the time in seconds.
        """
        self._clocks = clocks
        self._params = params
        self._desk = desk
        self._policy = policy
        self._rights = rights
        self._wording = wording
        self._context = context
        self._push = push
        self._now = now
        self.telling: Telling | None = None
        self.told_in_silence: str | None = None
        self._own_voice = False

    def speak_through(self, conversation: ContextEditor) -> None:
        """The model hears the caller and speaks itself; its conversation cannot be edited."""
        self._context, self._own_voice = conversation, True

    async def begin(self, due: Due, look_again: Callable[[], Awaitable[Due]]) -> None:
        """Begin to tell what is due, if it still is once the store has granted it."""
        telling_id = new_id("telling")
        granted = await self._claim(due.tell, telling_id, "proactive")
        # The store took its time: the caller may have begun, or a newer result have come.
        due, asked = await look_again(), due.tell
        ready = tuple(e for e in due.tell if e.delivery_id in granted)
        if due.interrupt or len(ready) < len(granted):
            self._give_back(asked, granted, telling_id)
        elif ready:
            await self._tell(ready, telling_id, over_caller=due.over_caller)

    async def join(self, deliveries: tuple[Envelope, ...]) -> None:
        """Prepare to tell deliveries together with the answer to the turn that is open."""
        joining = self.telling if isinstance(self.telling, Joining) else None
        telling_id = joining.telling_id if joining else new_id("telling")
        granted = await self._claim(deliveries, telling_id, "next_turn")
        ready = tuple(e for e in deliveries if e.delivery_id in granted)
        if not ready:
            return
        if joining is None:
            now = self._now()
            joining = self.telling = Joining(ready, telling_id=telling_id, params=self._params, now=now)
        elif joining is self.telling and joining.is_waiting:
            joining.extend(ready)
        else:
            self._give_back(deliveries, granted, telling_id)
            return
        self._desk.begin(ready, telling_id, "next_turn")
        logger.debug(f"telling {telling_id} joins the next answer")
        await self._inject(joining)

    async def advance(self) -> bool:
        """See whether the telling in flight has ended.

        Returns:
            Whether nothing is being told now, or what is only waits for an answer to join.
        """
        telling = self.telling
        if telling is None:
            return True
        now = self._now()
        outcome = telling.verdict(now, self._clocks.channel(now))
        if outcome is None:
            return isinstance(telling, Joining) and telling.is_waiting
        await self._conclude(telling, outcome, now)
        return True

    def close(self) -> None:
        """Leave a telling in flight with what was heard of it."""
        if self.telling is None:
            return
        now = self._now()
        # Nobody speaks any more, whatever the clocks say.
        outcome = self.telling.verdict(now, ChannelState())
        heard_of = self.telling.evidence.started_at is not None
        self._finish(self.telling, outcome or ("interrupted" if heard_of else "withdrawn"), now)

    # What passes the gate

    async def response_started(self, now: float) -> None:
        """A response begins."""
        telling = self.telling
        if telling is None or not (telling.awaits_response or telling.is_anothers):
            return
        if telling.is_anothers:
            # That one was not it: the next may be.
            telling.evidence = self._clocks.hearing.follow(new_id("telling"))
        elif telling.phase is Phase.TRIGGERED:
            # Not before: the interruption that began the turn may have reached the output only now.
            self._follow(telling)
        telling.response_started(now)
        await self._push(TellingStartedFrame(telling.evidence.telling_id))

    async def words(self, text: str, now: float) -> None:
        """Words of a response are let through."""
        telling = self.telling
        if telling and telling.is_responding:
            telling.said(text, now)
            self._clocks.hearing.generated(text)

    async def words_passed(self) -> None:
        """Words of a response went on to the voice."""
        telling = self.telling
        # Not before the first words, or the model may not have read what it is to tell.
        if telling and telling.is_responding and telling.text and not isinstance(telling, Joining):
            await self._mark_being_told(telling)

    async def response_ended(self, now: float) -> Telling | None:
        """A response is complete; returns the telling whose it was."""
        telling = self.telling
        if telling is None or not telling.is_responding:
            return None
        telling.handed_over(now)
        if isinstance(telling, Joining) and all(
            self._covers(delivery, telling.text, complete=True) for delivery in telling.deliveries
        ):
            await self._mark_being_told(telling)
        return telling

    async def _mark_being_told(self, telling: Telling) -> None:
        # Another run may follow before this one is heard: it must not be asked to tell it again.
        if not telling.marked:
            telling.marked = True
            message = self._wording.being_told(telling.deliveries)
            await self._context.replace(telling.deliveries, message)

    def caller_was_first(self) -> Telling | None:
        """Withdraw a telling of which nothing was heard yet, and return it."""
        telling = self.telling
        # A model's own voice cannot be held back word by word: only an interruption stops it.
        if telling is None or telling.withdrawn or not telling.may_be_withdrawn or self._own_voice:
            return None
        telling.withdraw()
        return telling

    def caller_speaks_on(self, now: float) -> bool:
        """The caller speaks again within a turn that is open; returns whether that cuts a telling off.

        Inside an open turn Pipecat does not interrupt again.
        """
        telling = self.telling
        if telling is None or isinstance(telling, Joining) or telling.withdrawn or self._own_voice:
            return False
        if telling.over_caller or not telling.interruptible or telling.is_interrupted:
            return False
        telling.interrupted(now)
        return True

    def interrupted(self, now: float) -> None:
        """An interruption passed the gate."""
        telling = self.telling
        if telling is None or not telling.interruptible:
            return
        if telling.phase is Phase.TRIGGERED and not isinstance(telling, Joining):
            telling.withdraw()
        else:
            telling.interrupted(now)

    # How it begins

    async def _claim(
        self, deliveries: Sequence[Envelope], telling_id: str, mode: TellingMode
    ) -> frozenset[str]:
        granted = await self._rights.claim(deliveries, telling_id, mode)
        now = self._now()
        for envelope in deliveries:
            if envelope.delivery_id not in granted:
                self._desk.deny(envelope.delivery_id, now + _DENIED_SECS)
        return granted

    def _give_back(self, deliveries: Sequence[Envelope], granted: frozenset[str], telling_id: str) -> None:
        record = TellingRecord(
            telling_id=telling_id, started_at=None, ended_at=self._now(), heard="", outcome="withdrawn"
        )
        ends = [envelope.ended(record) for envelope in deliveries if envelope.delivery_id in granted]
        self._rights.settle(telling_id, ends)

    async def _tell(self, deliveries: tuple[Envelope, ...], telling_id: str, *, over_caller: bool) -> None:
        now = self._now()
        how = self._desk.how_to_tell(deliveries, over_caller=over_caller)
        telling = Telling(
            deliveries,
            telling_id=telling_id,
            params=self._params,
            now=now,
            how=how,
            over_caller=over_caller,
        )
        if self._clocks.caller.turn_is_open:
            self.told_in_silence = self._clocks.caller.turn_id
        if self._own_voice:
            telling.in_own_voice(doubtful=self._clocks.caller.may_be_answered)
        self.telling = telling
        self._desk.begin(deliveries, telling_id, "proactive")
        logger.debug(f"telling {telling_id} by {how}")
        if how == "model":
            await self._ask_model(telling)
        else:
            await self._speak(telling, self._wording.template(deliveries), now)

    async def _ask_model(self, telling: Telling) -> None:
        def too_late() -> bool:
            # The last look: between the decision and this instant the caller may have begun.
            if self._clocks.caller.is_speaking(self._now()) or self.telling is not telling:
                telling.withdraw()
            return telling.withdrawn

        def done() -> None:
            telling.in_context = True

        message = self._wording.update(telling.deliveries)
        await self._context.ask(telling.deliveries, message, unless=too_late, then=done)

    async def _inject(self, joining: Joining) -> None:
        def too_late() -> bool:
            # The turn may have ended meanwhile: its answer is being made from the context as it was.
            if self.telling is not joining or not self._clocks.channel(self._now()).turn_open:
                joining.withdraw()
            return joining.withdrawn

        def done() -> None:
            joining.in_context = True

        message = self._wording.pending(joining.deliveries)
        await self._context.inject(joining.deliveries, message, unless=too_late, then=done)

    async def _speak(self, telling: Telling, text: str, now: float) -> None:
        self._follow(telling)
        telling.said(text, now)
        telling.handed_over(now)
        self._clocks.hearing.generated(text)
        self._clocks.playback.handed_over(now)
        frames = (
            TellingStartedFrame(telling.telling_id),
            TTSSpeakFrame(text),
            TellingEndedFrame(telling.telling_id),
        )
        for frame in frames:
            # What the caller may not cut off is kept by voice and output, with its marks.
            frame.interruptible = telling.interruptible
            await self._push(frame)

    def _follow(self, telling: Telling) -> None:
        hearing = self._clocks.hearing
        telling.evidence = hearing.follow(telling.telling_id, interruptible=telling.interruptible)

    # How it ends

    async def _conclude(self, telling: Telling, outcome: TellingOutcome, now: float) -> None:
        heard = telling.evidence.heard(now)
        records = self._finish(telling, outcome, now)
        offered = telling.mode == "proactive" and is_offered(telling.deliveries)
        told = [d for d in telling.deliveries if records[d.delivery_id].outcome == "completed"]
        cut_off = [
            d for d in telling.deliveries if records[d.delivery_id].outcome in ("interrupted", "unheard")
        ]
        left = [d for d in telling.deliveries if d not in told and d not in cut_off]
        evidence = telling.evidence
        if (
            outcome == "unheard"
            or evidence.was_cut_short
            or (evidence.asks_carrier and telling.is_interrupted)
        ):
            # Pipecat took for heard what a carrier threw away, or a voice that broke off never said.
            self._context.trim(evidence.sent(now) or telling.text.strip(), heard)
        if told:
            await self._context.replace(told, self._wording.told(told, offered=offered))
        if cut_off:
            await self._context.replace(cut_off, self._wording.cut_off(heard), takes_back=True)
        if left:
            await self._context.replace(left, None, takes_back=True)

    def _finish(self, telling: Telling, outcome: TellingOutcome, now: float) -> dict[str, TellingRecord]:
        self.telling = None
        records = {
            d.delivery_id: telling.record(self._outcome_for(d, telling, outcome, now), now)
            for d in telling.deliveries
        }
        finished = self._desk.finish(telling, records, self._clocks.caller.turn_id)
        self._rights.settle(telling.telling_id, [e.ended(records[e.delivery_id]) for e in finished])
        logger.debug(f"telling {telling.telling_id} {outcome}")
        return records

    def _outcome_for(
        self, delivery: Envelope, telling: Telling, outcome: TellingOutcome, now: float
    ) -> TellingOutcome:
        """Return how a telling went for one of its deliveries: facts that were heard count."""
        heard, language = telling.evidence.heard(now), self._wording.language
        if isinstance(telling, Joining):
            return self._outcome_of_join(delivery, outcome, heard)
        if outcome not in ("completed", "interrupted"):
            return outcome
        if all_heard(delivery.told, f"{delivery.heard} {heard}", language):
            return "completed"
        if telling.shared and not self._told_beside(delivery, heard, complete=outcome == "completed"):
            # It answered something else, and left the update out.
            return "lost" if outcome == "completed" else "interrupted"
        complete = telling.phase is Phase.HANDED_OVER and not rest_of(telling.text, heard)
        return "completed" if complete else outcome

    def _outcome_of_join(self, delivery: Envelope, outcome: TellingOutcome, heard: str) -> TellingOutcome:
        if outcome not in ("completed", "interrupted"):
            return outcome
        complete = outcome == "completed"
        covered = self._covers(delivery, f"{delivery.heard} {heard}".strip(), complete=complete)
        if covered:
            return "completed"
        if complete:
            return "uncovered"
        # Cut off in the answer, before a word of the update: then it never started.
        begun = any(partly_told(o, heard, self._wording.language) for o in delivery.told)
        return "interrupted" if begun else "withdrawn"

    def _told_beside(self, delivery: Envelope, heard: str, *, complete: bool) -> bool:
        """Return whether a response to something else told it: what has no facts is known by its request."""
        unchecked = [o for o in delivery.told if not can_be_checked([o])]
        named = all(names_request(o, heard) for o in unchecked)
        return complete and named and self._covers(delivery, heard, complete=True)

    def _covers(self, delivery: Envelope, words: str, *, complete: bool) -> bool:
        try:
            return self._policy.covers(delivery, words, complete=complete, language=self._wording.language)
        except Exception as e:
            logger.error(f"covers of the delivery policy raised {type(e).__name__}: {e}; it counts as untold")
            return False
