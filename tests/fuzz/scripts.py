# SPDX-License-Identifier: BSD-2-Clause
"""Conversations that nobody wrote: what they are made of, and the strategies that make them.

Times are seconds of the call, on a grid of 0.05 s. Callers like to speak near the moments at which something
changes: when a tool is called, when it ends, when an update begins or is being told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pipecat_async_tools.testing import OutputKind, VoiceKind

DoorName = Literal["async_tool", "adopted"]
Mood = Literal["speaks", "silent", "fails", "hangs"]

GRID_SECS = 0.05
TOOLS = ("rooms", "price", "record")
DAYS = ("mon", "tue")
FIRST_WORDS_UNTIL = 1.0

# From the end of the caller's words to the end of the turn: voice detection, and the pause after it.
TURN_END_SECS = 0.6
QUIET_SECS = 0.65
EMPTY_TURN_SECS = 2.2


class Readable:
    """Shows what differs from the defaults, so that it can be copied into a test."""

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if getattr(self, f.name) != _default(f)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"


def _default(of: Any) -> Any:
    return of.default_factory() if callable(of.default_factory) else of.default


@dataclass(frozen=True, kw_only=True, repr=False)
class Tool(Readable):
    """A slow tool.

    Parameters:
        name: As the model calls it.
        secs: How long each run takes; None for ever.
        words: How many words its result has.
        raises: Whether it raises at its end.
        reports: How often a native function reports its result.
        timeout_secs: Its deadline.
    """

    name: str
    secs: float | None = 2.0
    words: int = 2
    raises: bool = False
    reports: int = 1
    timeout_secs: float = 60.0

    def __str__(self) -> str:
        end = (
            "never ends"
            if self.secs is None
            else f"{'raises' if self.raises else 'ends'} after {self.secs:g} s"
        )
        doubled = f", reports {self.reports} times" if self.reports != 1 else ""
        deadline = f", has {self.timeout_secs:g} s" if self.timeout_secs < 60 else ""
        return f"tool {self.name} {end}{doubled}{deadline}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Sound(Readable):
    """One time the caller is heard: a question with all that the model makes of it, or a cough.

    Parameters:
        at: When it starts.
        until: When it ends.
        words: Whether it has words.
        calls: What the model calls for it: tool and day, such as "rooms mon".
        mood: What the model does.
        answer_words: How much the model says before it calls.
        thinks_secs: Seconds until its first word.
    """

    at: float
    until: float
    words: bool = True
    calls: tuple[str, ...] = ()
    mood: Mood = "speaks"
    answer_words: int = 2
    thinks_secs: float = 0.3

    def __str__(self) -> str:
        if not self.words:
            return f"caller makes a noise until {self.until:g}"
        model = {"speaks": f"says {self.answer_words} words", "silent": "says nothing"}.get(
            self.mood, self.mood
        )
        calls = f" and calls {', '.join(self.calls)}" if self.calls else ""
        return f"caller asks until {self.until:g}; the model {model}{calls} after {self.thinks_secs:g} s"

    @property
    def called_at(self) -> float:
        """When the model calls its tools, if nothing comes between."""
        return self.until + TURN_END_SECS + self.thinks_secs


@dataclass(frozen=True, kw_only=True, repr=False)
class Update(Readable):
    """What the model does when it is asked to tell an update.

    Parameters:
        mood: What it does.
        thinks_secs: Seconds until its first word.
        calls: What it calls after it has told.
    """

    mood: Mood = "speaks"
    thinks_secs: float = 0.3
    calls: tuple[str, ...] = ()

    def __str__(self) -> str:
        calls = f" and calls {', '.join(self.calls)}" if self.calls else ""
        return f"asked for an update, the model {self.mood}{calls} after {self.thinks_secs:g} s"


@dataclass(frozen=True, kw_only=True, repr=False)
class Voice(Readable):
    """The voice and its line.

    Parameters:
        kind: What it reports.
        secs_per_word: Seconds a word takes.
        first_audio_secs: Seconds until the first audio of a sentence.
        output: Whether the line plays from a buffer of its own.
    """

    kind: VoiceKind = "words"
    secs_per_word: float = 0.2
    first_audio_secs: float = 0.0
    output: OutputKind = "paced"

    def __str__(self) -> str:
        return (
            f"voice: {self.kind}, {self.secs_per_word:g} s a word, audio after {self.first_audio_secs:g} s, "
            f"{self.output}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Visit(Readable):
    """One call of the caller.

    Parameters:
        sounds: When the caller is heard.
        updates: What the model does when it is asked for updates, one after the other; then it speaks.
        hangs_up_at: When the caller hangs up; None waits until everything is told.
        greets_at: When the bot greets; None never.
        is_prompted: Whether the context begins with something to answer, as that of a bot that speaks first.
    """

    sounds: tuple[Sound, ...] = ()
    updates: tuple[Update, ...] = ()
    hangs_up_at: float | None = None
    greets_at: float | None = None
    is_prompted: bool = False

    @property
    def last_event(self) -> float:
        """When the caller was heard last."""
        return max([self.hangs_up_at or 0.0, *(sound.until for sound in self.sounds)])

    def lines(self) -> Iterator[tuple[float, str]]:
        """What happens when."""
        for sound in self.sounds:
            yield sound.at, str(sound)
        if self.greets_at is not None:
            yield self.greets_at, "bot greets"
        if self.hangs_up_at is not None:
            yield self.hangs_up_at, "caller hangs up"


@dataclass(frozen=True, kw_only=True, repr=False)
class Script(Readable):
    """A conversation: a call and perhaps, some time later, a second one of the same caller.

    Parameters:
        door: How the tools come into the bot.
        tools: The tools.
        voice: The voice and its line.
        first: The first call.
        again: The second call.
        gap_secs: Seconds between the hang-up and the second call.
        drain_secs: Seconds that operations may go on after the hang-up.
    """

    door: DoorName = "async_tool"
    tools: tuple[Tool, ...] = ()
    voice: Voice = field(default_factory=Voice)
    first: Visit = field(default_factory=Visit)
    again: Visit | None = None
    gap_secs: float = 1.0
    drain_secs: float = 1.0

    @property
    def visits(self) -> tuple[Visit, ...]:
        """The calls."""
        return (self.first,) if self.again is None else (self.first, self.again)

    def tool(self, name: str) -> Tool:
        """The tool with a name."""
        return next(tool for tool in self.tools if tool.name == name)

    def __str__(self) -> str:
        setting = [f"door: {self.door}", *map(str, self.tools), str(self.voice)]
        lines = ["; ".join(setting), *_told(self.first)]
        if self.again is not None:
            lines += [
                f"-- {self.gap_secs:g} s later, after {self.drain_secs:g} s of drain:",
                *_told(self.again),
            ]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let Hypothesis show it as a conversation, and as code."""
        printer.text(f"\n{self}\n{self!r}\n")


def _told(visit: Visit) -> Iterator[str]:
    for at, line in sorted(visit.lines()):
        yield f"{at:8.2f}  {line}"
    for update in visit.updates:
        yield f"{'':8}  {update}"


# Strategies


def _secs(least: float, most: float) -> SearchStrategy[float]:
    return st.integers(round(least / GRID_SECS), round(most / GRID_SECS)).map(_on_grid)


def _on_grid(steps: int) -> float:
    return round(steps * GRID_SECS, 2)


def _rounded(secs: float) -> float:
    return _on_grid(round(secs / GRID_SECS))


MOODS: SearchStrategy[Mood] = st.sampled_from(["speaks"] * 7 + ["silent", "fails", "hangs"])  # type: ignore[list-item]


@st.composite
def _tools(draw: DrawFn, door: DoorName) -> tuple[Tool, ...]:
    names = TOOLS[: draw(st.integers(1, 3))]
    return tuple(draw(_tool(name, door)) for name in names)


@st.composite
def _tool(draw: DrawFn, name: str, door: DoorName) -> Tool:
    kind = draw(st.sampled_from(["ends"] * 6 + ["at once", "raises", "hangs"]))
    secs = draw(_secs(0.05, 6.0))
    return Tool(
        name=name,
        secs={"at once": 0.0, "hangs": None}.get(kind, secs),
        words=draw(st.sampled_from([2, 1, 5, 9])),
        raises=kind == "raises",
        reports=2 if door == "adopted" and draw(st.sampled_from([False] * 4 + [True])) else 1,
        timeout_secs=draw(st.sampled_from([2.0, 4.0])) if kind == "hangs" else 60.0,
    )


def _calls(tools: Sequence[Tool], most: int = 3) -> SearchStrategy[tuple[str, ...]]:
    names = [f"{tool.name} {day}" for day in DAYS for tool in tools]
    return st.lists(st.sampled_from(names), max_size=most).map(tuple)


@st.composite
def _updates(draw: DrawFn, tools: Sequence[Tool]) -> tuple[Update, ...]:
    return tuple(draw(st.lists(_update(tools), max_size=3)))


@st.composite
def _update(draw: DrawFn, tools: Sequence[Tool]) -> Update:
    mood = draw(MOODS)
    again = mood == "speaks" and draw(st.sampled_from([False] * 5 + [True]))
    return Update(
        mood=mood,
        thinks_secs=draw(_secs(0.05, 2.5)),
        calls=draw(_calls(tools, most=1)) if again else (),
    )


@st.composite
def _sound(draw: DrawFn, at: float, tools: Sequence[Tool]) -> Sound:
    kind = draw(st.sampled_from(["noise", "chat", "question"]))
    if kind == "noise":
        return Sound(at=at, until=_rounded(at + draw(_secs(0.1, 1.5))), words=False)
    return draw(_question(at, tools if kind == "question" else ()))


@st.composite
def _question(draw: DrawFn, at: float, tools: Sequence[Tool]) -> Sound:
    return Sound(
        at=at,
        until=_rounded(at + draw(_secs(0.3, 1.5))),
        calls=draw(_calls(tools)) if tools else (),
        mood=draw(MOODS),
        answer_words=draw(st.sampled_from([2, 0, 1, 6, 14])),
        thinks_secs=draw(_secs(0.05, 2.5)),
    )


def _moments(
    sounds: Sequence[Sound], tools: Sequence[Tool], updates: Sequence[Update], voice: Voice
) -> list[float]:
    """When something is about to change, as far as that can be told beforehand."""
    found = []
    thinks = updates[0].thinks_secs if updates else 0.3
    for sound in sounds:
        found += [sound.until, sound.called_at]
        if not sound.words:
            # An empty turn is given up before Pipecat ends it: what is told then is told inside it.
            told = sound.until + EMPTY_TURN_SECS + thinks + voice.first_audio_secs
            found += [told, told + 2 * voice.secs_per_word, told + 1.0]
        said = sound.called_at + voice.first_audio_secs + sound.answer_words * voice.secs_per_word
        ends = [sound.called_at + t.secs for t in tools if t.secs is not None and _is_called(sound, t)]
        if ends:
            told = max(max(ends), said + 0.4) + QUIET_SECS + thinks + voice.first_audio_secs
            found += [*ends, told - thinks, told, told + 2 * voice.secs_per_word, told + 1.0]
    return sorted({_rounded(moment) for moment in found})


def _is_called(sound: Sound, tool: Tool) -> bool:
    return any(call.split()[0] == tool.name for call in sound.calls)


def _without_overlap(sounds: Sequence[Sound]) -> tuple[Sound, ...]:
    kept: list[Sound] = []
    for sound in sorted(sounds, key=lambda s: s.at):
        if not kept or sound.at >= kept[-1].until + GRID_SECS / 2:
            kept.append(sound)
    return tuple(kept)


@st.composite
def _visit(draw: DrawFn, tools: Sequence[Tool], voice: Voice, *, first: bool, may_hang_up: bool) -> Visit:
    updates = draw(_updates(tools))
    sounds = [draw(_question(0.5, tools))] if first else draw(st.lists(_question(2.0, tools), max_size=1))
    for _ in range(draw(st.integers(0, 4))):
        moments = _moments(sounds, tools, updates, voice) or [1.0]
        at = _rounded(draw(st.sampled_from(moments)) + draw(_secs(-0.6, 0.8)))
        sounds.append(draw(_sound(max(at, 0.3), tools)))
    sounds = list(_without_overlap(sounds))
    hangs_up_at = None
    if may_hang_up:
        moments = _moments(sounds, tools, updates, voice)
        hangs_up_at = max(_rounded(draw(st.sampled_from(moments)) + draw(_secs(-0.5, 1.5))), 0.5)
        sounds = [sound for sound in sounds if sound.until < hangs_up_at]
    greets_at = draw(st.sampled_from([None, 0.5, 1.0])) if not first else None
    return Visit(
        sounds=tuple(sounds),
        updates=updates,
        hangs_up_at=hangs_up_at,
        greets_at=greets_at,
        is_prompted=not first,
    )


@st.composite
def _voice(draw: DrawFn) -> Voice:
    return Voice(
        kind=draw(st.sampled_from(["words"] * 6 + ["sentences"] * 2 + ["silent"])),  # type: ignore[list-item]
        secs_per_word=draw(st.sampled_from([0.2, 0.1, 0.3])),
        first_audio_secs=draw(st.sampled_from([0.0] * 4 + [0.4, 1.6])),
        output=draw(st.sampled_from(["paced"] * 4 + ["unpaced"])),  # type: ignore[list-item]
    )


@st.composite
def scripts(draw: DrawFn) -> Script:
    """Make a conversation."""
    door: DoorName = draw(st.sampled_from(["async_tool", "adopted"]))  # type: ignore[list-item]
    tools, voice = draw(_tools(door)), draw(_voice())
    returns = draw(st.sampled_from([False] * 4 + [True]))
    first = draw(_visit(tools, voice, first=True, may_hang_up=returns))
    return Script(
        door=door,
        tools=tools,
        voice=voice,
        first=first,
        again=draw(_visit(tools, voice, first=False, may_hang_up=False)) if returns else None,
        gap_secs=draw(st.sampled_from([1.0, 0.1, 5.0])),
        drain_secs=draw(st.sampled_from([1.0, 0.0, 3.0])),
    )
