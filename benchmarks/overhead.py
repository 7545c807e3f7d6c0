# SPDX-License-Identifier: BSD-2-Clause
"""What the four processors cost: for each frame that is none of theirs, and over a whole call.

Run it with ``python -m benchmarks.overhead``. It measures CPU time, everything side by side in one run and
in turns, and compares medians, so that a busy machine slows down both sides alike. The exit status is 1 if
an aim is missed:

- a passing frame (caller audio passes every processor, 50 times a second) costs the four processors together
  at most twice what one do-nothing Pipecat processor costs it;
- the demo call takes at most 2 % more CPU, for each second it lasts, with them than without; it lasts a
  little longer with them, since the update waits for its quiet window.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from loguru import logger
from pipecat.frames.frames import Frame, InputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_async_tools import AsyncTools

MAX_FRAME_RATIO = 2.0
MAX_CALL_RATIO = 1.02
AUDIO = bytes(640)


class DoesNothing(FrameProcessor):
    """Passes every frame, as most processors do with most frames."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Pass the frame."""
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)


class Counter(DoesNothing):
    """Knows when a frame has arrived."""

    def __init__(self) -> None:
        """Initialize with nothing arrived."""
        super().__init__(enable_direct_mode=True)
        self.arrived = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note and pass the frame."""
        await super().process_frame(frame, direction)
        if isinstance(frame, InputAudioRawFrame):
            self.arrived.set()


class Lane:
    """A pipeline whose passing time is measured.

    Args:
        name: What it is called in the table.
        processors: What stands between the two ends.
    """

    def __init__(self, name: str, processors: Sequence[FrameProcessor]):
        self.name = name
        self.micros: list[float] = []
        self._start = DoesNothing(enable_direct_mode=True)
        self._end = Counter()
        pipeline = Pipeline([self._start, *processors, self._end])
        self.worker = PipelineWorker(pipeline, enable_rtvi=False, idle_timeout_secs=None)
        self.started = asyncio.Event()

        @self.worker.event_handler("on_pipeline_started")
        async def on_pipeline_started(*_: object) -> None:
            self.started.set()

    async def measure(self, frames: int) -> None:
        """Send frames through, one at a time, and note the microseconds each took."""
        began = time.process_time()
        for _ in range(frames):
            self._end.arrived.clear()
            await self._start.push_frame(InputAudioRawFrame(AUDIO, 16000, 1))
            await self._end.arrived.wait()
        self.micros.append((time.process_time() - began) / frames * 1e6)

    def micros_more_than(self, empty: "Lane") -> float:
        """The median of what a frame takes here more than on an empty lane, round by round."""
        return statistics.median(here - there for here, there in zip(self.micros, empty.micros))


async def measure_frames(rounds: int, frames: int) -> bool:
    """Measure a passing frame, print the table, and return whether the aim was met."""
    async_tools = AsyncTools(session_id="benchmark", store="sqlite:///:memory:")
    lanes = [
        empty := Lane("nothing in between", []),
        queued := Lane("4 do-nothing, queued", [DoesNothing() for _ in range(4)]),
        direct := Lane("4 do-nothing, direct", [DoesNothing(enable_direct_mode=True) for _ in range(4)]),
        ours := Lane("our 4", [*async_tools.processors(), async_tools.playback()]),
    ]
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(*(lane.worker for lane in lanes))
    running = asyncio.create_task(runner.run())
    for lane in lanes:
        await lane.started.wait()
        await lane.measure(frames)
        lane.micros.clear()
    for number in range(rounds):
        for lane in lanes if number % 2 else reversed(lanes):
            await lane.measure(frames)
    for lane in lanes:
        await lane.worker.cancel()
    await running

    one_queued = queued.micros_more_than(empty) / 4
    one_direct = direct.micros_more_than(empty) / 4
    all_ours = ours.micros_more_than(empty)
    print(f"A passing frame, CPU, median of {rounds} rounds of {frames} frames")
    print(f"  one do-nothing processor, queued   {one_queued:7.2f} µs")
    print(f"  one do-nothing processor, direct   {one_direct:7.2f} µs")
    print(f"  our four processors together       {all_ours:7.2f} µs")
    aim = f"aim: at most {MAX_FRAME_RATIO:g}"
    print(f"  ratio to one queued                {all_ours / one_queued:7.2f}    {aim}")
    print(f"  ratio to one direct                {all_ours / one_direct:7.2f}")
    return all_ours <= MAX_FRAME_RATIO * one_queued


@dataclass(frozen=True)
class DemoCost:
    """What a demo call took.

    Parameters:
        cpu_secs: CPU of its process, start-up included.
        call_secs: How long the call was.
        silence_secs: From the caller's barge-in to the last audible sound of the bot.
    """

    cpu_secs: float
    call_secs: float
    silence_secs: float

    @property
    def per_second(self) -> float:
        """CPU seconds for each second of the call."""
        return self.cpu_secs / self.call_secs


def play_demos(modes: Sequence[tuple[str, ...]], folder: Path) -> list[DemoCost]:
    """Play demo calls at the same time, one on each core, and return what each took."""
    started: list[tuple[subprocess.Popen[bytes], Path, Path]] = []
    for number, mode in enumerate(modes):
        wav, report = folder / f"{number}.wav", folder / f"{number}.json"
        command = [sys.executable, "-m", "bots.demo", *mode, "--wav", str(wav), "--json", str(report)]
        quiet = subprocess.DEVNULL
        started.append((subprocess.Popen(command, stdout=quiet, stderr=quiet), wav, report))
    return [_cost(*demo) for demo in started]


def _cost(process: subprocess.Popen[bytes], wav: Path, report: Path) -> DemoCost:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("a demo call did not come out right; run make demo to see it")
    with wave.open(str(wav)) as sound:
        call_secs = sound.getnframes() / sound.getframerate()
    silence_secs = json.loads(report.read_text())["barge_in_to_silence_secs"]
    return DemoCost(usage.ru_utime + usage.ru_stime, call_secs, silence_secs)


def measure_demo(rounds: int) -> bool:
    """Play the demo with and without the package, print the table, and return whether the aim was met."""
    without: list[DemoCost] = []
    with_it: list[DemoCost] = []
    with TemporaryDirectory() as folder:
        for _ in range(rounds):
            plain, ours = play_demos([("--plain",), ()], Path(folder))
            without.append(plain)
            with_it.append(ours)
    ratio = statistics.median(a.per_second / b.per_second for a, b in zip(with_it, without))
    print(f"The demo call, CPU for each second of the call, median of {rounds} pairs")
    for name, costs in (("without the package", without), ("with it", with_it)):
        millis = statistics.median(c.per_second for c in costs) * 1000
        silence = statistics.median(c.silence_secs for c in costs) * 1000
        print(f"  {name:<34} {millis:7.1f} ms    barge-in to silence {silence:.0f} ms")
    print(f"  ratio                              {ratio:7.3f}    aim: at most {MAX_CALL_RATIO:g}")
    return ratio <= MAX_CALL_RATIO


def main() -> int:
    """Measure both, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=21, help="rounds of each measurement")
    parser.add_argument("--demos", type=int, default=5, help="pairs of demo calls, half a minute each")
    parser.add_argument("--frames", type=int, default=2000, help="frames a round")
    options = parser.parse_args()
    logger.remove()
    met = [asyncio.run(measure_frames(options.rounds, options.frames)), measure_demo(options.demos)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
