# SPDX-License-Identifier: BSD-2-Clause
"""Each rule of the fuzzed conversations can say no: to a package or a record that was tampered with."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipecat_async_tools.delivery.gate import ActivityGate
from pipecat_async_tools.delivery.policy import DeliverNow, DeliveryPolicy
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.testing import CallError
from tests.fuzz import rules
from tests.fuzz.playing import play
from tests.fuzz.scripts import Script, Sound, Tool, Visit

ASKS = Sound(at=0.5, until=1.0, calls=("rooms mon",))
QUIET = Script(tools=(Tool(name="rooms", secs=3.0, words=9),), first=Visit(sounds=(ASKS,)))


def with_sounds(*sounds, **changes):
    return replace(QUIET, first=Visit(sounds=(ASKS, *sounds)), **changes)


def broken(rule, played):
    return list(getattr(rules, rule)(played))


@pytest.fixture(scope="module")
def good():
    played = play(QUIET)
    assert rules.problems(played) == []
    return played


def heard_otherwise(played, change):
    """The same, and the far end heard something else."""
    call = played.calls[0]
    return replace(played, calls=[replace(call, words=change(call.words))])


def recorded_otherwise(played, **changes):
    """The same, and the store holds something else of the delivery."""
    return replace(played, deliveries=[replace(played.deliveries[0], **changes)])


@pytest.mark.parametrize("door", ["async_tool", "adopted"])
def test_a_gate_that_speaks_whenever_something_is_ready_begins_over_the_caller(monkeypatch, door):
    def now(self, *_, **__):
        return DeliverNow(reason="I have something to say")

    async def no_matter(*_):
        pass

    monkeypatch.setattr(DeliveryPolicy, "choose", now)
    monkeypatch.setattr(ActivityGate, "_caller_was_first", no_matter)
    monkeypatch.setattr("pipecat_async_tools.delivery.clocks.CallerClock.is_speaking", lambda *_: False)
    played = play(with_sounds(Sound(at=3.5, until=7.0, words=False), door=door))
    assert any("begins at" in problem for problem in broken("never_over_the_caller", played))


def test_a_telling_that_goes_on_under_the_caller_is_noticed(good):
    spoken_over = replace(good.calls[0].visit, sounds=(ASKS, Sound(at=5.5, until=6.5, words=False)))
    played = replace(good, calls=[replace(good.calls[0], visit=spoken_over)])
    assert any("goes on" in problem for problem in broken("never_over_the_caller", played))


def test_a_result_that_is_said_before_its_tool_has_ended_is_noticed(good):
    early = heard_otherwise(good, lambda words: [replace(word, started_at=1.0) for word in words])
    assert broken("never_before_it_is_true", early)


def test_an_update_that_is_heard_twice_is_noticed(good):
    last = good.calls[0].words[-1].ended_at
    twice = heard_otherwise(good, lambda words: [*words, *_later(words, last + 1.0)])
    assert broken("told_once", twice)


def test_an_update_that_is_not_heard_is_noticed(good):
    silent = heard_otherwise(good, lambda words: [])
    assert broken("told_once", silent) and broken("heard_on_record", silent)


def test_a_gate_that_forgets_how_its_tellings_ended_is_noticed(monkeypatch):
    monkeypatch.setattr(DeliveryPolicy, "max_tellings", 2, raising=False)
    monkeypatch.setattr("pipecat_async_tools.delivery.telling.Telling.verdict", lambda *_, **__: "lost")
    assert broken("told_once", play(QUIET))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "suppressed", "tellings": ()},
        {"state": "undeliverable", "tellings": ()},
        {"state": "telling"},
        {"tellings": ()},
    ],
    ids=["suppressed", "given up at once", "never ended", "spoken without a telling"],
)
def test_what_was_not_spoken_needs_a_reason(good, changes):
    assert broken("honestly_accounted", recorded_otherwise(good, **changes))


def test_a_batch_with_two_deliveries_is_noticed(good):
    (row,) = good.deliveries
    assert broken("honestly_accounted", replace(good, deliveries=[row, replace(row, delivery_id="other")]))


def test_a_result_that_nobody_owes_is_noticed(good):
    assert broken("nothing_lost", replace(good, deliveries=[]))


def test_a_gate_that_sleeps_is_noticed(monkeypatch):
    async def decide(self):
        if self._now() > 9.0:
            await really(self)

    really = ActivityGate._decide
    monkeypatch.setattr(ActivityGate, "_decide", decide)
    assert broken("bounded_waiting", play(QUIET))


def test_a_call_without_an_answer_is_noticed(good):
    context = [m for m in good.calls[0].timeline.context if m["role"] != "tool"]
    call = replace(good.calls[0], timeline=replace(good.calls[0].timeline, context=context))
    assert broken("valid_histories", replace(good, calls=[call]))


def test_a_history_that_holds_more_than_was_heard_is_noticed(good):
    assert broken("history_is_what_was_heard", heard_otherwise(good, lambda words: words[:-3]))


def test_an_operation_that_sound_cancels_is_noticed(good):
    operation = replace(good.operations[0], status=OperationStatus.CANCELLED)
    run = replace(good.runs[0], outcome="cancelled")
    assert len(broken("nothing_cancelled_by_sound", replace(good, operations=[operation], runs=[run]))) == 2


def test_an_effect_that_is_taken_twice_is_noticed(good):
    assert len(broken("effects_once", replace(good, runs=good.runs * 2))) == 2


def test_an_operation_without_an_end_is_noticed(good):
    operation = replace(good.operations[0], status=OperationStatus.RUNNING)
    assert broken("everything_settles", replace(good, operations=[operation]))


def test_an_error_that_nobody_wrote_is_noticed(good):
    timeline = replace(good.calls[0].timeline, errors=[CallError(1.0, "it broke")])
    assert broken("no_other_errors", replace(good, calls=[replace(good.calls[0], timeline=timeline)]))


def test_every_rule_is_shown_to_say_no():
    names = {rule.__name__ for rule in rules.RULES}
    here = Path(__file__).read_text()
    assert {name for name in names if f'"{name}"' in here} == names


def _later(words, since):
    first = words[0].started_at
    return [
        replace(w, started_at=w.started_at - first + since, ended_at=w.ended_at - first + since)
        for w in words
    ]
