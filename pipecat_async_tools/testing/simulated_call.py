# SPDX-License-Identifier: BSD-2-Clause
"""A whole Pipecat call, scripted, in virtual time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipecat.frames.frames import EndFrame, TTSSpeakFrame
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMUserAggregatorParams,
)
from pipecat.workers.runner import WorkerRunner

from pipecat_async_tools.testing.caller import Caller
from pipecat_async_tools.testing.line import Arrange, connect
from pipecat_async_tools.testing.model import Call, Message, Reply, ScriptedModel, When, snapshot
from pipecat_async_tools.testing.output import OutputKind, PacedOutput
from pipecat_async_tools.testing.record import read_record
from pipecat_async_tools.testing.recorder import Recorder
from pipecat_async_tools.testing.timeline import CallError, Timeline, UserSpeech
from pipecat_async_tools.testing.tools import NativeHandler, NativeTool, ToolScript, running_script
from pipecat_async_tools.testing.virtual_time import VirtualTimeLoop, seeded
from pipecat_async_tools.testing.voice import ScriptedVoice, VoiceKind

Action = Callable[[], Awaitable[Any] | None]


class SimulatedCall:
    """One scripted call through a real pipeline. Say what happens, then `run` it, once.

    Example::

        call = SimulatedCall(tools={"book": native_tool("book")})
        call.user_says(at=0.5, until=1.5, text="Book it, please.")
        call.model_says("One moment.", when="book it", calls=[Call("book")])
        call.tool_finishes("book", at=4.0, result="done")
        timeline = await call.run(until=10)

    Args:
        async_tools: The `AsyncTools` under test; None for plain Pipecat.
        tools: Tools registered with the model natively, by name; a bare handler is registered with
            `cancel_on_interruption=False`.
        model: The model; give one to choose its options.
        voice: The voice, or its kind.
        output: The kind of output transport.
        clears_on_interruption: Whether an interruption empties the far end's buffer (unpaced output).
        caller: The caller; give one to choose the delays of voice detection and transcription.
        assistant_params: Of the assistant aggregator.
        user_params: Of the user aggregator; by default turns go by voice detection and a pause of 0.4 s.
        arrange: Gets the pipeline's processors and returns the ones to use, to add or replace some.
        context_messages: The context at the start.
        expect_errors: Whether errors in the pipeline are part of the test; otherwise they fail `run`.
        record_frames: Whether the timeline lists every frame.
        seed: Of Python's `random` during the run.
    """

    def __init__(
        self,
        async_tools: Any = None,
        *,
        tools: Mapping[str, NativeHandler | NativeTool] | None = None,
        model: ScriptedModel | None = None,
        voice: VoiceKind | ScriptedVoice = "words",
        output: OutputKind = "paced",
        clears_on_interruption: bool = True,
        caller: Caller | None = None,
        user_params: LLMUserAggregatorParams | None = None,
        assistant_params: LLMAssistantAggregatorParams | None = None,
        arrange: Arrange | None = None,
        context_messages: Sequence[Message] = (),
        expect_errors: bool = False,
        record_frames: bool = False,
        seed: int = 0,
    ):
        voice = voice if isinstance(voice, ScriptedVoice) else ScriptedVoice(voice)
        self._async_tools = async_tools
        self._expect_errors = expect_errors
        self._seed = seed
        self._recorder = Recorder(record_frames=record_frames)
        self._tool_script = ToolScript(lambda: self.now)
        self._speech: list[UserSpeech] = []
        self._actions: list[tuple[float, Action]] = []
        self._performances: list[asyncio.Task[None]] = []
        self._origin: float | None = None
        self.line = connect(
            caller or Caller(),
            model or ScriptedModel(),
            voice,
            PacedOutput(voice.tape, output, clears_on_interruption=clears_on_interruption),
            async_tools=async_tools,
            tools=tools or {},
            messages=context_messages,
            user_params=user_params,
            assistant_params=assistant_params,
            arrange=arrange,
            observer=self._recorder,
        )

    @property
    def now(self) -> float:
        """Seconds since the start of the call."""
        return asyncio.get_running_loop().time() - self._started_at

    def user_says(self, at: float, until: float, text: str | None) -> None:
        """The caller speaks.

        Args:
            at: When the caller starts, in seconds of the call.
            until: When the caller stops. Speech shorter than the voice detection's start delay is missed.
            text: The words; None for a cough.
        """
        caller = self.line.caller
        self._speech.append(UserSpeech(at, until, text))
        if until - at >= caller.start_secs:
            self.at(at + caller.start_secs, caller.report_voice_started)
            self.at(until + caller.stop_secs, caller.report_voice_stopped)
        if text is not None:
            self.at(until + caller.stt_secs, lambda: caller.report_words(text))

    def user_speaks(self, at: float, until: float, text: str | None = None) -> None:
        """The caller makes a sound: `user_says`, by default without words."""
        self.user_says(at, until, text)

    def user_hangs_up(self, at: float) -> None:
        """The caller is gone: the pipeline is cancelled, as bots do when a client disconnects."""
        self.at(at, self.line.worker.cancel)

    def call_ends(self, at: float) -> None:
        """The bot ends the call politely: what is queued is still played."""
        self.at(at, lambda: self.line.worker.queue_frame(EndFrame()))

    def bot_greets(self, text: str, at: float = 0.0) -> None:
        """The bot says something without having been asked, with a `TTSSpeakFrame`."""
        self.at(at, lambda: self.line.worker.queue_frame(TTSSpeakFrame(text)))

    def tool_finishes(
        self, name: str, *, at: float, result: Any = None, error: Exception | None = None, nth: int = 0
    ) -> None:
        """A scripted tool ends.

        Args:
            name: The tool's name.
            at: When; a run that starts later ends at once.
            result: What it returns.
            error: What it raises instead.
            nth: Which run of the tool, counted from 0; every retry is a run.
        """
        self._tool_script.finishes(name, nth, at, result, error)

    def tool_hangs(self, name: str) -> None:
        """The runs of a scripted tool that have no end never end."""
        self._tool_script.hangs(name)

    def model_says(
        self,
        text: str | Callable[[list[Message]], str] = "",
        *,
        when: When | None = None,
        calls: Sequence[Call] = (),
        run: int | None = None,
        times: int | None = None,
        **reply: Any,
    ) -> None:
        """The model has an answer; the first rule that matches decides, and "Okay." is the last.

        Args:
            text: What it says; a function makes it from the messages.
            when: Part of the newest message that is not the assistant's, or a predicate over all.
            calls: The tools it calls.
            run: Only in this run of the model, counted from 0.
            times: How often the rule may be used.
            **reply: The other fields of `Reply`.
        """
        answer = Reply(text=text, calls=calls, **reply)
        self.line.model.answers(answer, when=when, run=run, times=times)

    def at(self, at: float, callback: Action) -> None:
        """Call something at a time, also while the call runs. What it raises fails `run`.

        Args:
            at: When, in seconds of the call.
            callback: Called without arguments; if it returns an awaitable, that is awaited.
        """
        self._actions.append((at, callback))
        if self._origin is not None:
            self._schedule(at, callback)

    async def run(self, until: float = 20.0) -> Timeline:
        """Play the script, and cancel the pipeline at the end.

        Args:
            until: When to stop, in seconds of the call.

        Returns:
            What happened up to then.

        Raises:
            AssertionError: The pipeline reported an error, or a tool ran more often than the script knows.
            RuntimeError: The call has run before.
            VirtualTimeError: The running loop keeps real time.
        """
        loop = VirtualTimeLoop.running()
        if self._origin is not None:
            raise RuntimeError("a SimulatedCall can be run only once")
        self._origin = loop.time()
        token = running_script.set(self._tool_script)
        try:
            with self._recorder.listening_to_log(), seeded(self._seed):
                timeline = await self._play(until)
        finally:
            running_script.reset(token)
        timeline.errors = self._errors()
        self._raise_failures(timeline)
        return timeline

    async def _play(self, until: float) -> Timeline:
        worker = self.line.worker
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        try:
            await self._wait_for_start(running)
            for at, action in sorted(self._actions, key=lambda action: action[0]):
                self._schedule(at, action)
            await asyncio.sleep(until - self.now)
            timeline = self._timeline()
        finally:
            for performance in self._performances:
                performance.cancel()
            await worker.cancel()
            await running
        return timeline

    async def _wait_for_start(self, running: asyncio.Task[None]) -> None:
        """Wait until the pipeline runs, which takes no time."""
        started = asyncio.Event()

        def on_started(*_: object) -> None:
            started.set()

        self.line.worker.add_event_handler(  # pyright: ignore[reportUnknownMemberType]
            "on_pipeline_started", on_started
        )
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            raise RuntimeError(f"the pipeline did not start: {self._errors()}")
        if self.now > 0:
            raise RuntimeError(f"the pipeline took {self.now} s of the call to start")

    def _schedule(self, at: float, action: Action) -> None:
        self._performances.append(asyncio.create_task(self._perform(at, action)))

    async def _perform(self, at: float, action: Action) -> None:
        await asyncio.sleep(at - self.now)
        result = action()
        if inspect.isawaitable(result):
            await result

    def _timeline(self) -> Timeline:
        origin = self._started_at
        line, recorder = self.line, self._recorder
        record = read_record(self._async_tools, origin)
        return Timeline(
            ended_at=self.now,
            heard=[
                replace(u, started_at=u.started_at - origin, ended_at=u.ended_at - origin)
                for u in line.output.far_end.utterances(origin + self.now)
            ],
            user_speech=sorted(self._speech, key=lambda speech: speech.started_at),
            model_runs=[
                replace(r, at=r.at - origin, ended_at=None if r.ended_at is None else r.ended_at - origin)
                for r in line.model.runs
            ],
            tool_runs=[replace(run) for run in self._tool_script.runs],
            context=snapshot(line.context),
            interruptions=[at - origin for at in recorder.interruptions],
            errors=self._errors(),
            tellings=record.tellings,
            operations=record.operations,
            batches=record.batches,
            deliveries=record.deliveries,
            frames=[replace(frame, at=frame.at - origin) for frame in recorder.frames],
        )

    def _errors(self) -> list[CallError]:
        return [replace(error, at=error.at - self._started_at) for error in self._recorder.errors]

    def _raise_failures(self, timeline: Timeline) -> None:
        """Fail with the first exception of a scripted action, or with what went wrong in the call."""
        for performance in self._performances:
            if performance.done() and not performance.cancelled() and (e := performance.exception()):
                e.add_note(f"The call:\n{timeline}")
                raise e
        errors = [] if self._expect_errors else [error.error for error in timeline.errors]
        if problems := [*errors, *self._tool_script.missing()]:
            raise AssertionError("\n".join([*problems, "", "The call:", str(timeline)]))

    @property
    def _started_at(self) -> float:
        if self._origin is None:
            raise RuntimeError("the call has not started")
        return self._origin
