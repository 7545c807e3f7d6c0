# SPDX-License-Identifier: BSD-2-Clause
"""What of a text was heard, and what is left to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pipecat_async_tools.operations.operation import Operation, OperationStatus

_WORD = re.compile(r"\w+", re.UNICODE)


def squeezed(text: str) -> str:
    """Return the letters and digits of a text, in lower case and without gaps."""
    return "".join(_WORD.findall(text.lower()))


def rest_of(text: str, heard: str) -> str:
    """Return what of ``text`` comes after ``heard``; all of it where the two do not match."""
    matched = 0
    target = squeezed(heard)
    for word in _WORD.finditer(text):
        if matched >= len(target):
            return text[word.start() :].strip()
        piece = word.group().lower()
        if not target.startswith(piece, matched):
            return text
        matched += len(piece)
    return "" if matched >= len(target) else text


def all_heard(operations: Sequence[Operation], heard: str) -> bool:
    """Return whether every fact of the outcomes was heard.

    Facts are the numbers and words found in results. An outcome without any, such as False, or one
    that is not a success, has none that could be looked for.
    """
    words = set(_WORD.findall(heard.lower()))
    for operation in operations:
        facts = [set(_WORD.findall(fact.lower())) for fact in _facts(operation.result)]
        if operation.status is not OperationStatus.SUCCEEDED or not facts:
            return False
        if not all(fact <= words for fact in facts):
            return False
    return bool(operations)


def _facts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _facts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
