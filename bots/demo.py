# SPDX-License-Identifier: BSD-2-Clause
"""A whole call from recorded caller speech, in real time, in this process: no key, no network.

The caller asks for two things that are slow, speaks over the acknowledgement, waits, hears one update and
says thank you. The timeline is printed as it happens, the call is written as a stereo wav (caller left, bot
right), and the exit status says whether it came out as it should.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from bots.call import Call, build_call
from bots.clinic import CLINIC_URL, INSTRUCTIONS
from bots.clinic_service import Behaviour, ClinicService
from bots.inprocess import InProcessTransport, Line
from bots.services import offline_services
from bots.timeline import Timeline
from bots.verdict import CallFacts, barge_in_to_silence, judge

RECORDINGS = Path(__file__).parent / "recordings"
SLOTS_SECS, CUSTOMER_SECS = 6.0, 7.0
BARGE_IN_SECS = 2.6
"""How long the caller listens to the acknowledgement before speaking over it, into a word and not a pause."""

QUIET_SECS = 0.8
"""The silence after which the caller takes the bot to be done."""

PATIENCE_SECS = 20.0
"""The longest that the caller waits for anything."""

SESSION = "demo"
UPDATE = ("On Thursday there is 10:00 and 14:30.", "I have your record, Anna Bell, number 1042.")
ENDPOINTS = ("/slots", "/customers")


@dataclass(frozen=True)
class Caller:
    """The caller: says recordings, and reacts to nothing but what is heard on the line.

    Parameters:
        line: The line.
        timeline: Where the caller's speech is noted.
    """

    line: Line
    timeline: Timeline

    async def say(self, recording: str, words: str) -> None:
        """Say a recording to its end.

        Args:
            recording: The file's name without suffix.
            words: What it says.
        """
        self.timeline.add("caller", "starts", words)
        self.line.say(RECORDINGS / f"{recording}.wav")
        await self.until(lambda: not self.line.caller_is_talking)
        self.timeline.add("caller", "stops")

    async def hear_start(self, secs: float) -> None:
        """Wait until the bot has spoken for some seconds without a pause."""
        await self.until(lambda: self.line.bot_talking_secs >= secs)

    async def hear_end(self, after: Callable[[], float | None]) -> None:
        """Wait until the bot has spoken and is done.

        Args:
            after: Only speech that began after this time counts; None is not yet.
        """

        def done() -> bool:
            since = after()
            spoke = since is not None and self.line.bot_began_at > since
            return spoke and self.line.bot_quiet_secs >= QUIET_SECS

        await self.until(done)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds, for as long as the caller has patience."""
        async with asyncio.timeout(PATIENCE_SECS):
            while not condition():
                await asyncio.sleep(0.01)


def answered(line: Line, clinic: ClinicService) -> float | None:
    """When the back office had answered everything, in seconds on the line; None before."""
    times = [clinic.answered_at(path) for path in ENDPOINTS]
    return max(line.secs(at) for at in times if at) if all(times) else None


async def converse(caller: Caller, clinic: ClinicService) -> None:
    """What the caller says, and when.

    Args:
        caller: The caller.
        clinic: The back office: no update can be waited for before it has answered.
    """
    await caller.hear_end(after=lambda: 0.0)
    await caller.say("ask", "Have you got my record, and is there anything free on Thursday?")
    await caller.hear_start(BARGE_IN_SECS)
    await caller.say("hold_on", "Hold on a second, please.")
    await caller.hear_end(after=lambda: answered(caller.line, clinic))
    await caller.say("thanks", "Thank you for your help.")
    thanked_at = caller.line.now
    await caller.hear_end(after=lambda: thanked_at)


async def play(*, plain: bool, voice: str | None, wav: Path, report: Path | None) -> bool:
    """Play the call.

    Args:
        plain: Whether Pipecat runs the tools by itself, without the plug-in.
        voice: ``flite`` or ``tone``; None takes flite where it is installed.
        wav: Where the recording goes.
        report: Where the timeline goes as JSON, if wanted.

    Returns:
        Whether the call came out as it should.
    """
    line = Line()
    timeline = Timeline(lambda: line.now)
    async with (
        ClinicService(timeline.service_exchange) as clinic,
        offline_services(INSTRUCTIONS, voice) as services,
    ):
        os.environ[CLINIC_URL] = clinic.url
        clinic.script("/slots", Behaviour(delay_secs=SLOTS_SECS))
        clinic.script("/customers", Behaviour(delay_secs=CUSTOMER_SECS))
        transport = InProcessTransport(line)
        call = build_call(transport, services, session_id=SESSION, store=_fresh_store(wav), plain=plain)
        timeline.watch(call)
        running = asyncio.create_task(call.run())
        await call.greet()
        try:
            await converse(Caller(line, timeline), clinic)
        except TimeoutError:
            timeline.add("caller", "gives up", f"nothing came for {PATIENCE_SECS:g} s")
        facts = await _facts(call, line, timeline, clinic)
        await call.worker.cancel()
        await running
    line.write_wav(wav)
    return _report(facts, timeline, wav, report, plain=plain)


def _store_of(wav: Path) -> Path:
    return wav.with_suffix(".db")


def _fresh_store(wav: Path) -> str:
    """Return the URL of the call's store, next to the recording; what an earlier demo left is removed."""
    path = _store_of(wav)
    for leftover in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        leftover.unlink(missing_ok=True)
    return f"sqlite:///{path}"


async def _facts(call: Call, line: Line, timeline: Timeline, clinic: ClinicService) -> CallFacts:
    answered = [clinic.answered_at(path) for path in ENDPOINTS]
    return CallFacts(
        caller=bytes(line.caller),
        bot=bytes(line.bot),
        accepted=[moment.detail for moment in timeline.of("operation", "accepted")],
        answered=[None if at is None else line.secs(at) for at in answered],
        heard=[moment.detail for moment in timeline.moments if moment.what in ("was heard", "cut off")],
        update=UPDATE,
        deliveries=[delivery.state for delivery in call.async_tools.snapshot().deliveries]
        if call.async_tools
        else None,
    )


def _report(facts: CallFacts, timeline: Timeline, wav: Path, report: Path | None, *, plain: bool) -> bool:
    checks = judge(facts)
    print()
    for check in checks:
        print(f"{'ok ' if check.passed else 'NOT'}  {check.name}: {check.detail}")
    print(f"\nthe recording is in {wav}")
    if not plain:
        store = f"sqlite:///{_store_of(wav)}"
        print(f"what happened, and why: .venv/bin/pipecat-async-tools explain {SESSION} --store {store}")
    if report:
        data = {
            "plain": plain,
            "passed": all(check.passed for check in checks),
            "barge_in_to_silence_secs": barge_in_to_silence(facts.caller, facts.bot),
            "checks": [check._asdict() for check in checks],
            "timeline": timeline.as_json(),
        }
        report.write_text(json.dumps(data, indent=1) + "\n")
    return all(check.passed for check in checks)


def main(argv: Sequence[str] | None = None) -> int:
    """Play the demo call from the command line.

    Args:
        argv: The arguments; None takes those of the process.

    Returns:
        The exit status: 0 when the call came out as it should.
    """
    parser = argparse.ArgumentParser(prog="python -m bots.demo", description=__doc__)
    parser.add_argument("--plain", action="store_true", help="without the plug-in, for comparison")
    parser.add_argument(
        "--wav", type=Path, default=Path("demo.wav"), help="the recording (default: demo.wav)"
    )
    parser.add_argument("--voice", choices=("flite", "tone"), help="default: flite where it is installed")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the timeline and the verdict as JSON"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show Pipecat's log on stderr")
    options = parser.parse_args(argv)
    logger.remove()
    logger.add(sys.stderr, level="DEBUG" if options.verbose else "WARNING")
    playing = play(plain=options.plain, voice=options.voice, wav=options.wav, report=options.json)
    return 0 if asyncio.run(playing) else 1


if __name__ == "__main__":
    sys.exit(main())
