# SPDX-License-Identifier: BSD-2-Clause
"""The rules of DESIGN.md, section 3, judged from what the far end heard and from the script.

Each rule yields one sentence for each time it was broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.store.rows import DeliveryRow
from pipecat_async_tools.testing import Timeline, Utterance
from pipecat_async_tools.testing.output import HEARD_SHARE, UTTERANCE_GAP_SECS
from tests.conversations.judging import context_difference, times_heard
from tests.conversations.mind import Fact, words_of
from tests.fuzz.playing import LEASE_SECS, Heard, Played, Run, Word, fact_of, found, success
from tests.fuzz.scripts import QUIET_SECS, TURN_END_SECS, Sound

CHUNK_SECS = 0.04
"""What Pipecat's output writes at a time."""
GRACE_SECS = 0.3
"""Within which a quick call is not announced (`BatchPolicy`)."""
VAD_SECS = 0.2
"""Until the voice detection of `testing.Caller` is sure, of speech and of silence."""
ROUNDING_SECS = 1e-3

# What the package waits for before it takes something for lost (`ClockParams`).
_ANSWER_SECS, _SILENT_TURN_SECS, _RESPONSE_SECS, _AUDIO_SECS = 3.0, 2.0, 10.0, 3.0
# Until Pipecat's output reports that the bot has stopped.
_BOT_STOP_SECS = 0.45
_GREETING_SECS = 5.0
_SETTLE_SECS = 5.0
_ECHO_SECS = 1.0
_ECHO_PATIENCE_SECS = 20.0
_STORM_SECS = 30.0
_PATIENCE_SECS = 1.0
_ACKNOWLEDGEMENT = ("one moment, i'm",)

Interval = tuple[float, float]


def problems(played: Played) -> list[str]:
    """Everything about a conversation that must not be."""
    if any(_is_outrun(call) for call in played.calls):
        return []
    return [f"{rule.__name__}: {problem}" for rule in RULES for problem in rule(played)]


def _is_outrun(call: Heard) -> bool:
    """Whether the caller went on in the very instant in which the model was asked.

    Pipecat's interruption then overtakes the request, and nothing stops the answer to a turn that goes on.
    """
    runs = [run.at for run in call.timeline.model_runs if not run.interrupted]
    return any(abs(at - cut) < ROUNDING_SECS for at in runs for cut in call.timeline.interruptions)


# By ear: when


@dataclass(frozen=True)
class Speech:
    """Words of the bot without a pause between them."""

    words: tuple[Word, ...]

    @property
    def started_at(self) -> float:
        return self.words[0].started_at

    @property
    def ended_at(self) -> float:
        return self.words[-1].ended_at

    @property
    def text(self) -> str:
        return self.heard()

    def heard(self, *, least: float = 0.0, cuts: Sequence[float] = (), margin_secs: float = 0.0) -> str:
        """The words of which at least this much was played, each once, and none that was being cut off.

        Args:
            least: The share of a word.
            cuts: When something was cut off.
            margin_secs: Whether a word that ended so shortly before counts as cut off.
        """
        return " ".join(
            word.text
            for word in self.words
            if word.share >= least - ROUNDING_SECS
            and not word.is_tail
            and not any(
                word.started_at + ROUNDING_SECS < at < word.ended_at + margin_secs - ROUNDING_SECS
                for at in cuts
            )
        )


def speeches(call: Heard) -> list[Speech]:
    """What the bot was heard to say in a call."""
    groups: list[list[Word]] = []
    for word in call.words:
        if not groups or word.started_at - groups[-1][-1].ended_at > UTTERANCE_GAP_SECS:
            groups.append([])
        groups[-1].append(word)
    return [Speech(tuple(group)) for group in groups]


def never_over_the_caller(played: Played) -> Iterator[str]:
    """Rule 13: nothing of ours begins while the caller is known to speak, and each telling stops at once."""
    for call in played.calls:
        ours = [speech for speech in speeches(call) if _is_ours(speech, played)]
        for start, end in _known_speech(call):
            for speech in ours:
                if start + CHUNK_SECS + ROUNDING_SECS < speech.started_at < end:
                    yield f"{speech.text!r} begins at {speech.started_at:.2f}, the caller since {start:.2f}"
                elif speech.started_at <= start and speech.ended_at > start + CHUNK_SECS + ROUNDING_SECS:
                    yield f"{speech.text!r} goes on to {speech.ended_at:.2f}, the caller since {start:.2f}"


def _known_speech(call: Heard) -> list[Interval]:
    return [
        (call.origin + sound.at + VAD_SECS, call.origin + sound.until + VAD_SECS)
        for sound in call.visit.sounds
        if _is_noticed(sound) and call.origin + sound.at + VAD_SECS < call.ended_at
    ]


def _is_noticed(sound: Sound) -> bool:
    return sound.until - sound.at >= VAD_SECS


def _is_ours(speech: Speech, played: Played) -> bool:
    said = set(words_of(speech.text))
    owed = {word for fact in _owed(played) for word in _own_words(fact)}
    return bool(said & owed) or speech.text.lower().startswith(_ACKNOWLEDGEMENT)


def _owed(played: Played) -> list[Fact]:
    owed = (fact_of(o) for row in played.deliveries for o in row.operations if not o.silent)
    return list(dict.fromkeys(owed))


def _own_words(fact: Fact) -> list[str]:
    """The words that no other fact has."""
    return [word for word in fact.words if word not in ("rooms", "price", "record", "mon", "tue")]


def never_before_it_is_true(played: Played) -> Iterator[str]:
    """Rule 1: no result is said before its tool has ended."""
    ended = [(run.tool, run.ended_at) for run in played.runs if run.outcome == "returned"]
    for operation in _told_operations(played):
        if operation.status is not OperationStatus.SUCCEEDED:
            continue
        words = _own_words(fact_of(operation))
        said = [w.started_at for c in played.calls for w in c.words if set(words_of(w.text)) & set(words)]
        known = [at for tool, at in ended if tool == operation.tool]
        if said and min(said) < min(known, default=0.0):
            yield f"{words} is said at {min(said):.2f}, and {operation.tool} has not ended"


# By ear: how often


def _as_heard(calls: Sequence[Heard], *, wholly: bool, margin_secs: float = 0.0) -> Timeline:
    """A timeline with the words that were heard, either well enough or to their very end."""
    heard, every_cut = [], []
    for call in calls:
        cuts = [call.origin + at for at in call.timeline.interruptions] + [call.ended_at]
        every_cut += [at - call.origin for at in cuts]
        for s in speeches(call):
            text = (
                s.heard(least=1.0, cuts=cuts, margin_secs=margin_secs)
                if wholly
                else s.heard(least=HEARD_SHARE)
            )
            heard.append(Utterance(s.started_at - call.origin, s.ended_at - call.origin, text))
    return replace(calls[0].timeline, heard=heard, interruptions=every_cut)


def told_once(played: Played) -> Iterator[str]:
    """Rules 3 and 7: what is owed is heard once, or it is honestly on record why not."""
    # Of a word that ends with a cut nobody can know for sure: said again, it is not told twice.
    surely = _as_heard(played.calls, wholly=True, margin_secs=2 * CHUNK_SECS)
    well_enough = _as_heard(played.calls, wholly=False)
    for fact in _owed(played):
        if _is_native(fact, played):
            continue
        rows = _deliveries_of(fact, played)
        most, least = times_heard(well_enough, fact), times_heard(surely, fact)
        spoken = sum(row.state == "spoken" for row in rows)
        # What several runs failed of sounds the same, and is said once for all that are told together.
        in_part = sum(row.state != "spoken" and _was_cut_off(row) for row in rows)
        # The words of a voice whose audio lags count once all of it was played: rather said again.
        lagging = sum(_was_begun(row) for row in rows) if _lags(played) else 0
        if least > spoken + max(in_part, lagging) or most < min(spoken, 1):
            yield f"{fact.sentence!r} was heard {most} times, and is {[row.state for row in rows]}"


def _deliveries_of(fact: Fact, played: Played) -> list[DeliveryRow]:
    """The deliveries that tell it."""
    return [
        row for row in played.deliveries if any(not o.silent and fact_of(o) == fact for o in row.operations)
    ]


def _was_cut_off(row: DeliveryRow) -> bool:
    """Whether it may have been heard in part."""
    return any(telling.outcome == "interrupted" for telling in row.tellings)


def _lags(played: Played) -> bool:
    """Whether the audio of the voice comes later than its words say, as when it waits for the model."""
    voice = played.script.voice
    return voice.first_audio_secs > 0 or voice.secs_per_word < 0.2


def _was_begun(row: DeliveryRow) -> bool:
    """Whether something of it may have been heard in an attempt that does not count."""
    return any(t.outcome in ("interrupted", "withdrawn") and t.started_at is not None for t in row.tellings)


def _is_native(fact: Fact, played: Played) -> bool:
    """Whether the model found it in the answer of a call: then it was Pipecat's to tell."""
    found = fact.sentence.split(": ")[1].rstrip(".")
    return any(
        message["role"] == "tool" and found in (message.get("content") or "")
        for call in played.calls
        for message in call.timeline.context
    )


def honestly_accounted(played: Played) -> Iterator[str]:
    """Rules 3 and 8: spoken has one completed telling, and what was not spoken has a reason that holds."""
    for row in played.deliveries:
        completed = sum(telling.outcome == "completed" for telling in row.tellings)
        attempts = sum(telling.outcome != "withdrawn" for telling in row.tellings)
        if completed != (row.state == "spoken"):
            yield f"a delivery that is {row.state} has {completed} completed tellings"
        if row.state in ("telling", "suppressed") and row.reason != "answered at once":
            yield f"a delivery is {row.state}: {row.reason}"
        if row.state == "undeliverable" and attempts < 4:
            yield f"a delivery was given up after {attempts} attempts"
    for batch_id, count in Counter(row.batch_id for row in played.deliveries if not row.correction).items():
        if count > 1:
            yield f"the batch {batch_id} has {count} deliveries"


def heard_on_record(played: Played) -> Iterator[str]:
    """Rule 7: what the record holds for heard was audible, in order, before the telling was over."""
    for row in played.deliveries:
        for telling in row.tellings:
            said = [
                spoken
                for call in played.calls
                for word in call.words
                if word.started_at <= telling.ended_at and not word.is_tail
                for spoken in words_of(word.text)
            ]
            audible = iter(said)
            missing = [word for word in words_of(telling.heard) if word not in audible]
            if len(missing) > _ahead(played):
                yield f"{telling.heard!r} is on record for {telling.outcome}, and nobody heard {missing}"


def _ahead(played: Played) -> int:
    """How many words a voice whose audio lags can be ahead, where nobody sees how fast it is played."""
    voice = played.script.voice
    return 1 if voice.output == "unpaced" and _lags(played) else 0


def nothing_lost(played: Played) -> Iterator[str]:
    """Rule 13: every result that a tool returned is owed, or answered its call by itself."""
    owed = [fact.sentence for fact in _owed(played)]
    for nth, run in enumerate(played.runs):
        tool = played.script.tool(run.tool)
        before = sum(other.tool == run.tool for other in played.runs[:nth])
        fact = success(tool.name, found(tool.name, before, tool.words))
        is_known = fact.sentence in owed or _is_native(fact, played)
        if run.outcome == "returned" and not is_known and not _ended_with_its_call(run, played):
            yield f"{fact.sentence!r}, found at {run.ended_at:.2f}, is neither owed nor in an answer"


def _ended_with_its_call(run: Run, played: Played) -> bool:
    """Whether an adopted function was not accepted when the caller hung up, or its answer was on its way.

    What is quick goes Pipecat's own way, and ends where that ends.
    """
    quick = run.ended_at - run.started_at <= GRACE_SECS
    cut_short = any(0 <= call.ended_at - run.started_at <= GRACE_SECS for call in played.calls)
    hangs_up = any(call.visit.hangs_up_at is not None for call in played.calls)
    return played.script.door == "adopted" and (cut_short or (quick and hangs_up))


# Waiting


def bounded_waiting(played: Played) -> Iterator[str]:
    """Rule 12: once the channel is free, an update waits for its settle time plus one second."""
    for row in [row for row in played.deliveries if row.state != "suppressed"]:
        for call, ready in _present(row, played):
            for start, end in _free(call, ready, _told_at(row, call)):
                limit = _settle_secs(row, start) + _PATIENCE_SECS + _holding_back_secs(row, call, start)
                # A template is with the voice at once, and the voice takes its time.
                limit += played.script.voice.first_audio_secs
                if played.script.voice.kind == "silent":
                    # An attempt by template leaves no trace but the time that is waited for its sound.
                    limit = 2 * (limit + _AUDIO_SECS)
                if end - start > limit + ROUNDING_SECS:
                    yield f"an update ready at {row.ready_at:.2f} waits from {start:.2f} to {end:.2f}"


def _present(row: DeliveryRow, played: Played) -> Iterator[tuple[Heard, float]]:
    """The calls in which it can be told, each with the moment from which it can."""
    for number, call in enumerate(played.calls):
        if number == 0 and row.ready_at < call.ended_at:
            yield call, row.ready_at
        elif number == 1:
            let_go = played.calls[0].ended_at + played.script.drain_secs + LEASE_SECS / 3 + 0.5
            yield call, max(row.ready_at, let_go, call.origin + 0.5)


def _told_at(row: DeliveryRow, call: Heard) -> float:
    """When it needs no more telling."""
    over = [t.ended_at for t in row.tellings if t.outcome == "completed"]
    if row.state == "undeliverable":
        over = [max(t.ended_at for t in row.tellings)]
    return min([call.ended_at, *over])


def _settle_secs(row: DeliveryRow, at: float) -> float:
    attempts = sum(t.outcome != "withdrawn" and t.ended_at <= at + 0.2 for t in row.tellings)
    return min(QUIET_SECS * (1 + attempts), _SETTLE_SECS)


def _holding_back_secs(row: DeliveryRow, call: Heard, at: float) -> float:
    """How long it waits for the caller's next turn: an echo is suspected, or the bot is interrupted anew."""
    counted = [t for t in row.tellings if t.outcome != "withdrawn" and t.ended_at <= at + 0.2][-2:]
    at_once = [t for t in counted if t.outcome == "interrupted" and t.ended_at - t.started_at <= _ECHO_SECS]
    lately = [i for i in _interruptions(call) if at - _STORM_SECS <= i <= at]
    return max(_ECHO_PATIENCE_SECS if len(at_once) == 2 else 0.0, _STORM_SECS if len(lately) >= 4 else 0.0)


def _interruptions(call: Heard) -> list[float]:
    return [call.origin + at for at in call.timeline.interruptions]


def _free(call: Heard, since: float, until: float) -> Iterator[Interval]:
    """When nothing stands in the way of telling."""
    busy = sorted([(-1.0, since), *_busy(call), (until, until + 1.0)])
    free_from = since
    for start, end in busy:
        if since < start <= until and start > free_from:
            yield free_from, start
        free_from = max(free_from, end)


def _busy(call: Heard) -> Iterator[Interval]:
    yield from _busy_caller(call)
    yield from _busy_model(call)
    for word in call.words:
        yield word.started_at, word.ended_at + _BOT_STOP_SECS
    if call.origin > 0:
        yield call.origin, min([call.origin + _GREETING_SECS, *(w.started_at for w in call.words)])


def _busy_caller(call: Heard) -> Iterator[Interval]:
    for sound in call.visit.sounds:
        if _is_noticed(sound):
            open_secs = TURN_END_SECS if sound.words else VAD_SECS + _SILENT_TURN_SECS
            yield call.origin + sound.at, call.origin + sound.until + open_secs


def _busy_model(call: Heard) -> Iterator[Interval]:
    for run in call.timeline.model_runs:
        at = call.origin + run.at
        over = call.ended_at if run.ended_at is None else call.origin + run.ended_at
        # One that never ends holds up the next ones too: then the template speaks.
        over = min(over, at + 4 * (_RESPONSE_SECS + _SETTLE_SECS))
        if not run.text.strip():
            over = max(over, at + _ANSWER_SECS)
        elif not _sounds_between(call, at, over + _AUDIO_SECS):
            over += _AUDIO_SECS
        else:
            over = max(over, *_sounds_between(call, at, over + _AUDIO_SECS)[:1])
        yield at, over


def _sounds_between(call: Heard, start: float, end: float) -> list[float]:
    return [word.started_at for word in call.words if start < word.started_at <= end]


# Histories


def valid_histories(played: Played) -> Iterator[str]:
    """Rule 6: each call is answered once, next to it, as the providers want it."""
    for call in played.calls:
        yield from call.timeline.history_problems()
        yield from call.provider_problems


def history_is_what_was_heard(played: Played) -> Iterator[str]:
    """Rule 6: history holds what the caller could have heard."""
    voice = played.script.voice
    if voice.kind != "words" or voice.output != "paced" or _lags(played):
        # There Pipecat itself writes down whole sentences, or words ahead of their audio: a voice that is
        # faster than the model has gaps between its sentences, in which the clock of its words goes on.
        return
    for call in played.calls:
        difference = context_difference(_as_heard([call], wholly=True))
        if difference and call.visit.hangs_up_at is None:
            yield difference


# Operations


def nothing_cancelled_by_sound(played: Played) -> Iterator[str]:
    """Rule 5: an interruption never cancels an operation."""
    for operation in played.operations:
        if operation.status is OperationStatus.CANCELLED:
            yield f"{operation.tool} was cancelled: {operation.error}"
    gone = min((call.ended_at for call in played.calls), default=0.0)
    for run in played.runs:
        deadline = run.started_at + played.script.tool(run.tool).timeout_secs - ROUNDING_SECS
        if run.outcome == "cancelled" and run.ended_at < min(deadline, gone - ROUNDING_SECS):
            yield f"the run of {run.tool} from {run.started_at:.2f} was cancelled at {run.ended_at:.2f}"


def effects_once(played: Played) -> Iterator[str]:
    """Rule 2: an operation runs once, and never twice at the same time for one intent."""
    if played.script.door != "async_tool":
        return
    started = sum(operation.attempts for operation in played.operations)
    if started != len(played.runs) or any(operation.attempts > 1 for operation in played.operations):
        yield f"operations were started {started} times and ran {len(played.runs)} times"
    for one, other in pairwise(sorted(played.runs, key=lambda run: (run.tool, run.day, run.started_at))):
        if (one.tool, one.day) == (other.tool, other.day) and other.started_at < (one.ended_at or 1e9):
            yield f"{one.tool} for {one.day} runs twice at {other.started_at:.2f}"


def everything_settles(played: Played) -> Iterator[str]:
    """Rule 12: every operation has an end, and every closed batch a delivery."""
    for operation in played.operations:
        if not operation.is_settled:
            yield f"{operation.tool} is still {operation.status}"
    for call in played.calls:
        for batch in call.snapshot().batches:
            if not batch.closed and call.visit.hangs_up_at is None:
                yield f"a batch still misses {batch.missing}"


def no_other_errors(played: Played) -> Iterator[str]:
    """Nothing else goes wrong in the pipeline than what the script lets go wrong."""
    expected = ["the model is away", "the line is busy"]
    if played.script.voice.kind == "silent":
        expected += ["completed with no audio", "consecutive TTS contexts"]
    for call in played.calls:
        for error in call.timeline.errors:
            if not any(words in error.error for words in expected):
                yield f"at {call.origin + error.at:.2f}: {error.error}"


def _told_operations(played: Played) -> Sequence[Operation]:
    return [operation for row in played.deliveries for operation in row.operations]


RULES: Sequence[Callable[[Played], Iterator[str]]] = (
    never_over_the_caller,
    never_before_it_is_true,
    told_once,
    honestly_accounted,
    heard_on_record,
    nothing_lost,
    bounded_waiting,
    valid_histories,
    history_is_what_was_heard,
    nothing_cancelled_by_sound,
    effects_once,
    everything_settles,
    no_other_errors,
)
