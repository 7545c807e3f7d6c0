# SPDX-License-Identifier: BSD-2-Clause
"""What of a text was heard, and what is left to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pipecat_async_tools.delivery.spoken_numbers import was_said, words_in
from pipecat_async_tools.operations.operation import Operation, OperationStatus

_WORD = re.compile(r"\w+", re.UNICODE)
# A number, a time of day, or a date with or without one.
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|\d{4}-\d\d-\d\d(?:T[\d:]+)?(?:Z|[+-][\d:]+)?")
# A word that begins with a capital, and is no code: "Brown", "O'Neill", "Meier-Schulz".
_NAME = re.compile(r"(?:[^\W\d_]+['\u2019-])*[^\W\d_]{2,}", re.UNICODE)
# A longer text is a sentence, whose first word says nothing.
_LONGEST_NAME = 3
# Words as they are spoken: "10:30", "1.500" and "don't" are one each.
_SPOKEN = re.compile(r"\w+(?:[.,:/'\u2019-]\w+)*", re.UNICODE)


def squeezed(text: str) -> str:
    """Return the letters and digits of a text, in lower case and without gaps."""
    return "".join(_words(text))


def rest_of(text: str, heard: str) -> str:
    """Return what of ``text`` comes after ``heard``; all of it where the two do not match.

    A word that was cut in two is said again.
    """
    left = squeezed(heard)
    for word in _SPOKEN.finditer(text):
        piece = squeezed(word.group())
        if not left.startswith(piece):
            return text[word.start() :].strip() if piece.startswith(left) else text
        left = left[len(piece) :]
    return text if left else ""


def facts_heard(operation: Operation, heard: str, language: str = "en") -> tuple[int, int]:
    """Return how many facts of an outcome were heard, and how many it has.

    Facts are the numbers and words found in a result. An outcome without any, such as False, or one
    that is not a success, has none that could be looked for.
    """
    if operation.status is not OperationStatus.SUCCEEDED:
        return 0, 0
    words = frozenset(words_in(heard))
    facts = [fact for fact in _facts(operation.result) if words_in(fact)]
    return sum(was_said(fact, words, language) for fact in facts), len(facts)


def all_heard(operations: Sequence[Operation], heard: str, language: str = "en") -> bool:
    """Return whether every fact of the outcomes was heard; one without facts never was."""
    counts = [facts_heard(operation, heard, language) for operation in operations]
    return bool(counts) and all(0 < total == found for found, total in counts)


def mostly_told(operations: Sequence[Operation], heard: str, language: str = "en") -> bool:
    """Return whether at least half of the numbers and names of each outcome were heard."""
    words = frozenset(words_in(heard))
    for operation in operations:
        facts = numbers_and_names(operation)
        if not facts or 2 * sum(was_said(fact, words, language) for fact in facts) < len(facts):
            return False
    return bool(operations)


def mentions(operations: Sequence[Operation], text: str) -> bool:
    """Return whether a text holds any fact of the outcomes; true where none could be looked for."""
    succeeded = [o for o in operations if o.status is OperationStatus.SUCCEEDED]
    words = frozenset(words_in(text))
    facts = {word for o in succeeded for fact in _facts(o.result) for word in words_in(fact)}
    known = any(was_said(fact, words) for o in succeeded for fact in numbers_and_names(o))
    return known or len(succeeded) < len(operations) or not facts or bool(facts & words)


def partly_told(operation: Operation, heard: str, language: str = "en") -> bool:
    """Return whether any number, name or other fact of an outcome was heard."""
    words = frozenset(words_in(heard))
    named = any(was_said(fact, words, language) for fact in numbers_and_names(operation))
    return named or facts_heard(operation, heard, language)[0] > 0


def names_request(operation: Operation, heard: str) -> bool:
    """Return whether anything of what was asked for was heard: the tool, or a value it was given.

    It is what an outcome without numbers and names, such as a failure, can be known by.
    """
    asked = {*words_in(operation.tool.replace("_", " ")), *_words_asked(operation)}
    return not asked.isdisjoint(words_in(heard))


def can_be_checked(operations: Sequence[Operation]) -> bool:
    """Return whether each outcome has numbers or names that could be looked for in what was heard."""
    return bool(operations) and all(numbers_and_names(operation) for operation in operations)


def numbers_and_names(operation: Operation) -> frozenset[str]:
    """Return what anyone who tells a result will say: its numbers, times, dates and names.

    Codes and plain words are not among them, since they are put into other words; nor is what the
    caller said first, since an answer may repeat it without telling anything.
    """
    if operation.status is not OperationStatus.SUCCEEDED:
        return frozenset()
    asked = _words_asked(operation)
    found = {fact for text in _facts(operation.result) for fact in _numbers_and_names(text)}
    return frozenset(fact for fact in found if not set(words_in(fact)) <= asked)


def _words_asked(operation: Operation) -> set[str]:
    return {word for fact in _facts(dict(operation.arguments)) for word in words_in(fact)}


def _numbers_and_names(text: str) -> Iterator[str]:
    tokens = text.split()
    for place, token in enumerate(tokens):
        token = token.strip(".,;:!?()[]\"'„“”€$£%")
        begins_sentence = len(tokens) > _LONGEST_NAME and (place == 0 or tokens[place - 1][-1] in ".!?:")
        if _NUMBER.fullmatch(token) or (_is_name(token) and not begins_sentence):
            yield token


def _is_name(token: str) -> bool:
    return bool(_NAME.fullmatch(token)) and token[0].isupper() and not token.isupper()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _facts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _facts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
