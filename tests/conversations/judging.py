# SPDX-License-Identifier: BSD-2-Clause
"""What came of a conversation: judged from what the far end heard, and held against the package's record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pipecat_async_tools import OperationStatus
from pipecat_async_tools.testing import Timeline
from tests.conversations.mind import Fact, words_of
from tests.conversations.script import Door, Performance


@dataclass(frozen=True)
class Verdict:
    """What the caller got.

    Parameters:
        lost: Facts that were never heard completely.
        doubled: Facts that were heard completely more than once.
        late: Facts that were heard, but not in time.
        talked_over: Whether the bot talked over the caller.
        stale: Facts that were heard, and were not to be.
    """

    lost: tuple[Fact, ...]
    doubled: tuple[Fact, ...]
    late: tuple[Fact, ...]
    talked_over: bool
    stale: tuple[Fact, ...] = ()

    @property
    def told_once(self) -> bool:
        """Whether every fact was heard once, in time."""
        return not (self.lost or self.doubled or self.late or self.stale)


def judge(performance: Performance) -> Verdict:
    """Judge a performance by ear."""
    timeline = performance.timeline
    counts = {fact: times_heard(timeline, fact) for fact in performance.facts}
    extra = {fact: times_heard(timeline, fact) for fact in performance.conversation.may_hear}
    due = decisive_moment(timeline) + performance.conversation.within_secs
    heard = [fact for fact, count in counts.items() if count]
    return Verdict(
        lost=tuple(fact for fact, count in counts.items() if count == 0),
        doubled=tuple(fact for fact, count in {**counts, **extra}.items() if count > 1),
        late=tuple(fact for fact in heard if heard_by(timeline, fact) > due),
        talked_over=bool(timeline.talked_over()),
        stale=tuple(f for f in performance.conversation.unwanted if times_heard(timeline, f)),
    )


def times_heard(timeline: Timeline, fact: Fact, until: float | None = None) -> int:
    """How often a fact was heard completely, in one go or in pieces."""
    heard = Counter(
        word for u in timeline.heard if until is None or u.ended_at <= until for word in words_of(u.text)
    )
    return min(heard[word] // count for word, count in Counter(fact.words).items())


def heard_by(timeline: Timeline, fact: Fact) -> float:
    """When a fact had been heard completely for the first time."""
    return next(u.ended_at for u in timeline.heard if times_heard(timeline, fact, u.ended_at))


def decisive_moment(timeline: Timeline) -> float:
    """From when on nothing but the bot itself stood in the way of telling."""
    ends = [run.ended_at for run in timeline.tool_runs if run.ended_at is not None]
    return max([*ends, *(speech.ended_at for speech in timeline.user_speech)])


def problems(performance: Performance) -> list[str]:
    """Everything about a performance through the package that must not be."""
    if performance.conversation.then is not None:
        # Two calls with a history each: what they are judged by is what was heard and done in both.
        return [*_by_ear(performance), *_effects(performance)]
    return [
        *_by_ear(performance),
        *_effects(performance),
        *_deliveries(performance),
        *_histories(performance),
    ]


def _by_ear(performance: Performance) -> Iterator[str]:
    verdict = judge(performance)
    for name in ("lost", "doubled", "late", "stale"):
        for fact in getattr(verdict, name):
            yield f"{name}: {fact.sentence!r}"
    for start, end in performance.timeline.talked_over():
        yield f"the bot talked over the caller from {start:.3f} to {end:.3f}"


def _effects(performance: Performance) -> Iterator[str]:
    timeline = performance.timeline
    if len(timeline.tool_runs) != performance.conversation.runs:
        yield f"the tools ran {len(timeline.tool_runs)} times"
    calls = [call for run in timeline.model_runs for call in run.calls]
    if len(calls) != performance.conversation.runs:
        yield f"the model made {len(calls)} calls"
    operations = [operation.tool_call_id for operation in timeline.operations]
    if performance.door is Door.ASYNC_TOOL and len(operations) != len(calls):
        yield f"{len(calls)} calls became {len(operations)} operations"
    if len(set(operations)) != len(operations):
        yield "a call became two operations"
    for operation in timeline.operations:
        if not operation.is_settled:
            yield f"{operation.tool} is still {operation.status}"
        if operation.status is OperationStatus.CANCELLED and not performance.conversation.cancels:
            yield f"{operation.tool} was cancelled"
    settled = Counter(e.operation_id for e in performance.events if e.name == "on_operation_settled")
    if any(times > 1 for times in settled.values()):
        yield "an operation was settled twice"


def _deliveries(performance: Performance) -> Iterator[str]:
    timeline = performance.timeline
    kinds: dict[str, list[bool]] = defaultdict(list)
    for delivery in timeline.deliveries:
        completed = sum(telling.outcome == "completed" for telling in delivery.tellings)
        if delivery.is_open:
            yield f"a delivery is still {delivery.state}: {delivery.reason}"
        elif completed != (delivery.state == "spoken"):
            yield f"a delivery that is {delivery.state} has {completed} completed tellings"
        kinds[delivery.batch_id].append(delivery.correction)
    for batch in timeline.batches:
        if not batch.closed:
            yield f"a batch is still open: it misses {batch.missing}"
        if not kinds[batch.batch_id] or not all(kinds[batch.batch_id][1:]):
            yield f"a batch has {len(kinds[batch.batch_id])} deliveries, and not all but the first correct it"
    announced = {operation_id for batch in timeline.batches for operation_id in batch.operation_ids}
    told = {o.operation_id for delivery in timeline.deliveries for o in delivery.operations}
    if announced != told:
        yield "what was announced is not what was delivered"


def _histories(performance: Performance) -> Iterator[str]:
    timeline = performance.timeline
    yield from timeline.history_problems()
    yield from performance.provider_problems
    if difference := context_difference(timeline):
        yield difference


def context_difference(timeline: Timeline) -> str:
    """How the assistant's text in the context differs from what was heard; empty if it does not.

    Pipecat's voice reports a word when it starts, so at each barge-in the context may hold the one word
    that was cut off.
    """
    known = [
        w for m in timeline.context if m["role"] == "assistant" for w in words_of(m.get("content") or "")
    ]
    heard = [words_of(utterance.text) for utterance in timeline.heard]
    cuts = Counter(sum(map(len, heard[: n + 1])) for n in range(len(heard)) if _was_cut(timeline, n))
    flat = [word for words in heard for word in words]
    # Each state is how many heard words are accounted for, and how many cut-off ones were let go there.
    states = {(0, 0)}
    for word in known:
        spoken = {(place + 1, 0) for place, _ in states if flat[place : place + 1] == [word]}
        cut_off = {(place, gone + 1) for place, gone in states if gone < cuts[place]}
        states = spoken | cut_off
    if any(place == len(flat) for place, _ in states):
        return ""
    return f"the context says {' '.join(known)!r}, heard was {' '.join(flat)!r}"


def _was_cut(timeline: Timeline, number: int) -> bool:
    ended_at = timeline.heard[number].ended_at
    return any(abs(ended_at - at) < 0.05 for at in timeline.interruptions)
