# SPDX-License-Identifier: BSD-2-Clause
"""Our messages in the context: put in, replaced, taken out, and nothing else touched."""

import asyncio

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_async_tools.delivery.context import ContextEditor
from pipecat_async_tools.testing import virtual_time
from tests.builders import envelope

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"role": "assistant", "tool_calls": [{"id": "call-1", "function": {"name": "f", "arguments": "{}"}}]}
TOOL = {"role": "tool", "tool_call_id": "call-1", "content": '{"status": "accepted"}'}
USER = {"role": "user", "content": "Is Thursday free?"}


def message(text):
    return {"role": "developer", "content": text}


class Aggregator:
    """Applies edits as Pipecat's user aggregator does, at once or when it gets to it."""

    def __init__(self, *messages):
        self.context = LLMContext(messages=list(messages))
        self.runs = 0
        self.waiting = []

    async def take(self, frame):
        self.waiting.append(frame)

    def apply(self):
        while self.waiting:
            frame = self.waiting.pop(0)
            assert not frame.interruptible, "an interruption would lose the edit"
            self.context.transform_messages(frame.transform)
            self.runs += bool(frame.run_llm)

    @property
    def texts(self):
        return [m.get("content") for m in self.context.get_messages()]


@pytest.fixture
def aggregator():
    return Aggregator(SYSTEM, CALL, TOOL, USER)


@pytest.fixture
def editor(aggregator):
    return ContextEditor(aggregator.take)


async def ask(editor, aggregator, deliveries, text, *, unless=lambda: False, then=lambda: None):
    await editor.ask(deliveries, message(text), unless=unless, then=then)
    aggregator.apply()


async def replace(editor, aggregator, deliveries, text):
    await editor.replace(deliveries, None if text is None else message(text))
    aggregator.apply()


@virtual_time
async def test_asking_puts_the_message_last_and_runs_the_model_once(editor, aggregator):
    await ask(editor, aggregator, [envelope()], "update")
    assert aggregator.context.get_messages() == [SYSTEM, CALL, TOOL, USER, message("update")]
    assert aggregator.runs == 1


@virtual_time
async def test_then_is_called_when_the_message_is_in_the_context_and_not_before(editor, aggregator):
    called = []
    await editor.ask([envelope()], message("update"), unless=lambda: False, then=lambda: called.append(1))
    assert called == []
    aggregator.apply()
    assert called == [1]


@virtual_time
async def test_at_the_last_instant_it_can_be_refused(editor, aggregator):
    called, too_late = [], []
    delivery = envelope()
    await editor.ask(
        [delivery], message("update"), unless=lambda: bool(too_late), then=lambda: called.append(1)
    )
    too_late.append("the caller began")
    aggregator.apply()
    assert aggregator.context.get_messages() == [SYSTEM, CALL, TOOL, USER]
    assert (aggregator.runs, called) == (0, [])


@virtual_time
async def test_asking_again_replaces_what_stood_there(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    aggregator.context.add_message({"role": "assistant", "content": "There is"})
    await ask(editor, aggregator, [delivery], "the rest")
    assert aggregator.texts[-2:] == ["There is", "the rest"]
    assert "update" not in aggregator.texts


@virtual_time
async def test_a_refused_repeat_leaves_what_stood_there(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    await ask(editor, aggregator, [delivery], "the rest", unless=lambda: True)
    assert aggregator.texts[-1] == "update"


@virtual_time
async def test_replacing_keeps_the_place_and_runs_nothing(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    aggregator.context.add_message({"role": "assistant", "content": "There is a slot."})
    await replace(editor, aggregator, [delivery], "told")
    assert aggregator.texts[-2:] == ["told", "There is a slot."]
    assert aggregator.runs == 1


@virtual_time
async def test_replacing_by_nothing_takes_it_out(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    await replace(editor, aggregator, [delivery], None)
    assert aggregator.context.get_messages() == [SYSTEM, CALL, TOOL, USER]


@virtual_time
async def test_replacing_what_is_not_there_puts_it_last(editor, aggregator):
    await replace(editor, aggregator, [envelope()], "told")
    assert aggregator.texts[-1] == "told"


@virtual_time
async def test_taking_out_what_is_not_there_changes_nothing(editor, aggregator):
    await replace(editor, aggregator, [envelope()], None)
    assert aggregator.context.get_messages() == [SYSTEM, CALL, TOOL, USER]


@virtual_time
async def test_several_deliveries_share_one_message(editor, aggregator):
    first, second = envelope(), envelope()
    await ask(editor, aggregator, [first, second], "update")
    await replace(editor, aggregator, [first, second], "told")
    assert aggregator.texts.count("told") == 1
    assert "update" not in aggregator.texts


@virtual_time
async def test_each_delivery_has_its_own_message(editor, aggregator):
    first, second = envelope(), envelope()
    await ask(editor, aggregator, [first], "first")
    await ask(editor, aggregator, [second], "second")
    await replace(editor, aggregator, [first], "first, told")
    assert aggregator.texts[-2:] == ["first, told", "second"]


@virtual_time
async def test_a_message_that_reads_the_same_is_left_to_its_delivery(editor, aggregator):
    first, second = envelope(), envelope()
    await ask(editor, aggregator, [first], "the same")
    await ask(editor, aggregator, [second], "the same")
    await replace(editor, aggregator, [first], None)
    assert aggregator.texts.count("the same") == 1
    await replace(editor, aggregator, [second], None)
    assert "the same" not in aggregator.texts


@virtual_time
async def test_it_finds_its_message_in_a_context_that_was_copied(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    aggregator.context.set_messages([dict(m) for m in aggregator.context.get_messages()])
    await replace(editor, aggregator, [delivery], "told")
    assert aggregator.texts[-1] == "told"
    assert "update" not in aggregator.texts


@virtual_time
async def test_it_goes_on_when_somebody_emptied_the_context(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    aggregator.context.set_messages([SYSTEM])
    await replace(editor, aggregator, [delivery], "told")
    assert aggregator.context.get_messages() == [SYSTEM, message("told")]


@virtual_time
async def test_calls_and_tools_are_never_touched(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    await ask(editor, aggregator, [delivery], "the rest")
    await replace(editor, aggregator, [delivery], "told")
    await editor.note(envelope(), message("note"))
    aggregator.apply()
    before = aggregator.context.get_messages()[:4]
    assert before == [SYSTEM, CALL, TOOL, USER]
    assert all(a is b for a, b in zip(before, [SYSTEM, CALL, TOOL, USER], strict=True))


@virtual_time
async def test_a_note_is_added_and_runs_nothing(editor, aggregator):
    delivery = envelope()
    await ask(editor, aggregator, [delivery], "update")
    await editor.note(delivery, message("note"))
    aggregator.apply()
    assert aggregator.texts[-2:] == ["update", "note"]
    assert aggregator.runs == 1


class TestCallbacks:
    @pytest.fixture
    def called(self):
        return []

    @pytest.fixture
    def delivery(self, called, aggregator):
        async def callback():
            called.append(aggregator.texts[-1])

        return envelope(callbacks=(callback,))

    @virtual_time
    async def test_they_run_once_the_outcome_is_in_the_context(self, editor, aggregator, delivery, called):
        await editor.ask([delivery], message("update"), unless=lambda: False, then=lambda: None)
        await asyncio.sleep(1)
        assert called == []
        aggregator.apply()
        await asyncio.sleep(1)
        assert called == ["update"]

    @virtual_time
    async def test_they_run_once_however_often_it_is_told(self, editor, aggregator, delivery, called):
        await ask(editor, aggregator, [delivery], "update")
        await replace(editor, aggregator, [delivery], "cut off")
        await ask(editor, aggregator, [delivery], "the rest")
        await replace(editor, aggregator, [delivery], "told")
        await asyncio.sleep(1)
        assert len(called) == 1

    @virtual_time
    async def test_they_do_not_run_when_it_was_refused(self, editor, aggregator, delivery, called):
        await ask(editor, aggregator, [delivery], "update", unless=lambda: True)
        await replace(editor, aggregator, [delivery], None)
        await asyncio.sleep(1)
        assert called == []
        await ask(editor, aggregator, [delivery], "update")
        await asyncio.sleep(1)
        assert len(called) == 1

    @virtual_time
    async def test_a_note_runs_them_too(self, editor, aggregator, delivery, called):
        await editor.note(delivery, message("note"))
        aggregator.apply()
        await asyncio.sleep(1)
        assert called == ["note"]

    @virtual_time
    async def test_those_of_every_member_run_and_one_that_raises_stops_none(self, editor, aggregator, called):
        async def broken():
            raise RuntimeError("the transition failed")

        async def fine():
            called.append("fine")

        await ask(editor, aggregator, [envelope(callbacks=(broken, fine)), envelope(callbacks=(fine,))], "u")
        await asyncio.sleep(1)
        assert called == ["fine", "fine"]
