# SPDX-License-Identifier: BSD-2-Clause
"""D11: histories as OpenAI, Anthropic and Gemini take them; that they are kept is in every conversation."""

import pytest
from pipecat.processors.aggregators.llm_context import LLMContext

from pipecat_async_tools import Wording
from pipecat_async_tools.testing import virtual_time
from tests.conversations import conflicts, field
from tests.conversations.judging import problems
from tests.conversations.providers import anthropic_messages, gemini_contents, provider_problems
from tests.conversations.script import OURS, play

CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "check", "arguments": "{}"}}],
}
ANSWER = {"role": "tool", "tool_call_id": "a", "content": '{"status": "accepted"}'}
ASK = {"role": "user", "content": "Is Thursday free?"}
SAY = {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize("door", OURS)
@pytest.mark.parametrize("role", ["developer", "user", "system"])
@pytest.mark.parametrize(
    "conversation",
    [conflicts.finishes_under_speech, conflicts.interrupts_the_telling, field.three_results],
    ids=lambda c: c.id,
)
@virtual_time
async def test_the_updates_role_is_configurable(conversation, role, door):
    performance = await play(conversation, door, wording=Wording(role=role))
    assert problems(performance) == []
    updates = [m for m in performance.timeline.context if (m.get("content") or "").startswith("[UPDATE")]
    assert updates and {m["role"] for m in updates} == {role}


@pytest.mark.parametrize("door", OURS)
@virtual_time
async def test_a_model_that_overlooks_what_stands_before_the_callers_words_is_enough(door):
    for conversation in (
        conflicts.finishes_under_speech,
        conflicts.interrupts_the_telling,
        field.three_results,
    ):
        assert problems(await play(conversation, door, attentive=False)) == []


@pytest.mark.parametrize(
    ("messages", "providers"),
    [
        ([ASK, CALL], {"OpenAI", "Anthropic", "Gemini"}),
        ([ASK, CALL, ASK, ANSWER, ASK], {"OpenAI", "Anthropic", "Gemini"}),
        ([ASK, CALL, ANSWER, ANSWER, SAY, ASK], {"OpenAI", "Anthropic", "Gemini"}),
        ([ASK, ANSWER, SAY, ASK], {"OpenAI", "Anthropic", "Gemini"}),
    ],
    ids=["no answer", "something between", "two answers", "no call"],
)
@virtual_time
async def test_the_check_knows_a_bad_history(messages, providers):
    found = await provider_problems(LLMContext(messages=messages))
    assert {problem.split(":")[0] for problem in found} == providers, found


@virtual_time
async def test_the_check_knows_a_good_history():
    context = LLMContext(messages=[ASK, CALL, ANSWER, SAY, {"role": "developer", "content": "[UPDATE DUE]"}])
    assert await provider_problems(context) == []
    assert [m["role"] for m in await anthropic_messages(context)] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert len(await gemini_contents(context)) == 5
