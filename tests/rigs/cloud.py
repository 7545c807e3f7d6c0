# SPDX-License-Identifier: BSD-2-Clause
"""A call in real time through the real clients of Deepgram, OpenAI and Cartesia, against loopback servers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from unittest import mock

from pipecat.frames.frames import ErrorFrame
from pipecat.services.cartesia.tts import CartesiaTTSService

from bots import cloud
from bots.call import Call, build_call
from bots.clinic import CLINIC_URL, INSTRUCTIONS
from bots.clinic_service import Behaviour, ClinicService
from bots.demo import BARGE_IN_SECS, Caller
from bots.inprocess import FRAME_BYTES, FRAME_SECS, InProcessTransport, Line, audible
from bots.offline_voice import ToneTTSService
from bots.scripted_llm import ScriptedLLM
from bots.services import Services
from bots.timeline import Timeline
from pipecat_async_tools.delivery.envelope import Envelope
from tests.rigs.cartesia_server import CartesiaServer
from tests.rigs.deepgram_server import DeepgramServer

KEY = "loopback"
CALL_SECS = 110.0
"""The longest that a call may take."""


@asynccontextmanager
async def cloud_services(
    instructions: str, ears: DeepgramServer, voice: CartesiaServer
) -> AsyncIterator[Services]:
    """The services of ``bots.cloud``, with servers of this process at the other end.

    Args:
        instructions: The system prompt.
        ears: Deepgram's place, not entered yet.
        voice: Cartesia's place, not entered yet.

    Yields:
        Ears, model and voice.
    """
    async with ears, voice, ScriptedLLM() as model:
        environment = {
            "DEEPGRAM_API_KEY": KEY,
            "DEEPGRAM_URL": ears.url,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": model.url,
            "CARTESIA_API_KEY": KEY,
            "CARTESIA_URL": voice.url,
        }
        with mock.patch.dict(os.environ, environment):
            services = cloud.cloud_services(instructions)
        yield services


@dataclass(frozen=True)
class CloudCall:
    """A call that is on.

    Parameters:
        call: The pipeline.
        line: The line to the caller.
        timeline: What happened.
        clinic: The back office.
        ears: Deepgram's place.
        voice: Cartesia's place.
        caller: The caller.
        errors: What the services reported.
    """

    call: Call
    line: Line
    timeline: Timeline
    clinic: ClinicService
    ears: DeepgramServer
    voice: CartesiaServer
    caller: Caller
    errors: list[str]

    @property
    def delivery(self) -> Envelope:
        """The one delivery of the call."""
        assert self.call.async_tools
        (delivery,) = self.call.async_tools.snapshot().deliveries
        assert isinstance(delivery, Envelope)
        return delivery

    def sound_secs(self, since: float, until: float) -> float:
        """For how long the bot was heard between two moments on the line."""
        pcm = bytes(self.line.bot)[
            round(since / FRAME_SECS) * FRAME_BYTES : round(until / FRAME_SECS) * FRAME_BYTES
        ]
        frames = (pcm[at : at + FRAME_BYTES] for at in range(0, len(pcm), FRAME_BYTES))
        return sum(map(audible, frames)) * FRAME_SECS

    async def until(self, condition: Callable[[], object], secs: float = 20.0) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(secs):
            while not condition():
                await asyncio.sleep(0.02)

    async def ask_for_both(self) -> None:
        """Let the caller ask for the two slow things, and speak over the acknowledgement."""
        await self.caller.hear_end(after=lambda: 0.0)
        await self.caller.say("ask", "Have you got my record, and is there anything free on Thursday?")
        await self.caller.hear_start(BARGE_IN_SECS)
        await self.caller.say("hold_on", "Hold on a second, please.")

    async def revive_voice(self) -> None:
        """Put a voice back to work whose key was refused, as an application has to.

        Pipecat's client keeps the receive task that has ended, and would speak without listening.
        """
        tts = self.call.services.tts
        assert isinstance(tts, CartesiaTTSService)
        self.voice.recover()
        await tts._disconnect()
        await tts.set_usable(True)

    async def say(self, recording: str, words: str) -> None:
        """Let the caller say something and hear the answer to its end."""
        await self.caller.say(recording, words)
        said_at = self.line.now
        await self.caller.hear_end(after=lambda: said_at)


def tone_secs(text: str) -> float:
    """For how long the words of a text sound in tones."""
    return sum(len(word) * ToneTTSService.SECS_PER_LETTER + 0.1 for word in text.split())


@asynccontextmanager
async def cloud_call(*, slots_secs: float, customer_secs: float) -> AsyncIterator[CloudCall]:
    """A call that has begun.

    Args:
        slots_secs: How long the back office takes to find slots.
        customer_secs: How long it takes to find the customer.

    Yields:
        The call.
    """
    line, errors = Line(), []
    timeline = Timeline(lambda: line.now)
    ears, voice = DeepgramServer(KEY), CartesiaServer(KEY)
    async with (
        asyncio.timeout(CALL_SECS),
        ClinicService(timeline.service_exchange) as clinic,
        cloud_services(INSTRUCTIONS, ears, voice) as services,
    ):
        clinic.script("/slots", Behaviour(delay_secs=slots_secs))
        clinic.script("/customers", Behaviour(delay_secs=customer_secs))
        with mock.patch.dict(os.environ, {CLINIC_URL: clinic.url}):
            call = build_call(
                InProcessTransport(line), services, session_id="rig", store="sqlite:///:memory:"
            )
            timeline.watch(call)
            _watch_errors(services, timeline, errors)
            running = asyncio.create_task(call.run())
            await call.greet()
            try:
                yield CloudCall(call, line, timeline, clinic, ears, voice, Caller(line, timeline), errors)
            finally:
                await call.worker.cancel()
                await running


def _watch_errors(services: Services, timeline: Timeline, errors: list[str]) -> None:
    async def note(_: object, error: ErrorFrame) -> None:
        errors.append(error.error)
        timeline.add("service", "error", error.error)

    for service in (services.stt, services.llm, services.tts):
        service.add_event_handler("on_error", note)
