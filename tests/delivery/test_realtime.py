# SPDX-License-Identifier: BSD-2-Clause
"""Speech-to-speech without a wire: what is appended, what counts as heard, whose response it is."""

import asyncio

import pytest
from pipecat.frames.frames import LLMMessagesAppendFrame, LLMRunFrame
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_async_tools import ClockParams
from pipecat_async_tools.delivery.clocks import CallClocks
from pipecat_async_tools.delivery.facts import mentions
from pipecat_async_tools.delivery.hearing import Hearing
from pipecat_async_tools.delivery.realtime import RealtimeConversation
from pipecat_async_tools.delivery.telling import Telling
from pipecat_async_tools.testing import virtual_time
from tests.builders import FREE, envelope, failed, succeeded

PUT_OFF = {"role": "developer", "content": "put off"}
TEXT = "One two three four five six seven eight nine ten."
"""As long as two seconds of the fastest speech: 50 letters."""


def message(text):
    return {"role": "developer", "content": text}


class Wire:
    """A service between two aggregators: takes items in on the way up, and requests from below."""

    def __init__(self, *messages):
        self.context = LLMContext(messages=list(messages))
        self.items = []
        self.requests = 0

    async def up(self, frame):
        assert not frame.interruptible, "an interruption would lose it"
        assert not frame.run_llm, "a run from above creates no response"
        if isinstance(frame, LLMMessagesAppendFrame):
            self.items += [m["content"] for m in frame.messages]
            self.context.add_messages(frame.messages)
        else:
            self.context.transform_messages(frame.transform)

    async def down(self, frame):
        if not isinstance(frame, LLMRunFrame):
            self.context.transform_messages(frame.transform)
        self.requests += isinstance(frame, LLMRunFrame) or bool(frame.run_llm)

    @property
    def texts(self):
        return [m["content"] for m in self.context.get_messages()]


@pytest.fixture
def wire():
    return Wire(message("hello"))


@pytest.fixture
def conversation(wire):
    return RealtimeConversation(wire.up, wire.down, PUT_OFF)


async def ask(conversation, delivery, text="due", *, unless=lambda: False):
    asked = []
    await conversation.ask([delivery], message(text), unless=unless, then=lambda: asked.append(True))
    return bool(asked)


@virtual_time
async def test_an_update_is_an_item_and_a_request(wire, conversation):
    assert await ask(conversation, envelope())
    assert wire.items == ["due"] and wire.requests == 1
    assert wire.texts == ["hello", "due"]


@virtual_time
async def test_an_update_that_comes_too_late_is_not_sent(wire, conversation):
    delivery = envelope()
    assert not await ask(conversation, delivery, unless=lambda: True)
    await conversation.replace([delivery], None, takes_back=True)
    assert wire.items == [] and wire.requests == 0 and wire.texts == ["hello"]


@virtual_time
async def test_an_update_overtaken_on_its_way_is_not_asked_for(wire, conversation):
    answers = iter((False, True))
    assert not await ask(conversation, envelope(), unless=lambda: next(answers))
    assert wire.items == ["due"] and wire.requests == 0


@virtual_time
async def test_a_record_is_kept_from_the_provider_and_what_takes_back_is_not(wire, conversation):
    delivery = envelope()
    await ask(conversation, delivery)
    await conversation.replace([delivery], message("being told"))
    assert wire.items == ["due"] and wire.texts == ["hello", "being told"]
    await conversation.replace([delivery], message("cut off"), takes_back=True)
    assert wire.items == ["due", "cut off"] and wire.texts == ["hello", "cut off"]
    await ask(conversation, delivery, "due again")
    assert wire.items == ["due", "cut off", "due again"] and wire.texts == ["hello", "due again"]
    await conversation.replace([delivery], None, takes_back=True)
    assert wire.items[-1] == "put off" and wire.texts == ["hello", "put off"]
    await ask(conversation, delivery, "due at last")
    await conversation.replace([delivery], message("told"))
    assert wire.items[-1] == "due at last" and wire.texts == ["hello", "told"]


@virtual_time
async def test_callbacks_run_once_the_outcome_is_in_the_context(wire, conversation):
    seen = []

    async def updated():
        seen.append(wire.texts[-1])

    told, quiet = envelope(callbacks=(updated,)), envelope(callbacks=(updated,))
    await ask(conversation, told)
    await ask(conversation, told, "due again")
    await conversation.note(quiet, message("for the record"))
    await asyncio.sleep(0.1)
    assert len(seen) == 2 and wire.items[-1] == "for the record" and wire.requests == 2


@virtual_time
async def test_one_word_acknowledges_all_the_calls_that_wait(wire, conversation):
    conversation.acknowledge(["a"])
    conversation.acknowledge(["b"])
    assert not await conversation.answered("c") and wire.requests == 0
    assert await conversation.answered("a") and wire.requests == 1
    assert not await conversation.answered("b") and wire.requests == 1


# What was heard


@pytest.fixture
def hearing():
    return Hearing()


@pytest.fixture
def telling(hearing):
    """A telling whose words are all there and of whose five seconds of audio two are."""
    telling = hearing.follow("telling-1")
    hearing.generated(TEXT)
    hearing.generated_audio(2.0)
    hearing.entered("telling-1")
    hearing.context_started(None)
    return telling


def test_what_was_played_before_its_mark_is_somebody_elses(hearing):
    telling = hearing.follow("telling-1")
    hearing.generated_audio(1.0)
    hearing.audio(1.0, now=10.0)
    assert telling.started_at is None and telling.audio_secs == 0


def test_words_are_heard_as_far_as_their_share_of_the_audio(hearing, telling):
    hearing.generated_audio(3.0)
    hearing.audio(2.5, now=10.0)
    hearing.interrupted(now=12.5)
    assert telling.heard(20.0) == "One two three four five"


def test_words_that_are_ahead_of_their_audio_are_not_heard(hearing, telling):
    """Half of what is there was played: of 50 letters that is not more than a second of speech."""
    hearing.audio(1.0, now=10.0)
    hearing.interrupted(now=11.0)
    assert telling.heard(20.0) == "One two three four five"
    short = hearing.follow("telling-2")
    hearing.generated(TEXT)
    hearing.generated_audio(0.2)
    hearing.entered("telling-2")
    hearing.audio(0.2, now=20.0)
    assert short.heard(20.2) == "One"


def test_what_an_interruption_left_unplayed_is_not_heard(hearing, telling):
    """An output that writes faster than real time had it all."""
    hearing.audio(2.0, now=10.0)
    hearing.interrupted(now=10.5)
    assert telling.heard(20.0) == "One two"


def test_all_of_it_is_heard_once_its_end_and_its_audio_are_through(hearing, telling):
    hearing.audio(2.0, now=10.0)
    hearing.context_stopped()
    hearing.ended("telling-1")
    assert not telling.is_over(11.9)
    assert telling.is_over(12.0) and telling.was_heard(12.0) and telling.heard(12.0) == TEXT


def test_words_without_sound_are_not_heard(hearing):
    telling = hearing.follow("telling-1")
    hearing.generated(TEXT)
    hearing.entered("telling-1")
    hearing.ended("telling-1")
    assert telling.is_over(10.0) and not telling.was_heard(10.0)


# Whose response it is


@pytest.mark.parametrize(
    ("operations", "text", "expected"),
    [
        ([succeeded({"slot": "10:15"})], "At 10:15.", True),
        ([succeeded({"slot": "10:15"})], "It is sunny.", False),
        ([succeeded({"slot": "10:15"}), failed()], "It is sunny.", True),
        ([succeeded(False)], "It is sunny.", True),
        ([succeeded({"slots": ["Monday", "Tuesday"]})], "tuesday, for one", True),
    ],
)
def test_a_response_is_anothers_only_if_it_holds_no_fact(operations, text, expected):
    assert mentions(operations, text) is expected


def telling_of(result, *, doubtful, text):
    delivery = envelope(succeeded(result))
    telling = Telling((delivery,), telling_id="t", how="model", params=ClockParams(), now=0.0)
    telling.in_own_voice(doubtful=doubtful)
    telling.in_context = True
    telling.response_started(0.0)
    telling.said(text, 0.0)
    return telling


def test_without_another_response_to_expect_words_are_taken_for_its_own():
    assert not telling_of("10:15", doubtful=False, text="At a quarter past ten.").is_anothers


def test_anothers_response_counts_for_nothing():
    telling = telling_of("10:15", doubtful=True, text="It is sunny.")
    telling.handed_over(1.0)
    telling.evidence.audio_secs, telling.evidence.generated_secs = 1.0, 1.0
    telling.evidence.text, telling.evidence.ended = "It is sunny.", True
    telling.evidence.started_at, telling.evidence.audible_until = 1.0, 2.0
    assert telling.verdict(2.0, channel=FREE) == "lost"
    record = telling.record("lost", 2.0)
    assert record.heard == "" and record.started_at is None


def test_a_model_that_hears_owes_an_answer_from_the_end_of_the_turn():
    clocks = CallClocks(ClockParams(answer_timeout_secs=3.0))
    clocks.speech_to_speech()
    caller = clocks.caller
    caller.turn_started(1.0)
    caller.turn_stopped(2.0)
    assert caller.answer_owed(4.9) and not caller.answer_owed(5.0)
    assert caller.may_be_answered
    caller.answered()
    caller.said_words(6.0)
    assert not caller.answer_owed(6.0) and not caller.may_be_answered


def test_a_response_that_is_announced_twice_is_one():
    clocks = CallClocks(ClockParams())
    clocks.speech_to_speech()
    clocks.response.started(1.0)
    clocks.response.started(1.2)
    clocks.response.words(1.3)
    assert clocks.response.spoke
    clocks.response.ended(2.0)
    assert not clocks.response.in_flight(2.0) and not clocks.response.spoke


def test_a_response_without_words_waits_for_the_interruption_that_emptied_it():
    telling = telling_of("10:15", doubtful=False, text="")
    telling.handed_over(1.0)
    assert telling.verdict(1.1, channel=FREE) is None
    assert telling.verdict(1.3, channel=FREE) == "lost"
    telling.interrupted(1.3)
    telling.evidence.interrupted_at = 1.3
    assert telling.verdict(1.3, channel=FREE) == "withdrawn"
