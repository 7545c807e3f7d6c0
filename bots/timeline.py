# SPDX-License-Identifier: BSD-2-Clause
"""What happens in a call, printed as it happens and kept for whoever judges it."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, TextIO

from pipecat.frames.frames import BotStartedSpeakingFrame, BotStoppedSpeakingFrame, Frame

from bots.call import Call
from bots.clinic_service import Exchange
from pipecat_async_tools import AsyncTools, Event

ASYNC_TOOLS_EVENTS = (
    "on_operation_accepted",
    "on_operation_started",
    "on_operation_settled",
    "on_batch_closed",
    "on_delivery_ready",
    "on_delivery_started",
    "on_delivery_interrupted",
    "on_delivery_spoken",
    "on_delivery_suppressed",
)


@dataclass(frozen=True)
class Moment:
    """One thing that happened.

    Parameters:
        at: Seconds since the call began.
        who: ``caller``, ``bot``, ``service``, ``operation``, ``batch`` or ``delivery``.
        what: What happened, as one word or two.
        detail: The words said, the tool's name and the like.
    """

    at: float
    who: str
    what: str
    detail: str = ""


class Timeline:
    """The moments of a call in the order in which they became known."""

    def __init__(self, now: Callable[[], float], out: TextIO | None = sys.stdout):
        """Initialize an empty timeline.

        Args:
            now: Seconds since the call began.
            out: Where moments are printed; None prints nothing.
        """
        self.moments: list[Moment] = []
        self._now = now
        self._out = out

    def add(self, who: str, what: str, detail: str = "") -> None:
        """Note a moment.

        Args:
            who: Whose moment it is.
            what: What happened.
            detail: Words, names.
        """
        moment = Moment(round(self._now(), 3), who, what, detail)
        self.moments.append(moment)
        if self._out:
            print(f"{moment.at:7.2f}  {who:<10} {what:<12} {detail}".rstrip(), file=self._out, flush=True)

    def of(self, who: str, what: str) -> list[Moment]:
        """The moments of one kind."""
        return [moment for moment in self.moments if (moment.who, moment.what) == (who, what)]

    def as_json(self) -> list[dict[str, Any]]:
        """The moments as plain data."""
        return [asdict(moment) for moment in self.moments]

    def service_exchange(self, exchange: Exchange) -> None:
        """Note a request to the back office, or its answer."""
        name = PurePath(exchange.path).name
        if exchange.status is None:
            self.add("service", "asked", name)
        else:
            self.add("service", "answers", f"{name} {exchange.status}")

    def watch(self, call: Call) -> None:
        """Note what the bot says, and its operations and deliveries.

        Args:
            call: The call.
        """
        self._watch_speech(call)
        if call.async_tools:
            self._watch_async_tools(call.async_tools)
        else:
            self._watch_native_operations(call)

    def _watch_speech(self, call: Call) -> None:
        spoken = {BotStartedSpeakingFrame: "starts", BotStoppedSpeakingFrame: "stops"}
        call.worker.set_reached_upstream_filter(tuple(spoken))

        @call.worker.event_handler("on_frame_reached_upstream")
        async def _(_: object, frame: Frame) -> None:
            self.add("bot", spoken[type(frame)])

        @call.services.tts.event_handler("on_tts_request")
        async def _(_: object, context_id: str, text: str) -> None:
            self.add("bot", "will say", text)

        @call.aggregators.user().event_handler("on_user_turn_stopped")
        async def _(_: object, strategy: object, message: Any) -> None:
            self.add("caller", "understood", message.content)

        @call.aggregators.assistant().event_handler("on_assistant_turn_stopped")
        async def _(_: object, message: Any) -> None:
            if message.content:
                self.add("bot", "cut off" if message.interrupted else "was heard", message.content)

    def _watch_native_operations(self, call: Call) -> None:
        @call.services.llm.event_handler("on_function_calls_started")
        async def _(_: object, calls: list[Any]) -> None:
            for function_call in calls:
                self.add("operation", "accepted", function_call.function_name)

    def _watch_async_tools(self, async_tools: AsyncTools) -> None:
        async def note(_: object, event: Event) -> None:
            who, what = event.name.removeprefix("on_").split("_")
            self.add(who, what, " ".join(filter(None, (event.tool, event.reason))))

        for name in ASYNC_TOOLS_EVENTS:
            async_tools.add_event_handler(name, note)
