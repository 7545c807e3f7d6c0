# SPDX-License-Identifier: BSD-2-Clause
"""Histories that providers take, and histories that they refuse."""

import pytest

from pipecat_async_tools.testing import history_problems


def user(text="hi"):
    return {"role": "user", "content": text}


def said(text="hello"):
    return {"role": "assistant", "content": text}


def calls(*ids):
    function = {"name": "book", "arguments": "{}"}
    return {
        "role": "assistant",
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


def answer(call_id, content="done"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user(), said()],
        [user(), calls("a"), answer("a"), said()],
        [user(), calls("a"), answer("a"), calls("b"), answer("b"), said()],
        [user(), calls("a", "b"), answer("b"), answer("a"), said()],
        [user(), calls("a"), answer("a"), {"role": "developer", "content": "the result is 3"}, said()],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    ],
)
def test_a_good_history_has_no_problems(messages):
    assert history_problems(messages) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([calls("a")], "the call a is not answered at the end"),
        ([calls("a"), user(), answer("a")], "the call a is not answered before message 1 (user)"),
        ([calls("a"), calls("b"), answer("a"), answer("b")], "the call a is not answered before message 1"),
        ([calls("a"), answer("a"), answer("a")], "message 2 answers the call a again"),
        ([user(), answer("a")], "message 1 answers the call a, which was not made"),
        ([calls("a"), answer("a"), calls("a"), answer("a")], "message 2 makes the call a again"),
        ([user(" ")], "message 0 (user) is empty"),
        ([{"role": "assistant", "content": None}], "message 0 (assistant) is empty"),
        ([calls("a"), answer("a", "")], "message 1 (tool) is empty"),
        ([{"role": "function", "content": "x"}], "message 0 has the role 'function'"),
    ],
)
def test_a_bad_history_is_described(messages, problem):
    assert any(text.startswith(problem) for text in history_problems(messages))
