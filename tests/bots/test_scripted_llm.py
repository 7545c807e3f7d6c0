# SPDX-License-Identifier: BSD-2-Clause
import asyncio
import json

import pytest
from openai import AsyncOpenAI

from bots.scripted_llm import NOT_UNDERSTOOD, ScriptedLLM, reply
from pipecat_async_tools.delivery.wording import NOTE_MARKER, RECORD_MARKER

SLOTS = {"date": "Thursday", "slots": ["10:00", "14:30"]}
CUSTOMER = {"customer": "Anna Bell", "record": "1042"}
SLOTS_TOLD = "On Thursday there is 10:00 and 14:30."
CUSTOMER_TOLD = "I have your record, Anna Bell, number 1042."
ASK = "have you got my record and is there anything free on thursday"


def user(text):
    return {"role": "user", "content": text}


def bot(text):
    return {"role": "assistant", "content": text}


def developer(text):
    return {"role": "developer", "content": text}


def called(*results):
    """A tool call with its answers."""
    calls = [{"id": str(n), "type": "function", "function": {"name": "x"}} for n, _ in enumerate(results)]
    answers = [
        {"role": "tool", "tool_call_id": str(n), "content": json.dumps(result)}
        for n, result in enumerate(results)
    ]
    return [{"role": "assistant", "tool_calls": calls}, *answers]


UPDATE = developer(f"The results are in: {json.dumps([SLOTS, {'value': CUSTOMER}])} Tell them.")
ACCEPTED = called({"status": "accepted"}, {"status": "accepted"})


def test_two_calls_follow_one_sentence():
    answer = reply([{"role": "system", "content": "Be kind."}, user(ASK)])
    assert answer.text.startswith("One moment please, ")
    assert [call.name for call in answer.calls] == ["check_availability", "load_customer"]


def test_an_answered_request_is_not_answered_again():
    assert not reply([user(ASK), *ACCEPTED, UPDATE]).calls


def test_an_update_is_told_from_its_facts():
    assert reply([user(ASK), *ACCEPTED, bot("One moment."), UPDATE]).text == f"{SLOTS_TOLD} {CUSTOMER_TOLD}"


def test_what_was_told_is_not_told_again():
    told = [user(ASK), *ACCEPTED, UPDATE, bot(f"{SLOTS_TOLD} {CUSTOMER_TOLD}"), user("thank you")]
    assert reply(told).text == "You are welcome. Goodbye."


def test_after_a_cut_off_only_the_rest_is_told():
    cut = [user(ASK), *ACCEPTED, UPDATE, bot(f"{SLOTS_TOLD} I have your"), UPDATE]
    assert reply(cut).text == CUSTOMER_TOLD
    quoted = developer(f"Cut off; the caller heard: {SLOTS_TOLD!r}. {UPDATE['content']}")
    assert reply([user(ASK), *ACCEPTED, quoted]).text == CUSTOMER_TOLD


def test_a_joined_update_comes_after_the_answer():
    joined = [user(ASK), *ACCEPTED, bot("One moment."), user("hold on a second please"), UPDATE]
    assert reply(joined).text == f"Of course, take your time. {SLOTS_TOLD} {CUSTOMER_TOLD}"


@pytest.mark.parametrize("marker", [RECORD_MARKER, NOTE_MARKER])
def test_what_is_only_on_record_is_not_brought_up(marker):
    on_record = developer(f"{marker}\n{UPDATE['content']}")
    assert reply([user(ASK), *ACCEPTED, on_record, user("how far are you")]).text == (
        "I am still waiting for an answer."
    )


def test_an_empty_list_and_an_error_are_told():
    friday = developer(json.dumps({"date": "Friday", "slots": []}))
    failed = developer(json.dumps({"error": "that slot is taken"}))
    assert reply([friday]).text == "On Friday there is nothing free."
    assert reply([failed]).text == "Something did not work: that slot is taken."


def test_pipecats_own_result_messages_are_read():
    native = developer(json.dumps({"type": "async_tool", "status": "finished", "result": json.dumps(SLOTS)}))
    assert reply([user(ASK), *ACCEPTED, bot("One moment."), native]).text == SLOTS_TOLD


def test_what_no_rule_knows_is_not_understood():
    assert reply([user("what is the weather")]).text == NOT_UNDERSTOOD


def test_a_real_client_reads_the_stream():
    async def converse():
        async with ScriptedLLM() as model, AsyncOpenAI(api_key="none", base_url=model.url) as client:
            stream = await client.chat.completions.create(
                model="scripted", messages=[user(ASK)], stream=True, stream_options={"include_usage": True}
            )
            return [chunk.choices[0] async for chunk in stream]

    choices = asyncio.run(converse())
    words = [choice.delta.content for choice in choices if choice.delta.content]
    calls = [call for choice in choices for call in choice.delta.tool_calls or []]
    assert "".join(words) == reply([user(ASK)]).text
    assert len(words) > 10
    assert [call.index for call in calls] == [0, 0, 1, 1]
    assert json.loads("".join(call.function.arguments for call in calls if call.index == 0)) == {
        "date": "thursday"
    }
    assert choices[-1].finish_reason == "tool_calls"
