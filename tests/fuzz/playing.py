# SPDX-License-Identifier: BSD-2-Clause
"""Plays a script, and keeps what the rules need. All times are seconds from the start of the first call."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools import AsyncTools, Wording, async_tool
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.facts import all_heard, rest_of, squeezed
from pipecat_async_tools.delivery.wording import UPDATE_MARKER
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.snapshot import SessionSnapshot
from pipecat_async_tools.store.rows import DeliveryRow
from pipecat_async_tools.testing import (
    Call,
    NativeTool,
    ScriptedVoice,
    SimulatedCall,
    Timeline,
    native_tool,
    run_virtual,
)
from pipecat_async_tools.testing.model import newest_input, snapshot
from pipecat_async_tools.testing.tools import running_script
from tests.conversations.mind import Fact, Mind
from tests.conversations.providers import provider_problems
from tests.fuzz.scripts import DAYS, TOOLS, Script, Sound, Tool, Update, Visit
from tests.stores import memory_store

SESSION = "caller-1"
LEASE_SECS = 3.0
GREETING = "Hello again."

# A call is over when nothing is owed and nothing happened for so long.
_OVER_AFTER_SECS = 1.5
_LONGEST_WAIT_SECS = 45.0
_NTH = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
    *("thirty", "forty", "fifty", "sixty"),
)
_MOST_RUNS = len(_NTH)

_FILLER = "Well so here we go on and on with very little to say"
_NAMES = {
    "rooms": "amber birch cedar dune elder fern grove heath iris",
    "price": "jade karat lapis mica nickel onyx pearl quartz ruby",
    "record": "sparrow thrush urchin vole wren yak zebra otter lynx",
}


# What the caller is to hear


def found(tool: str, nth: int, words: int) -> str:
    """What a run of a tool finds: words that no other run finds."""
    # Names, so that an answer can be seen to have told them.
    return " ".join(f"{name.capitalize()}{_NTH[nth]}" for name in _NAMES[tool].split()[:words])


def success(tool: str, what: str) -> Fact:
    """What is said of a success."""
    return Fact(f"{tool.capitalize()}: {what}.", data=rf"\b{what}\b")


def mishap(tool: str, day: str, status: str) -> Fact:
    """What is said of a run that did not succeed."""
    kind = "failed" if status == "failed" else "cancelled" if status == "cancelled" else "unsure"
    statuses = "timed_out|unknown" if kind == "unsure" else kind
    data = rf'"tool": "{tool}", "arguments": {{"asked": "{day}"}}, "status": "({statuses})"'
    return Fact(f"{tool.capitalize()} {day}: {kind}{tool}{day} sadly{tool}{day}.", data=data)


def fact_of(operation: Operation) -> Fact:
    """What the caller is to hear of an operation."""
    if operation.status is OperationStatus.SUCCEEDED:
        return success(operation.tool, operation.result["found"])
    return mishap(operation.tool, operation.arguments["asked"], str(operation.status))


def _every_fact(tools: Sequence[Tool]) -> list[Fact]:
    names = [tool.name for tool in tools]
    return [
        *(success(t.name, found(t.name, nth, t.words)) for t in tools for nth in range(_MOST_RUNS)),
        *(
            mishap(n, day, status)
            for n in names
            for day in DAYS
            for status in ("failed", "unknown", "cancelled")
        ),
    ]


class FuzzWording(Wording):
    """Says an update just as the model does, so that it is known by ear whoever worded it."""

    def template(self, deliveries: Sequence[Envelope]) -> str:
        # What the model told before it was cut off can have stood in another order.
        left = [o for d in deliveries for o in d.told if not all_heard([o], d.heard)]
        sentences = dict.fromkeys(fact_of(o).sentence for o in left)
        text = " ".join(s for s in sentences if all(squeezed(s) not in squeezed(d.heard) for d in deliveries))
        return rest_of(text, " ".join(d.heard for d in deliveries)) or text


# What happened


@dataclass(frozen=True)
class Word:
    """A word at the far end.

    Parameters:
        text: The word.
        started_at: When it was first audible.
        ended_at: When it was last audible.
        share: How much of it was played.
        is_tail: Whether it is the rest of a word whose beginning was heard before.
    """

    text: str
    started_at: float
    ended_at: float
    share: float
    is_tail: bool


@dataclass
class Run:
    """A run of a tool's handler, as the tool itself saw it."""

    tool: str
    day: str
    started_at: float
    ended_at: float | None = None
    outcome: str = "running"


@dataclass(frozen=True)
class Heard:
    """One call as it went.

    Parameters:
        visit: Its script.
        origin: When it started.
        ended_at: When it was over.
        timeline: What happened, in seconds of this call.
        words: The words at the far end.
        provider_problems: What a provider would not accept in its history.
        snapshot: What the package held to be true at the very end.
    """

    visit: Visit
    origin: float
    ended_at: float
    timeline: Timeline
    words: list[Word]
    provider_problems: list[str]
    snapshot: Callable[[], SessionSnapshot]


@dataclass(frozen=True)
class Played:
    """A conversation as it went.

    Parameters:
        script: Its script.
        calls: Its calls.
        runs: The runs of the tools.
        deliveries: The deliveries in the store.
        operations: The operations in the store.
    """

    script: Script
    calls: list[Heard]
    runs: list[Run]
    deliveries: list[DeliveryRow]
    operations: list[Operation]

    def __str__(self) -> str:
        parts = [f"{self.script}", f"{self.script!r}"]
        for call in self.calls:
            parts += [f"-- call at {call.origin:.2f}, over at {call.ended_at:.2f}", str(call.timeline)]
        for row in self.deliveries:
            told = [f"{t.outcome} at {t.ended_at:.2f} after {t.heard!r}" for t in row.tellings]
            what = ", ".join(f"{o.tool} {o.arguments['asked']} {o.status}" for o in row.operations)
            parts.append(
                f"delivery of {what}: {row.state} ({row.reason}), ready at {row.ready_at:.2f}; {told}"
            )
        return "\n".join(parts)


def play(script: Script, *, change: Callable[[AsyncTools], None] | None = None) -> Played:
    """Play a script on a virtual loop of its own.

    Args:
        script: The script.
        change: Gets each `AsyncTools` before its call, to break it on purpose.
    """
    return run_virtual(_Stage(script, change).play())


class _Stage:
    def __init__(self, script: Script, change: Callable[[AsyncTools], None] | None):
        self._script = script
        self._change = change
        self._store = memory_store()
        self._runs: list[Run] = []
        self._questions = 0

    async def play(self) -> Played:
        script, calls, bots = self._script, [], []
        for visit in script.visits:
            if calls:
                await asyncio.sleep(max(0.0, calls[-1].ended_at + script.gap_secs - _now()))
            bots.append(self._async_tools())
            calls.append(await self._visit(visit, bots[-1]))
        for bot in bots:
            await bot.stop()
        deliveries = [_row_in_time(row) for row in await self._store.deliveries(SESSION)]
        operations = [_in_time(o) for o in await self._store.operations(SESSION)]
        await self._store.close()
        return Played(script, calls, self._runs, deliveries, operations)

    def _async_tools(self) -> AsyncTools:
        script = self._script
        ours = script.door == "async_tool"
        async_tools = AsyncTools(
            session_id=SESSION,
            tools=[self._decorated(tool) for tool in script.tools] if ours else [],
            store=self._store,
            adopted_timeout_secs=min((tool.timeout_secs for tool in script.tools), default=60.0),
            drain_secs=script.drain_secs,
            lease_secs=LEASE_SECS,
            wording=FuzzWording(),
        )
        if self._change:
            self._change(async_tools)
        return async_tools

    async def _visit(self, visit: Visit, async_tools: AsyncTools) -> Heard:
        script = self._script
        native = {} if script.door == "async_tool" else {t.name: self._native(t) for t in script.tools}
        voice = ScriptedVoice(
            script.voice.kind,
            secs_per_word=script.voice.secs_per_word,
            first_audio_secs=script.voice.first_audio_secs,
        )
        call = SimulatedCall(
            async_tools,
            tools=native,
            voice=voice,
            output=script.voice.output,
            context_messages=[{"role": "user", "content": "Hello."}] if visit.is_prompted else [],
            expect_errors=True,
        )
        mind = Mind(_every_fact(script.tools))
        origin, end = _now(), _End(call, async_tools, visit)
        self._write(call, mind, visit)
        call.at(visit.last_event + 0.5, end.wait)
        timeline = await call.run(until=end.limit)
        ended_at = end.at or visit.hangs_up_at or end.limit
        return Heard(
            visit=visit,
            origin=origin,
            ended_at=origin + ended_at,
            timeline=timeline,
            words=_words(call, origin + ended_at),
            provider_problems=await provider_problems(call.line.context),
            snapshot=async_tools.snapshot,
        )

    def _write(self, call: SimulatedCall, mind: Mind, visit: Visit) -> None:
        for update in visit.updates:
            self._write_update(call, mind, update)
        for sound in visit.sounds:
            self._write_sound(call, mind, sound)
        call.model_says(mind.reply)
        if visit.greets_at is not None:
            call.bot_greets(GREETING, at=visit.greets_at)
        if visit.hangs_up_at is not None:
            call.user_hangs_up(at=visit.hangs_up_at)

    def _write_sound(self, call: SimulatedCall, mind: Mind, sound: Sound) -> None:
        if not sound.words:
            call.user_speaks(sound.at, sound.until)
            return
        self._questions += 1
        text = f"Question {self._questions} please?"
        call.user_says(sound.at, sound.until, text)
        mind.answers[text] = (
            " ".join(_FILLER.split()[: sound.answer_words]) + "." if sound.answer_words else ""
        )
        call.model_says(
            _speech(mind, sound.mood, tells=bool(sound.answer_words)),
            when=text,
            times=1,
            calls=_made(sound.calls),
            **_mood(sound),
        )

    def _write_update(self, call: SimulatedCall, mind: Mind, update: Update) -> None:
        call.model_says(
            _speech(mind, update.mood, tells=True),
            when=lambda messages: newest_input(messages).startswith(UPDATE_MARKER),
            times=1,
            calls=_made(update.calls),
            **_mood(update),
        )

    def _decorated(self, tool: Tool) -> Any:
        async def handler(op: Any, asked: str) -> Any:
            return await self._work(
                tool, asked, lambda: running_script.get().run(tool.name, {"asked": asked})
            )

        handler.__name__ = tool.name
        handler.__doc__ = f"Run {tool.name}."
        return async_tool(timeout_secs=tool.timeout_secs)(handler)

    def _native(self, tool: Tool) -> NativeTool:
        inner = native_tool(tool.name, reports=tool.reports)

        async def handler(params: FunctionCallParams) -> None:
            await self._work(tool, params.arguments["asked"], lambda: inner(params))

        return NativeTool(handler)

    async def _work(self, tool: Tool, day: str, work: Callable[[], Awaitable[Any]]) -> Any:
        script = running_script.get()
        nth = sum(run.name == tool.name for run in script.runs)
        every = sum(run.tool == tool.name for run in self._runs)
        if tool.secs is None:
            script.hangs(tool.name)
        else:
            error = RuntimeError("the line is busy") if tool.raises else None
            result = {"found": found(tool.name, every, tool.words)}
            script.finishes(tool.name, nth, script._now() + tool.secs, result, error)
        run = Run(tool.name, day, _now())
        self._runs.append(run)
        try:
            answer = await work()
            run.outcome = "returned"
            return answer
        except asyncio.CancelledError:
            run.outcome = "cancelled"
            raise
        except Exception:
            run.outcome = "raised"
            raise
        finally:
            run.ended_at = _now()


class _End:
    """Ends a call when nothing is owed any more."""

    def __init__(self, call: SimulatedCall, async_tools: AsyncTools, visit: Visit):
        self.limit = visit.hangs_up_at + 0.1 if visit.hangs_up_at else visit.last_event + _LONGEST_WAIT_SECS
        self.at: float | None = None
        self._call = call
        self._async_tools = async_tools
        self._hangs_up = visit.hangs_up_at is not None

    async def wait(self) -> None:
        """Wait for the end, and hang up."""
        if self._hangs_up:
            return
        quiet_since = self._call.now
        while self._call.now < self.limit - 0.6:
            await asyncio.sleep(0.5)
            if self._something_goes_on():
                quiet_since = self._call.now
            elif self._call.now - quiet_since >= _OVER_AFTER_SECS:
                break
        self.at = self._call.now
        await self._call.line.worker.cancel()

    def _something_goes_on(self) -> bool:
        line, state = self._call.line, self._async_tools.snapshot()
        sounds = line.output.far_end._sounds
        return (
            any(delivery.is_open for delivery in state.deliveries)
            or any(not batch.closed for batch in state.batches)
            or any(not operation.is_settled for operation in state.operations)
            or any(run.ended_at is None for run in line.model.runs)
            or self._unanswered()
            or (bool(sounds) and sounds[-1].ended_at > _now())
        )

    def _unanswered(self) -> int:
        """How many calls have no answer in the context yet: it may wait behind the voice."""
        made = sum(len(run.calls) for run in self._call.line.model.runs)
        messages = snapshot(self._call.line.context)
        return made - sum(m["role"] == "tool" and m["content"] != "IN_PROGRESS" for m in messages)


def _speech(mind: Mind, mood: str, *, tells: bool) -> Any:
    return mind.reply if tells and mood == "speaks" else ""


def _made(calls: Sequence[str]) -> list[Call]:
    pairs = [call.split() for call in calls]
    assert all(name in TOOLS for name, _ in pairs)
    return [Call(name, {"asked": day}) for name, day in pairs]


def _mood(of: Sound | Update) -> dict[str, Any]:
    return {
        "first_token_secs": of.thinks_secs,
        "fails": RuntimeError("the model is away") if of.mood == "fails" else None,
        "hang": of.mood == "hangs",
    }


def _words(call: SimulatedCall, until: float) -> list[Word]:
    far_end = call.line.output.far_end
    tape, sounds = far_end._tape, [sound for sound in far_end._sounds if sound.started_at < until]
    played: Counter[int] = Counter()
    for sound in sounds:
        played[sound.number] += min(sound.ended_at, until) - sound.started_at
    return [
        Word(
            text=tape.word(sound.number),
            started_at=sound.started_at,
            ended_at=min(sound.ended_at, until),
            share=played[sound.number] / tape.secs(sound.number),
            # What does not fill a chunk of the output waits for the next sentence.
            is_tail=sound.number in {s.number for s in sounds[:place]},
        )
        for place, sound in enumerate(sounds)
    ]


def _row_in_time(row: DeliveryRow) -> DeliveryRow:
    operations = tuple(_in_time(operation) for operation in row.operations)
    return replace(row, ready_at=row.ready_at - _epoch(), operations=operations)


def _in_time(operation: Operation) -> Operation:
    times = {name: getattr(operation, name) for name in ("accepted_at", "started_at", "settled_at")}
    return replace(operation, **{name: at - _epoch() for name, at in times.items() if at is not None})


def _epoch() -> float:
    return time.time() - asyncio.get_running_loop().time()


def _now() -> float:
    return asyncio.get_running_loop().time()
