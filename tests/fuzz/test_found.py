# SPDX-License-Identifier: BSD-2-Clause
"""What the fuzzed conversations found, as short as it gets."""

from dataclasses import replace

import pytest

from pipecat_async_tools import OperationStatus, Wording
from tests.fuzz.playing import play
from tests.fuzz.rules import problems
from tests.fuzz.scripts import Script, Sound, Tool, Update, Visit, Voice

ASKS = Sound(at=0.5, until=1.0, calls=("rooms mon",))
ROOMS = Tool(name="rooms", secs=3.0, words=9)

both_doors = pytest.mark.parametrize("door", ["async_tool", "adopted"])


def comes_out_right(script):
    played = play(script)
    assert problems(played) == [], f"\n{played}"
    return played


@both_doors
def test_a_caller_who_speaks_inside_an_empty_turn_silences_the_update(door):
    # The noise opens a turn that Pipecat keeps open for 5 s; the update is told inside it after 2 s.
    noise = Sound(at=4.0, until=4.5, words=False)
    asks_more = Sound(at=7.6, until=8.6)
    comes_out_right(Script(door=door, tools=(ROOMS,), first=Visit(sounds=(ASKS, noise, asks_more))))


@both_doors
def test_what_a_silent_voice_did_not_say_is_not_on_record_as_heard(door):
    comes_out_right(
        Script(door=door, tools=(ROOMS,), voice=Voice(kind="silent"), first=Visit(sounds=(ASKS,)))
    )


@both_doors
def test_a_sentence_whose_audio_was_still_awaited_is_told_after_the_barge_in(door):
    # The second sentence's audio comes 1.6 s after the first's; its words are reported meanwhile.
    asks_for_two = Sound(at=0.5, until=1.0, calls=("rooms mon", "price mon"))
    barges_in = Sound(at=8.5, until=9.3)
    script = Script(
        door=door,
        tools=(Tool(name="rooms", secs=3.0), Tool(name="price", secs=3.0)),
        voice=Voice(first_audio_secs=1.6),
        first=Visit(sounds=(asks_for_two, barges_in)),
    )
    comes_out_right(script)


@both_doors
def test_a_history_that_begins_with_an_update_still_does_when_its_rest_is_told(door):
    # Told in the second call before anybody spoke, cut off by a noise, told to its end.
    visit = Visit(sounds=(ASKS,), hangs_up_at=5.1)
    again = Visit(sounds=(Sound(at=6.0, until=6.5, words=False),))
    comes_out_right(Script(door=door, tools=(ROOMS,), first=visit, again=again))


@both_doors
def test_an_update_that_the_next_run_has_told_is_not_told_again(door):
    # Pipecat's prompt for the empty turn, which had cut off an answer, is waiting behind a model that has
    # nothing to say to the update.
    visit = Visit(
        sounds=(
            Sound(at=0.5, until=1.0, calls=("rooms mon",), answer_words=14),
            Sound(at=2.5, until=3.0, words=False),
        ),
        updates=(Update(mood="silent", thinks_secs=2.25),),
    )
    comes_out_right(Script(door=door, tools=(Tool(name="rooms", secs=4.4),), first=visit))


def test_the_template_leaves_out_the_results_that_were_heard():
    deliveries = (
        play(
            Script(
                tools=(Tool(name="rooms", secs=3.0), Tool(name="price", secs=3.0)),
                first=Visit(sounds=(Sound(at=0.5, until=1.0, calls=("rooms mon", "price mon")),)),
            )
        )
        .calls[0]
        .snapshot()
        .deliveries
    )
    (delivery,) = deliveries
    assert {operation.status for operation in delivery.told} == {OperationStatus.SUCCEEDED}
    half_heard = replace(delivery, heard="The price is Jadeone Karatone.")
    assert Wording().template([half_heard]) == "As I was saying: Rooms: found Amberone Birchone."


@both_doors
def test_a_failure_told_by_the_run_behind_an_empty_answer_is_not_told_again(door):
    # The noise ends in Pipecat's own "the user may have said something" run, which reads the update too.
    noise = Sound(at=1.95, until=2.4, words=False)
    script = Script(
        door=door,
        tools=(Tool(name="rooms", secs=5.4, raises=True),),
        voice=Voice(secs_per_word=0.1, first_audio_secs=1.6, output="unpaced"),
        first=Visit(
            sounds=(replace(ASKS, until=0.8, thinks_secs=0.2), noise),
            updates=(Update(mood="silent", thinks_secs=1.25),),
        ),
    )
    played = comes_out_right(script)
    asked = [run.messages[-1]["content"] for run in played.calls[0].timeline.model_runs]
    assert any("The user may have said something" in message for message in asked)
