# SPDX-License-Identifier: BSD-2-Clause
"""The rules of OpenAI, Anthropic and Gemini for the history of a conversation with tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipecat_async_tools.testing.model import Message

ROLES = ("system", "developer", "user", "assistant", "tool")


def history_problems(messages: Sequence[Message]) -> list[str]:
    """What a provider would not accept in a history.

    Every tool call is answered by exactly one tool message, before anything else follows; no tool message
    stands without its call; no message is empty. Pipecat writes the calls of one response as call, answer,
    call, answer, which every adapter understands.

    Args:
        messages: The messages of a context.

    Returns:
        One sentence for each problem; empty if the history is fine.
    """
    return _HistoryCheck().check(messages)


class _HistoryCheck:
    def __init__(self) -> None:
        self._problems: list[str] = []
        self._open: list[str] = []
        self._answered: set[str] = set()

    def check(self, messages: Sequence[Message]) -> list[str]:
        for number, message in enumerate(messages):
            role = message.get("role")
            if role not in ROLES:
                self._problems.append(f"message {number} has the role {role!r}")
            elif role == "tool":
                self._check_answer(number, message)
            else:
                self._check_all_answered(f"before message {number} ({role})")
                self._open_calls(number, message.get("tool_calls") or [])
            if not _says_something(message):
                self._problems.append(f"message {number} ({role}) is empty")
        self._check_all_answered("at the end")
        return self._problems

    def _check_answer(self, number: int, message: Message) -> None:
        call_id = message.get("tool_call_id")
        if call_id in self._open:
            self._open.remove(call_id)
            self._answered.add(call_id)
        elif call_id in self._answered:
            self._problems.append(f"message {number} answers the call {call_id} again")
        else:
            self._problems.append(f"message {number} answers the call {call_id}, which was not made")

    def _check_all_answered(self, when: str) -> None:
        for call_id in self._open:
            self._problems.append(f"the call {call_id} is not answered {when}")
        self._open.clear()

    def _open_calls(self, number: int, calls: Sequence[dict[str, Any]]) -> None:
        for call in calls:
            call_id = call["id"]
            if call_id in self._open or call_id in self._answered:
                self._problems.append(f"message {number} makes the call {call_id} again")
            else:
                self._open.append(call_id)


def _says_something(message: Message) -> bool:
    if message.get("role") == "assistant" and message.get("tool_calls"):
        return True
    content = message.get("content")
    return bool(content.strip()) if isinstance(content, str) else bool(content)
