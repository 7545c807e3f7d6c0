# SPDX-License-Identifier: BSD-2-Clause
"""One conversation for every rig: two slow tools, a barge-in in the middle of the update, a retelling.

Everything is judged at the far end: from the line's recording, in which each word of the tone voice is one
tone and can be counted.
"""

import asyncio
import contextlib
import math
import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from pipecat.frames.frames import VADUserStartedSpeakingFrame
from pipecat.observers.base_observer import BaseObserver, FramePushed

from bots.call import Call, build_call
from bots.clinic import CLINIC_URL
from bots.clinic_service import Behaviour, ClinicService
from bots.demo import ENDPOINTS, Caller, answered
from bots.inprocess import SAMPLE_RATE, Line, utterances
from bots.timeline import Timeline

SLOW_SECS = 12.5
INTO_UPDATE_SECS = 1.2
RETELLING_SECS = 12.0
WINDOW = SAMPLE_RATE // 200


@dataclass(frozen=True)
class Figures:
    """What was measured of one conversation, in seconds; words are counted.

    Parameters:
        vad_start_secs: From the caller's first sound of the barge-in until the bot's ears noticed.
        barge_in_to_silence_secs: From that sound to the bot's last, at the far end.
        ready_to_audio_secs: From the last result to the first sound of the update, at the far end.
        quiet_secs: For how long nobody was heard before the update.
        words_heard: How many words of the update were heard before it was cut off.
        words_on_record: How many of them the record of the telling holds.
        words_in_history: How many of them the conversation holds.
        retold_words: How many words the retelling had.
        states: Of the deliveries.
        outcomes: Of the tellings that were not withdrawn.
    """

    vad_start_secs: float
    barge_in_to_silence_secs: float
    ready_to_audio_secs: float
    quiet_secs: float
    words_heard: int
    words_on_record: int
    words_in_history: int
    retold_words: int
    states: tuple[str, ...]
    outcomes: tuple[str, ...]


class Ears(BaseObserver):
    """Notes when the bot's voice detection noticed the caller."""

    def __init__(self, line: Line):
        super().__init__()
        self._line = line
        self._seen: set[int] = set()
        self.noticed: list[float] = []

    async def on_push_frame(self, data: FramePushed) -> None:
        frame = data.frame
        if isinstance(frame, VADUserStartedSpeakingFrame) and frame.id not in self._seen:
            self._seen |= {frame.id, frame.broadcast_sibling_id or frame.id}
            self.noticed.append(self._line.now)


def tones(pcm: bytes, start: float, end: float) -> int:
    """How many words of the tone voice were heard between two moments, one that was cut off among them."""
    samples = np.abs(np.frombuffer(pcm, np.int16)[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)])
    samples = samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW).max(axis=1)
    loud = samples > 700
    edges = np.flatnonzero(np.diff(loud.astype(int), prepend=0, append=0))
    spans = edges.reshape(-1, 2)
    merged: list[list[int]] = []
    for begin, stop in spans:
        if merged and begin - merged[-1][1] < 3:
            merged[-1][1] = int(stop)
        else:
            merged.append([int(begin), int(stop)])
    return sum(stop - begin >= 20 for begin, stop in merged)


@asynccontextmanager
async def clinic():
    """The back office with two slow answers."""
    async with ClinicService() as service:
        for path in ENDPOINTS:
            service.script(path, Behaviour(delay_secs=SLOW_SECS))
        os.environ[CLINIC_URL] = service.url
        try:
            yield service
        finally:
            del os.environ[CLINIC_URL]


async def converse(caller: Caller, service: ClinicService, told: Callable[[], bool]) -> None:
    """Play the caller, until the update is told or nothing more can be hoped for."""

    def update_began() -> bool:
        ready = answered(caller.line, service)
        return ready is not None and caller.line.bot_began_at > ready

    await caller.hear_end(after=lambda: 0.0)
    await caller.say("ask", "Have you got my record, and is there anything free on Thursday?")
    await caller.until(update_began)
    await caller.hear_start(INTO_UPDATE_SECS)
    barged_at = caller.line.now
    await caller.say("hold_on", "Hold on a second, please.")
    await caller.hear_end(after=lambda: barged_at + 1.0)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(RETELLING_SECS):
            while not told():
                await asyncio.sleep(0.05)


def measure(call: Call, line: Line, ears: Ears, service: ClinicService) -> Figures:
    """Measure a conversation that is over."""
    caller, bot = utterances(bytes(line.caller)), utterances(bytes(line.bot))
    ready = answered(line, service)
    barged = caller[-1][0]
    update = next(said for said in bot if said[0] >= ready)
    before = [end for _, end in (*caller, *bot) if end <= update[0]]
    stopped = next(said[1] for said in bot if said[0] < barged <= said[1] + 0.5)
    delivery = call.async_tools.snapshot().deliveries[0] if call.async_tools else None
    tellings = [t for t in delivery.tellings if t.outcome != "withdrawn"] if delivery else []
    cut_off = [t.heard for t in tellings if t.outcome != "completed"]
    retold = [t.heard for t in tellings if t.outcome == "completed"]
    return Figures(
        vad_start_secs=next((at for at in ears.noticed if at >= barged), math.inf) - barged,
        barge_in_to_silence_secs=stopped - barged,
        ready_to_audio_secs=update[0] - ready,
        quiet_secs=update[0] - max(before),
        words_heard=tones(bytes(line.bot), update[0], stopped),
        words_on_record=len(cut_off[0].split()) if cut_off else 0,
        words_in_history=_said_of_update(call),
        retold_words=len(retold[-1].split()) if retold else 0,
        states=tuple(d.state for d in call.async_tools.snapshot().deliveries) if call.async_tools else (),
        outcomes=tuple(t.outcome for t in tellings),
    )


def _told(call: Call) -> bool:
    states = [d.state for d in call.async_tools.snapshot().deliveries] if call.async_tools else []
    return bool(states) and all(state == "spoken" for state in states)


def _said_of_update(call: Call) -> int:
    """How many words of the update the history holds from before the barge-in."""
    said: list[str] = []
    for message in call.context.messages:
        text = message.get("content")
        if message["role"] == "user" and "hold on" in str(text).lower():
            break
        if message["role"] == "assistant" and text and str(text).startswith("On Thursday"):
            said += str(text).split()
    return len(said)


async def talk(transport, services, line: Line, *, marks=None, plain: bool = False) -> Figures:
    """Hold the conversation over a transport.

    Args:
        transport: Whose far end the line is.
        services: Of the bot.
        line: The line.
        marks: Of a phone line.
        plain: Whether Pipecat runs the tools by itself.

    Returns:
        What was measured.
    """
    async with clinic() as service:
        call = build_call(
            transport, services, session_id="rig", store="sqlite:///:memory:", marks=marks, plain=plain
        )
        ears = Ears(line)
        call.worker.add_observer(ears)
        running = asyncio.create_task(call.run())
        try:
            await call.greet()
            await converse(Caller(line, Timeline(lambda: line.now, out=None)), service, lambda: _told(call))
            return measure(call, line, ears, service)
        finally:
            await call.worker.cancel()
            await running
