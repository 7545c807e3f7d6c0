# SPDX-License-Identifier: BSD-2-Clause
"""The model of the conversations: it does what its context tells it, whoever wrote the context.

It answers what the caller said and then, in the same reply, tells every result in its context that the
caller was not told: just what Pipecat's own instruction for late results asks for. So plain Pipecat is not
judged by a model that overlooks things. One with ``attentive=False`` does: it answers what the caller said
last, and overlooks the results that stand before that in its context.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipecat_async_tools.delivery.wording import (
    CUT_OFF_MARKER,
    NOTE_MARKER,
    OFFERED_MARKER,
    RECORD_MARKER,
    RUNNING_MARKER,
    TELLING_MARKER,
    UPDATE_MARKER,
)

Message = dict[str, Any]

_RECORDS = (TELLING_MARKER, RECORD_MARKER, OFFERED_MARKER, CUT_OFF_MARKER, NOTE_MARKER, RUNNING_MARKER)


@dataclass(frozen=True)
class Fact:
    """Something the caller is to hear.

    Parameters:
        sentence: The words in which the model tells it.
        data: Pattern by which the model finds it in its context.
    """

    sentence: str
    data: str

    @property
    def words(self) -> list[str]:
        return words_of(self.sentence)


class Mind:
    """Makes replies from the messages of the context."""

    def __init__(self, facts: Sequence[Fact], *, attentive: bool = True):
        self.answers: dict[str, str] = {}
        self._facts = facts
        self._attentive = attentive

    def reply(self, messages: list[Message]) -> str:
        """What the model says now."""
        newest = next(m for m in reversed(messages) if m["role"] != "assistant")
        said = [
            self._answer(newest),
            *(self._tell(f, messages) for f in self._facts if self._owes(f, messages)),
        ]
        return " ".join(filter(None, said)) or "Okay."

    def _answer(self, newest: Message) -> str:
        if newest["role"] != "user" or newest["content"].startswith(UPDATE_MARKER):
            return ""
        answers = [answer for line, answer in self.answers.items() if line in newest["content"]]
        return answers[-1] if answers else "Okay."

    def _tell(self, fact: Fact, messages: list[Message]) -> str:
        asked = next(m["content"] for m in reversed(messages) if _holds(m, fact))
        if "Say only the rest" not in asked:
            return fact.sentence
        heard = asked.split("caller heard: ")[1].split("\n")[0]
        words = fact.sentence.split()
        known = max(n for n in range(len(words) + 1) if " ".join(words[:n]) in heard)
        return " ".join(words[known:])

    def _owes(self, fact: Fact, messages: list[Message]) -> bool:
        place = max((i for i, m in enumerate(messages) if _holds(m, fact)), default=None)
        if place is None:
            return False
        if not self._attentive and any(m["role"] == "user" for m in messages[place + 1 :]):
            return False
        told = (m.get("content") or "" for m in messages[place + 1 :] if m["role"] == "assistant")
        return not any(fact.sentence in text for text in told)


def words_of(text: str) -> list[str]:
    """The words of a text, without case and punctuation."""
    return re.findall(r"[\w']+", text.lower())


def _holds(message: Message, fact: Fact) -> bool:
    content = message.get("content") or ""
    if message["role"] == "assistant" or content.startswith(_RECORDS):
        return False
    # What was heard of it is named there too, and is no result.
    return re.search(fact.data, re.sub(r"caller heard: .*", "", content)) is not None
