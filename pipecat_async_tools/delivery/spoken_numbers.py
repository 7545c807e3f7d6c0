# SPDX-License-Identifier: BSD-2-Clause
"""The ways in which a number, a time of day or a date is said aloud."""

from __future__ import annotations

import re
from collections.abc import Set
from contextlib import suppress
from datetime import date, time
from functools import lru_cache

from num2words import num2words  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

_WORD = re.compile(r"\w+", re.UNICODE)
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
# Beyond that nobody reads a number out word by word: it is an id, or a telephone number.
_LARGEST = 10**9


def words_in(text: str) -> list[str]:
    """Return the words of a text, in lower case; "3rd" is the number 3."""
    return [_plain(word) for word in _WORD.findall(text.lower())]


def was_said(fact: str, heard: Set[str], language: str = "en") -> bool:
    """Return whether a fact is among the words that were heard, as it is written or as it is spoken.

    Args:
        fact: A value of a result, such as "10:30", "2026-12-03" or "Dr. Brown".
        heard: The words, as `words_in` returns them.
        language: Language of the words, such as "en" or "de"; one without number words knows digits only.
    """
    left = fact
    for pattern, said in ((_DATE, _date_said), (_TIME, _time_said)):
        for match in pattern.findall(left):
            if not said(match, heard, language):
                return all(word in heard for word in words_in(fact))
        left = pattern.sub(" ", left)
    return all(_word_said(word, heard, language) for word in words_in(left) if word != "t" or left == fact)


def _date_said(text: str, heard: Set[str], language: str) -> bool:
    # "the third of December", "December 3", "on the 3rd": the day is in all of them.
    with suppress(ValueError):
        return _number_said(date.fromisoformat(text).day, heard, language)
    return False


def _time_said(text: str, heard: Set[str], language: str) -> bool:
    with suppress(ValueError):
        at = time.fromisoformat(text if text[1] != ":" else f"0{text}")
        hours = {at.hour, at.hour % 12 or 12}
        minute = not at.minute or _number_said(at.minute, heard, language)
        return minute and any(_number_said(hour, heard, language) for hour in hours)
    return False


def _word_said(word: str, heard: Set[str], language: str) -> bool:
    if word in heard:
        return True
    return word.isdecimal() and word.isascii() and _number_said(int(word), heard, language)


def _number_said(number: int, heard: Set[str], language: str) -> bool:
    return (
        str(number) in heard
        or f"{number:02d}" in heard
        or any(words <= heard for words in _spoken(number, language))
    )


@lru_cache(maxsize=1024)
def _spoken(number: int, language: str) -> tuple[frozenset[str], ...]:
    if number > _LARGEST:
        return ()
    forms: list[frozenset[str]] = []
    for form in ("cardinal", "ordinal"):
        with suppress(NotImplementedError, ArithmeticError):
            forms.append(frozenset(words_in(str(num2words(number, lang=language, to=form)))) - {"and"})
    return tuple(words for words in forms if words)


def _plain(word: str) -> str:
    ordinal = _ORDINAL.fullmatch(word)
    return ordinal.group(1) if ordinal else word
