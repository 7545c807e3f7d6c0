# SPDX-License-Identifier: BSD-2-Clause
"""What the marks of a carrier prove, and what they do not."""

import asyncio
import json

import pytest
from pipecat.frames.frames import EndFrame, InterruptionFrame, OutputTransportMessageUrgentFrame
from pipecat.serializers.exotel import ExotelFrameSerializer
from pipecat.serializers.plivo import PlivoFrameSerializer
from pipecat.serializers.telnyx import TelnyxFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.utils.string import TextPartForConcatenation as Part

from pipecat_async_tools import CarrierMarks, ConfigurationError, MarkingSerializer
from pipecat_async_tools.delivery.hearing import Hearing
from pipecat_async_tools.testing import run_virtual


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def marks(clock):
    return CarrierMarks(now=clock)


def test_a_mark_that_comes_back_says_that_its_audio_was_played(marks, clock):
    played = []
    name = marks.place(101.0, lambda: played.append(1))
    assert not marks.is_working
    clock.now = 103.0
    marks.returned(name)
    assert played == [1] and marks.is_working


def test_a_mark_counts_once_and_a_foreign_one_never(marks, clock):
    played = []
    name = marks.place(100.0, lambda: played.append(1))
    for returned in ("theirs", name, name):
        marks.returned(returned)
    assert played == [1]


def test_a_clear_voids_what_was_on_its_way_and_names_never_repeat(marks, clock):
    played = []
    before = marks.place(100.0, lambda: played.append(1))
    marks.cleared()
    marks.returned(before)
    after = marks.place(100.0, lambda: played.append(2))
    assert played == [] and after != before and before.split("-")[1] != after.split("-")[1]


@pytest.mark.parametrize("late_secs", [-0.31, 10.1])
def test_a_mark_that_cannot_be_true_proves_nothing(marks, clock, late_secs):
    played = []
    name = marks.place(105.0, lambda: played.append(1))
    clock.now = 105.0 + late_secs
    marks.returned(name)
    assert played == [] and not marks.is_working


def test_a_carrier_that_returns_none_is_not_waited_for(marks, clock):
    marks.place(101.0, lambda: None)
    assert not marks.are_awaited
    marks.returned(marks.place(100.0, lambda: None))
    assert marks.are_awaited
    clock.now = 104.1
    assert not marks.are_awaited


def told(clock, marks):
    hearing = Hearing()
    hearing.marks = marks
    telling = hearing.follow("t1")
    telling.contexts, telling.entered = {"c"}, True
    hearing.context_started("c")
    return hearing, telling


def test_only_what_the_carrier_played_counts_as_heard(marks, clock):
    hearing, telling = told(clock, marks)
    marks.returned(marks.place(100.0, lambda: None))
    names = []
    for word in ("there", "is", "one", "left"):
        hearing.words("c", Part(word, includes_inter_part_spaces=False), timed=True, now=clock.now)
        hearing.audio(0.5, clock.now)
        names.append(telling.mark())
        clock.now += 0.5
    assert telling.heard(clock.now) == ""
    clock.now = 103.0
    marks.returned(names[0])
    marks.returned(names[1])
    hearing.ended("t1")
    assert not telling.is_over(clock.now)
    hearing.interrupted(clock.now)
    assert telling.heard(clock.now) == "there is" and telling.sent(clock.now) == "there is one left"


@pytest.mark.parametrize(
    ("serializer", "key"),
    [
        (
            lambda: TwilioFrameSerializer("S1", params=TwilioFrameSerializer.InputParams(auto_hang_up=False)),
            "streamSid",
        ),
        (lambda: ExotelFrameSerializer("S1"), "stream_sid"),
        (
            lambda: TelnyxFrameSerializer(
                "S1", "PCMU", "PCMU", params=TelnyxFrameSerializer.InputParams(auto_hang_up=False)
            ),
            None,
        ),
    ],
    ids=["twilio", "exotel", "telnyx"],
)
def test_each_carrier_is_asked_in_its_own_words(serializer, key):
    async def run():
        marking = MarkingSerializer(serializer(), stream_id="S1")
        name = marking.marks.place(asyncio.get_running_loop().time(), lambda: played.append(1))
        sent = json.loads(
            await marking.serialize(OutputTransportMessageUrgentFrame(message=marking.marks.message(name)))
        )
        assert sent == {"event": "mark", "mark": {"name": name}, **({key: "S1"} if key else {})}
        assert json.loads(await marking.serialize(InterruptionFrame()))["event"] == "clear"
        again = marking.marks.place(asyncio.get_running_loop().time(), lambda: played.append(2))
        for returned in (name, again):
            await marking.deserialize(json.dumps({"event": "mark", "mark": {"name": returned}}))

    played = []
    run_virtual(run())
    assert played == [2]


def test_the_end_waits_for_the_last_words_but_not_for_ever():
    async def run(returns_at):
        loop = asyncio.get_running_loop()
        options = TwilioFrameSerializer.InputParams(auto_hang_up=False)
        marking = MarkingSerializer(TwilioFrameSerializer("S1", params=options), stream_id="S1")
        marking.marks.returned(marking.marks.place(loop.time(), lambda: None))
        name, start = marking.marks.place(loop.time(), lambda: None), loop.time()
        loop.call_later(returns_at, marking.marks.returned, name)
        await marking.serialize(EndFrame())
        return loop.time() - start

    assert run_virtual(run(2.0)) == pytest.approx(2.0, abs=0.05)
    assert run_virtual(run(9.0)) == pytest.approx(3.0, abs=0.05)


def test_a_carrier_without_marks_and_a_missing_stream_are_refused_by_name():
    options = PlivoFrameSerializer.InputParams(auto_hang_up=False)
    with pytest.raises(ConfigurationError, match=r"PlivoFrameSerializer.*use the serializer as it is"):
        MarkingSerializer(PlivoFrameSerializer("S1", params=options))
    with pytest.raises(ConfigurationError, match="stream_id"):
        MarkingSerializer(ExotelFrameSerializer("S1"))
