# SPDX-License-Identifier: BSD-2-Clause
"""What of a text was heard, and what is left to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pipecat_async_tools.operations.operation import Operation, OperationStatus

_WORD = re.compile(r"\w+", re.UNICODE)
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


def all_heard(operations: Sequence[Operation], heard: str) -> bool:
    """Return whether every fact of the outcomes was heard.

    Facts are the numbers and words found in results. An outcome without any, such as False, or one
    that is not a success, has none that could be looked for.
    """
    words = set(_words(heard))
    for operation in operations:
        facts = [words_of for fact in _facts(operation.result) if (words_of := set(_words(fact)))]
        if operation.status is not OperationStatus.SUCCEEDED or not facts:
            return False
        if not all(fact <= words for fact in facts):
            return False
    return bool(operations)


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
