# SPDX-License-Identifier: BSD-2-Clause
"""A speech-to-speech call in real time: the real service, talking to the loopback server."""

from __future__ import annotations

import array
import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from pipecat.frames.frames import (
    InputAudioRawFrame,
    LLMRunFrame,
    OutputAudioRawFrame,
    StartFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing.output import FarEnd, Utterance
from pipecat_async_tools.testing.recorder import Recorder
from tests.realtime.server import SAMPLE_RATE, RealtimeServer

CHUNK_SECS = 0.02
LOUD = 8000


def in_real_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own, with a limit."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            await asyncio.wait_for(test(*args, **kwargs), 20)

        asyncio.run(limited())

    return run


HICCUP_SECS = 0.35
"""A busy machine can leave a gap this long in what is one utterance; the quiet window is longer."""


class Microphone(BaseInputTransport):
    """An input transport that sends audio in real time: silence, or a voice."""

    def __init__(self):
        super().__init__(
            TransportParams(audio_in_enabled=True, audio_in_sample_rate=SAMPLE_RATE), name="Microphone"
        )
        self.speaking = False
        self.reports_voice = False
        """Whether voice detection runs here, and not at the server."""
        self._task: asyncio.Task[None] | None = None

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)
        self._task = asyncio.create_task(self._record())

    async def cleanup(self) -> None:
        if self._task:
            self._task.cancel()
        await super().cleanup()

    async def _record(self) -> None:
        reported = False
        while True:
            if self.reports_voice and self.speaking is not reported:
                reported = self.speaking
                frame = VADUserStartedSpeakingFrame() if reported else VADUserStoppedSpeakingFrame()
                await self.broadcast_frame_instance(frame)
            level = LOUD if self.speaking else 0
            audio = array.array("h", [level]).tobytes() * round(CHUNK_SECS * SAMPLE_RATE)
            await self.push_audio_frame(InputAudioRawFrame(audio, SAMPLE_RATE, 1))
            await asyncio.sleep(CHUNK_SECS)


class Speaker(BaseOutputTransport):
    """An output transport that plays in real time, to somebody who knows which words were heard."""

    def __init__(self, server: RealtimeServer):
        super().__init__(TransportParams(audio_out_enabled=True), name="Speaker")
        self.far_end = FarEnd(server.tape)
        self._played_until = 0.0

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        now = asyncio.get_running_loop().time()
        # A timer is never early: what follows at once follows without a gap.
        if now - self._played_until > 0.1:
            self._played_until = now
        self.far_end.play(frame.audio, frame.sample_rate, self._played_until)
        self._played_until += len(frame.audio) / 2 / frame.sample_rate
        await asyncio.sleep(self._played_until - now)
        return True


class RealtimeCall:
    """A call with a speech-to-speech model; used as a context manager, it runs inside the block."""

    def __init__(
        self,
        async_tools: AsyncTools,
        server: RealtimeServer,
        *,
        tools: tuple[Any, ...] = (),
        native: dict[str, Any] | None = None,
        local_turns: bool = False,
    ):
        self.async_tools = async_tools
        self.server = server
        audio_in = events.AudioInput(
            transcription=events.InputAudioTranscription(),
            turn_detection=False if local_turns else events.TurnDetection(silence_duration_ms=300),
        )
        self.service = OpenAIRealtimeLLMService(
            api_key="none",
            base_url=server.url,
            settings=OpenAIRealtimeLLMService.Settings(
                session_properties=events.SessionProperties(audio=events.AudioConfiguration(input=audio_in))
            ),
        )
        for name, handler in (native or {}).items():
            self.service.register_function(name, handler, cancel_on_interruption=False)
        self.context = LLMContext(tools=[*async_tools.functions, *tools])
        params = LLMUserAggregatorParams(user_turn_strategies=_local_strategies() if local_turns else None)
        user, assistant = LLMContextAggregatorPair(self.context, user_params=params)
        self.microphone = Microphone()
        self.microphone.reports_voice = local_turns
        self.output = Speaker(server)
        self.recorder = Recorder(record_frames=True)
        self.worker = PipelineWorker(
            Pipeline(
                [
                    self.microphone,
                    user,
                    self.service,
                    *async_tools.processors(),
                    self.output,
                    async_tools.playback(),
                    assistant,
                ]
            ),
            enable_rtvi=False,
            observers=[self.recorder],
            params=PipelineParams(audio_in_sample_rate=SAMPLE_RATE, audio_out_sample_rate=SAMPLE_RATE),
        )
        self._started_at = 0.0
        self._running: asyncio.Task[None] | None = None

    @property
    def now(self) -> float:
        """Seconds since the start of the call."""
        return asyncio.get_running_loop().time() - self._started_at

    async def __aenter__(self) -> RealtimeCall:
        started = asyncio.Event()
        self.worker.add_event_handler("on_pipeline_started", lambda *_: started.set())
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self.worker)
        self._running = asyncio.create_task(runner.run())
        await asyncio.wait_for(started.wait(), 5)
        self._started_at = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.worker.cancel()
        assert self._running is not None
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(self._running, 5)

    async def greet(self) -> None:
        """Let the bot speak first, as bots do once somebody is connected."""
        await self.worker.queue_frame(LLMRunFrame())

    async def user_says(self, text: str, *, secs: float = 0.5) -> None:
        """The caller says something; returns when the caller is silent."""
        self.server.heard.append(text)
        self.microphone.speaking = True
        await asyncio.sleep(secs)
        self.microphone.speaking = False

    async def until(self, holds: Callable[[], Any], *, within: float = 8.0) -> Any:
        """Wait until something holds, and return it."""
        deadline = asyncio.get_running_loop().time() + within
        while not (value := holds()):
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"it did not come to hold within {within} s\n{self.story()}")
            await asyncio.sleep(0.01)
        return value

    @property
    def utterances(self) -> list[Utterance]:
        """What the caller heard, in seconds of the call."""
        origin = self._started_at
        found: list[Utterance] = []
        for u in self.output.far_end.utterances(origin + self.now):
            if found and u.started_at - origin - found[-1].ended_at < HICCUP_SECS:
                found[-1] = Utterance(
                    found[-1].started_at, u.ended_at - origin, f"{found[-1].text} {u.text}".strip()
                )
            else:
                found.append(Utterance(u.started_at - origin, u.ended_at - origin, u.text))
        return found

    @property
    def heard(self) -> str:
        """All the words the caller heard."""
        return " ".join(u.text for u in self.utterances)

    @property
    def texts(self) -> list[str]:
        """The contents of Pipecat's context."""
        return [str(m.get("content") or "") for m in self.context.get_messages()]

    def at(self, time: float | None) -> float:
        """A time of the loop in seconds of the call."""
        assert time is not None
        return time - self._started_at

    @property
    def deliveries(self) -> tuple[Any, ...]:
        return self.async_tools.snapshot().deliveries

    @property
    def delivery(self) -> Any:
        """The one delivery of the call."""
        (delivery,) = self.deliveries
        return delivery

    def spoken(self) -> bool:
        """Whether everything that was owed has been told."""
        return bool(self.deliveries) and all(d.state == "spoken" for d in self.deliveries)

    def story(self) -> str:
        """What was on the wire and at the far end, for people."""
        origin = self._started_at
        lines = [
            *((s.at, f"-> {s.type} {_brief(s.event)}") for s in self.server.seen),
            *((s.at, f"   <- {s.type} {_brief(s.event)}") for s in self.server.sent if _tells(s.type)),
            *((u.started_at + origin, f"      hears: {u.text}") for u in self.utterances),
            *((i, "      interruption") for i in self.recorder.interruptions),
        ]
        told = [f"{d.state} {[t.outcome for t in d.tellings]}" for d in self.deliveries]
        text = "\n".join(f"{at - origin:6.2f} {line}" for at, line in sorted(lines))
        return f"{text}\n{told}\n{self.recorder.errors}"


def _local_strategies() -> UserTurnStrategies:
    stop = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)
    return UserTurnStrategies(start=[VADUserTurnStartStrategy()], stop=[stop])


def _brief(event: dict[str, Any]) -> str:
    item = event.get("item") or {}
    parts = item.get("content") or []
    words = " ".join(p.get("text") or p.get("transcript") or "" for p in parts)
    said = words or item.get("output") or event.get("transcript") or event.get("error") or ""
    status = (event.get("response") or {}).get("status") or ""
    return f"{status} {str(said)[:90]!r}" if said or status else ""


def _tells(event_type: str) -> bool:
    return not event_type.endswith("delta") and "content_part" not in event_type
