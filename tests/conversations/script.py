# SPDX-License-Identifier: BSD-2-Clause
"""How a conversation is written down, and played through one of three doors at one of many moments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipecat_async_tools import AsyncTools, Event, Store, TellingOptions, Wording, async_tool
from pipecat_async_tools.testing import (
    Call,
    NativeTool,
    SimulatedCall,
    Timeline,
    native_tool,
    run_virtual,
    scripted_tool,
)
from pipecat_async_tools.testing.tools import running_script
from tests.conversations.mind import Fact, Mind
from tests.conversations.providers import provider_problems
from tests.stores import memory_store

SESSION = "caller-1"


class Door(StrEnum):
    """How a slow tool comes into the bot."""

    ASYNC_TOOL = "async_tool"
    """Decorated with ``@async_tool``."""
    ADOPTED = "adopted"
    """Registered natively, ``cancel_on_interruption=False``, and adopted by the package."""
    PLAIN = "plain"
    """The same, without the package: Pipecat alone."""


OURS = (Door.ASYNC_TOOL, Door.ADOPTED)
NATIVE = (Door.ADOPTED, Door.PLAIN)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A slow tool, whatever the door.

    Parameters:
        name: As the model calls it.
        timeout_secs: Its deadline, kept by the package, or by Pipecat where it is alone.
        pipecat_timeout_secs: Pipecat's own deadline of a native function, also next to the package.
        reports: How often a native function reports its result.
        telling: How its outcome is told, as the application declares it.
        ignores_cancellation: An ``@async_tool`` whose work goes on after its deadline, as Pipecat's does.
    """

    name: str
    timeout_secs: float | None = None
    pipecat_timeout_secs: float | None = None
    reports: int = 1
    telling: Mapping[str, Any] = field(default_factory=dict)
    ignores_cancellation: bool = False

    def decorated(self) -> Any:
        timeout = {} if self.timeout_secs is None else {"timeout_secs": self.timeout_secs}
        options = {**self.telling, **timeout}
        if self.ignores_cancellation:
            return _stubborn_tool(self.name, **options)
        return scripted_tool(self.name, parameters={"asked": str}, **options)

    def native(self, door: Door) -> NativeTool:
        deadline = self.timeout_secs if door is Door.PLAIN else None
        handler = native_tool(self.name, reports=self.reports)
        return NativeTool(handler, timeout_secs=self.pipecat_timeout_secs or deadline)


class StagedCall(SimulatedCall):
    """A simulated call whose model has a mind of its own, the same for every door."""

    def __init__(self, door: Door, async_tools: AsyncTools | None, mind: Mind, **options: Any):
        super().__init__(async_tools, **options)
        self.door = door
        self.async_tools = async_tools
        self.mind = mind
        self.prop: Any = None
        self.seen: dict[str, Any] = {}

    def user_asks(
        self,
        text: str,
        *,
        at: float,
        until: float,
        answer: str = "Okay.",
        calls: Sequence[str] = (),
        thinks_secs: float = 0.3,
    ) -> None:
        """The caller says something the model answers, after some thought, perhaps by calling tools."""
        self.user_says(at=at, until=until, text=text)
        self.mind.answers[text] = answer
        made = [Call(name, {"asked": text}) for name in calls]
        self.model_says(self.mind.reply, when=text, calls=made, times=1, first_token_secs=thinks_secs)


Write = Callable[[StagedCall, float], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Conversation:
    """A conversation, written once and played through every door at every moment.

    Parameters:
        id: As in FIELD-CASES.md.
        title: What it is about.
        write: Scripts the call; gets the seconds by which the decisive moment is shifted.
        facts: What the caller must hear, exactly once, depending on the shift.
        may_hear: What the caller may hear, at most once.
        unwanted: What the caller must not hear.
        tools: The slow tools.
        runs: How often they run.
        shifts: Seconds by which the decisive moment is shifted; the first is 0.
        doors: The doors it makes sense for.
        until: When the recording ends.
        within_secs: Seconds from the last of result and caller's speech until the facts must be heard.
        options: Makes further options of the simulated call.
        cancels: Whether operations may end up cancelled.
        then: Scripts a second call of the same caller, which follows the first.
    """

    id: str
    title: str
    write: Write
    facts: Callable[[float], Sequence[Fact]]
    may_hear: Sequence[Fact] = ()
    unwanted: Sequence[Fact] = ()
    tools: Sequence[Tool]
    runs: int
    shifts: Sequence[float]
    doors: Sequence[Door] = tuple(Door)
    until: float = 15.0
    within_secs: float = 8.0
    options: Callable[[], Mapping[str, Any]] = dict
    cancels: bool = False
    then: Callable[[StagedCall], None] | None = None


@dataclass
class Performance:
    """A conversation as it went.

    Parameters:
        conversation_id: Which.
        door: Through which door.
        shift: With which shift.
        timeline: What happened.
        events: What the package wrote down, in seconds of the call.
        provider_problems: What OpenAI, Anthropic or Gemini would not accept in the history.
        seen: What the props and the script have noted.
    """

    conversation_id: str
    door: Door
    shift: float
    timeline: Timeline
    seen: Mapping[str, Any]
    events: list[Event] = field(default_factory=list)
    provider_problems: list[str] = field(default_factory=list)

    @property
    def conversation(self) -> Conversation:
        return CONVERSATIONS[self.conversation_id]

    @property
    def facts(self) -> Sequence[Fact]:
        return self.conversation.facts(self.shift)

    @property
    def outcomes(self) -> list[str]:
        """How the tellings ended, in order, also those that never made a sound."""
        tellings = [t for delivery in self.timeline.deliveries for t in delivery.tellings]
        unique = {telling.telling_id: telling for telling in tellings}
        return [t.outcome for t in sorted(unique.values(), key=lambda t: t.ended_at)]

    @property
    def story(self) -> str:
        """What became of the update: the kinds of a shifted race."""
        if not self.timeline.batches:
            return "native"
        waits = {e.reason for e in self.events if e.name == "on_delivery_waiting"}
        waited = [word for word, reason in _WAITS.items() if any(reason in r for r in waits)]
        return " ".join([*(f"waited:{word}" for word in waited), *self.outcomes])


_WAITS = {"caller": "caller is speaking", "bot": "bot is speaking"}

CONVERSATIONS: dict[str, Conversation] = {}
PERFORMED: dict[tuple[str, Door, float], Performance] = {}


def conversation(
    id: str,
    title: str,
    *,
    facts: Sequence[Fact] | Callable[[float], Sequence[Fact]],
    shifts: Sequence[float],
    tools: Sequence[Tool | str] = ("check_slots",),
    runs: int | None = None,
    **options: Any,
) -> Callable[[Write], Conversation]:
    """Write down a conversation: the decorated function scripts it."""

    def write(script: Write) -> Conversation:
        kept = Conversation(
            id=id,
            title=title,
            write=script,
            facts=facts if callable(facts) else lambda _: facts,
            tools=[tool if isinstance(tool, Tool) else Tool(name=tool) for tool in tools],
            runs=len(tools) if runs is None else runs,
            shifts=(0.0, *shifts),
            **options,
        )
        CONVERSATIONS[id] = kept
        return kept

    return write


async def play(
    conversation: Conversation,
    door: Door,
    shift: float = 0.0,
    *,
    attentive: bool = True,
    wording: Wording | None = None,
    store: Store | None = None,
) -> Performance:
    """Play a conversation.

    Args:
        conversation: Which.
        door: Through which door.
        shift: Seconds by which its decisive moment is shifted.
        attentive: Whether the model minds results that stand before the caller's last words.
        wording: What the package says.
        store: Remembers; None is one in memory.
    """
    store = memory_store() if store is None else store
    facts = (*conversation.facts(shift), *conversation.may_hear, *conversation.unwanted)
    mind = Mind(list(dict.fromkeys(facts)), attentive=attentive)
    call = _staged(conversation, door, mind, store, wording)
    conversation.write(call, shift)
    call.model_says(mind.reply)
    timeline = await call.run(until=conversation.until)
    timeline.operations = [_in_call_time(operation) for operation in timeline.operations]
    if conversation.then is not None:
        timeline = await _and_then(conversation, door, call, timeline, store, wording)
    return Performance(
        conversation_id=conversation.id,
        door=door,
        shift=shift,
        timeline=timeline,
        seen={**call.seen, **({"prop": call.prop.seen} if call.prop else {})},
        events=[_in_call_time(entry.event) for entry in await store.events(session_id=SESSION)],
        provider_problems=await provider_problems(call.line.context),
    )


def _staged(
    conversation: Conversation, door: Door, mind: Mind, store: Store, wording: Wording | None
) -> StagedCall:
    native = {} if door is Door.ASYNC_TOOL else {t.name: t.native(door) for t in conversation.tools}
    options = dict(conversation.options())
    prop = options.pop("prop", None)
    call = StagedCall(door, _async_tools(conversation, door, store, wording), mind, tools=native, **options)
    call.prop = prop
    return call


async def _and_then(
    conversation: Conversation,
    door: Door,
    first: StagedCall,
    before: Timeline,
    store: Store,
    wording: Wording | None,
) -> Timeline:
    """Play the second call, and put the two behind each other."""
    assert conversation.then is not None
    if first.async_tools is not None:
        await first.async_tools.stop()
    call = _staged(conversation, door, first.mind, store, wording)
    conversation.then(call)
    call.model_says(first.mind.reply)
    after = await call.run(until=conversation.until + 10.0)
    gap = before.ended_at
    after.heard = [
        *before.heard,
        *(replace(u, started_at=u.started_at + gap, ended_at=u.ended_at + gap) for u in after.heard),
    ]
    after.user_speech = [
        *before.user_speech,
        *(replace(s, started_at=s.started_at + gap, ended_at=s.ended_at + gap) for s in after.user_speech),
    ]
    after.tool_runs = [*before.tool_runs, *after.tool_runs]
    after.model_runs = [*before.model_runs, *after.model_runs]
    after.operations = [_in_call_time(o) for o in await store.operations(SESSION)]
    after.deliveries = await store.deliveries(SESSION)
    after.batches = before.batches
    return after


def _in_call_time(record: Any) -> Any:
    """The record with its times as seconds of the call: the store's clock counts from the epoch."""
    epoch = time.time() - asyncio.get_running_loop().time()
    times = {name: getattr(record, name, None) for name in ("at", "accepted_at", "started_at", "settled_at")}
    return replace(record, **{name: value - epoch for name, value in times.items() if value is not None})


def performed(conversation_id: str, door: Door, shift: float = 0.0) -> Performance:
    """Return a conversation as it goes; each is played once, on a virtual loop of its own."""
    key = (conversation_id, door, shift)
    if key not in PERFORMED:
        PERFORMED[key] = run_virtual(play(CONVERSATIONS[conversation_id], door, shift))
    return PERFORMED[key]


def _async_tools(
    conversation: Conversation, door: Door, store: Store, wording: Wording | None
) -> AsyncTools | None:
    if door is Door.PLAIN:
        return None
    deadlines = [tool.timeout_secs for tool in conversation.tools if tool.timeout_secs is not None]
    return AsyncTools(
        session_id=SESSION,
        tools=[t.decorated() for t in conversation.tools] if door is Door.ASYNC_TOOL else [],
        store=store,
        adopt=_adopted(conversation, door),
        adopted_timeout_secs=min(deadlines, default=120.0),
        wording=wording,
    )


def _adopted(conversation: Conversation, door: Door) -> Any:
    declared = {t.name: TellingOptions(**t.telling) for t in conversation.tools}
    return declared if door is Door.ADOPTED and any(t.telling for t in conversation.tools) else True


def _stubborn_tool(name: str, **options: Any) -> Any:
    async def handler(op: Any, asked: str) -> Any:
        work = asyncio.ensure_future(running_script.get().run(name, {"asked": asked}))
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():
                    raise

    handler.__name__ = name
    handler.__doc__ = f"Run {name}."
    return async_tool(**options)(handler)
