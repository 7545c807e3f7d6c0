# SPDX-License-Identifier: BSD-2-Clause
"""C1 to C6 and C12, unshifted: the race took place, and this is how it ended."""

import pytest
from pytest import approx

from pipecat_async_tools import OperationStatus
from pipecat_async_tools.delivery.wording import RECORD_MARKER
from tests.conversations import conflicts
from tests.conversations.conflicts import THURSDAY
from tests.conversations.facts import SLOT, SLOT_AND_DOCTOR, THE_PRACTICE
from tests.conversations.mind import words_of
from tests.conversations.script import OURS, Door, performed

both_doors = pytest.mark.parametrize("door", OURS)


def utterance(timeline, text):
    (found,) = [u for u in timeline.heard if u.text == text]
    return found


def joined(timeline):
    """Return the deliveries that were told together with an answer."""
    return [d for d in timeline.deliveries if d.mode == "next_turn" and d.state == "spoken"]


@both_doors
def test_c1_what_comes_under_the_callers_speech_joins_the_answer(door):
    performance = performed(conflicts.finishes_under_speech.id, door)
    timeline = performance.timeline
    speech, tool = timeline.user_speech[-1], timeline.tool_runs[0]
    assert speech.started_at < tool.ended_at < speech.ended_at
    answer = utterance(timeline, f"Take the bus. {SLOT.sentence}")
    assert speech.ended_at < answer.started_at
    assert performance.outcomes == ["completed"] and len(joined(timeline)) == 1
    # One run for the answer and the update, and what asked for it is a plain record now.
    assert len(timeline.model_runs) == 2
    (record,) = [m for m in timeline.context if m["role"] == "developer"]
    assert record["content"].startswith(RECORD_MARKER)


@both_doors
@pytest.mark.parametrize(("shift", "joins"), [(0.0, True), (1.65, True), (2.3, False), (2.8, False)])
def test_c1_nothing_is_told_ahead_of_an_answer_that_is_owed(door, shift, joins):
    timeline = performed(conflicts.finishes_before_a_slow_answer.id, door, shift).timeline
    assert timeline.tool_runs[0].ended_at < timeline.heard[1].started_at
    assert timeline.heard[1].started_at - timeline.user_speech[-1].ended_at > 1.5
    assert bool(joined(timeline)) == joins
    if joins:
        assert timeline.heard[1].text == f"Take the bus. {SLOT.sentence}"
        return
    answer, update = utterance(timeline, "Take the bus."), utterance(timeline, SLOT.sentence)
    assert update.started_at == approx(answer.ended_at + 0.65 + 0.4, abs=0.2)


@both_doors
def test_c1_an_update_that_was_on_its_way_is_withdrawn_when_the_caller_is_first(door):
    performance = performed(conflicts.begins_at_the_last_instant.id, door)
    timeline = performance.timeline
    asked_at, arrived_at = 5.0, performance.seen["prop"][0]
    noticed = timeline.user_speech[-1].started_at + 0.2
    assert asked_at < noticed < arrived_at < timeline.user_speech[-1].ended_at
    assert not any(noticed < run.at < timeline.user_speech[-1].ended_at for run in timeline.model_runs)
    assert performance.outcomes == ["withdrawn", "completed"]
    assert len(joined(timeline)) == 1


@both_doors
def test_c2_what_comes_during_playback_waits_for_its_end_and_a_quiet_moment(door):
    timeline = performed(conflicts.finishes_under_playback.id, door).timeline
    (tool,) = timeline.tool_runs
    speech, update = utterance(timeline, THE_PRACTICE), utterance(timeline, SLOT.sentence)
    assert speech.started_at < tool.ended_at < speech.ended_at
    quiet = update.started_at - speech.ended_at
    assert quiet == approx(0.65 + 0.4, abs=0.2)


@both_doors
def test_c3_two_results_in_reverse_order_are_one_update_after_the_last(door):
    performance = performed(conflicts.finish_in_reverse.id, door)
    slots, price = performance.timeline.tool_runs
    assert price.ended_at < slots.ended_at
    (telling,) = performance.timeline.tellings
    assert telling.started_at > slots.ended_at
    assert telling.heard == "There is a slot at ten. It costs forty euros."
    assert len(performance.timeline.batches) == 1


@both_doors
def test_c4_a_second_arrival_of_a_result_changes_nothing(door):
    performance = performed(conflicts.arrives_twice.id, door)
    timeline = performance.timeline
    assert len(performance.seen["prop"]) == 1
    (operation,) = timeline.operations
    assert operation.result == THURSDAY
    assert [t.outcome for t in timeline.tellings] == ["completed"]
    assert sum(m["role"] == "tool" for m in timeline.context) == 1


def test_c4_the_result_itself_arrives_twice_through_the_native_door():
    performance = performed(conflicts.arrives_twice.id, Door.ADOPTED)
    assert performance.seen["prop"] == [approx(5.5)]
    (run,) = performance.timeline.tool_runs
    assert run.ended_at == approx(5.0)


@both_doors
def test_c5_only_what_was_not_heard_is_told_again(door):
    timeline = performed(conflicts.interrupts_the_telling.id, door).timeline
    cut_off, rest = timeline.tellings
    barge_in = timeline.user_speech[-1]
    assert cut_off.started_at < barge_in.started_at < barge_in.started_at + 0.25 > cut_off.ended_at - 0.2
    assert (cut_off.outcome, rest.outcome) == ("interrupted", "completed")
    assert words_of(cut_off.heard) + words_of(rest.heard) == SLOT_AND_DOCTOR.words
    assert cut_off.heard and rest.heard
    assert utterance(timeline, "Sure.").ended_at < rest.started_at
    (operation,) = timeline.operations
    assert operation.status is OperationStatus.SUCCEEDED


@both_doors
def test_c5_the_retelling_is_asked_for_with_the_heard_words(door):
    timeline = performed(conflicts.interrupts_the_telling.id, door).timeline
    cut_off = timeline.tellings[0]
    asked = timeline.model_runs[-1].last_message["content"]
    assert "Say only the rest" in asked and f'"{cut_off.heard}"' in asked
    told_meanwhile = timeline.model_runs[-2].messages
    assert not any("10:00" in (m.get("content") or "") for m in told_meanwhile)


@both_doors
def test_c6_of_a_cancelled_operation_only_the_confirmation_is_told(door):
    performance = performed(conflicts.is_cancelled.id, door)
    timeline = performance.timeline
    assert performance.seen["cancelled"] is True
    (operation,) = timeline.operations
    assert operation.status is OperationStatus.CANCELLED and operation.result is None
    assert [t.heard for t in timeline.tellings] == ["That has been stopped."]
    assert "slot" not in timeline.heard_text
    assert not any("10:00" in (m.get("content") or "") for m in timeline.context)


def test_c6_the_handler_is_stopped():
    (run,) = performed(conflicts.is_cancelled.id, Door.ASYNC_TOOL).timeline.tool_runs
    assert (run.outcome, run.ended_at) == ("cancelled", approx(5.0))


def test_c6_a_native_handler_runs_on_unheard_since_pipecat_has_no_way_to_stop_one_call():
    (run,) = performed(conflicts.is_cancelled.id, Door.ADOPTED).timeline.tool_runs
    assert (run.outcome, run.ended_at) == ("returned", approx(8.0))


@both_doors
def test_c6_a_cancel_that_comes_too_late_says_so(door):
    performance = performed(conflicts.is_cancelled.id, door, 3.05)
    assert performance.seen["cancelled"] is False
    assert [t.heard for t in performance.timeline.tellings] == [SLOT.sentence]


@both_doors
def test_c12_after_a_false_start_the_update_is_told_when_the_empty_turn_is_given_up(door):
    performance = performed(conflicts.false_start.id, door)
    timeline = performance.timeline
    noise, tool = timeline.user_speech[-1], timeline.tool_runs[0]
    noticed, gone = noise.started_at + 0.2, noise.ended_at + 0.2
    assert noise.text is None and noticed < tool.ended_at < gone
    assert any(at == approx(noticed) for at in timeline.interruptions)
    (telling,) = timeline.tellings
    # It was to join the answer to that turn, until none came.
    assert performance.outcomes == ["withdrawn", "completed"]
    assert gone + 0.65 < telling.started_at < gone + 2.0 + 0.3 + 0.65
    assert tool.outcome == "returned"
