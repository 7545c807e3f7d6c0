# SPDX-License-Identifier: BSD-2-Clause
"""Requests that mean the same have the same key."""

import copy
import os
import random
import subprocess
import sys
import unicodedata
from datetime import date
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pipecat_async_tools import async_tool
from pipecat_async_tools.operations.intent import intent_key
from pipecat_async_tools.operations.tool import spec_of


class Kind(Enum):
    FIRST = "first"
    FOLLOW_UP = "follow up"


class Patient(BaseModel):
    name: str
    age: int = 0


def spec(**options):
    @async_tool(**options)
    async def book(
        op,
        day: date,
        slots: int = 1,
        note: str = "",
        price: Decimal = Decimal(0),
        kind: Kind = Kind.FIRST,
        patient: Patient | None = None,
        token: UUID | None = None,
    ):
        """Book."""

    return spec_of(book)


def key(arguments, **options):
    return spec(**options).intent_key(spec(**options).validate(arguments))


FRIDAY = {"day": "2026-12-04"}


@pytest.mark.parametrize(
    "respelt",
    [
        {"day": "2026-12-04", "slots": 1},
        {"slots": 1.0, "day": "2026-12-04"},
        {"slots": "1", "day": "2026-12-04"},
        {"day": "2026-12-04", "note": "  "},
        {"day": "2026-12-04", "kind": "first", "patient": None},
    ],
    ids=["default given", "order and float", "text for a number", "white space", "more defaults"],
)
def test_the_same_request_in_another_spelling(respelt):
    assert key(respelt) == key(FRIDAY)


@pytest.mark.parametrize(
    "other",
    [
        {"day": "2026-12-05"},
        {"day": "2026-12-04", "slots": 2},
        {"day": "2026-12-04", "note": "knee"},
        {"day": "2026-12-04", "kind": "follow up"},
        {"day": "2026-12-04", "patient": {"name": "Anna"}},
    ],
)
def test_another_request(other):
    assert key(other) != key(FRIDAY)


def test_case_matters():
    assert key({**FRIDAY, "note": "Anna"}) != key({**FRIDAY, "note": "anna"})


def test_named_arguments_are_the_only_ones_that_matter():
    options = {"intent": ["day"]}
    assert key({**FRIDAY, "note": "knee"}, **options) == key({**FRIDAY, "note": "shoulder"}, **options)
    assert key(FRIDAY, **options) != key({"day": "2026-12-05"}, **options)


def test_a_function_of_the_arguments():
    options = {"intent": lambda arguments: arguments["day"].isoformat()}
    assert key({**FRIDAY, "slots": 3}, **options) == "book:2026-12-04"


def test_a_function_that_raises_loses_nothing():
    options = {"intent": lambda arguments: arguments["nothing"]}
    assert key(FRIDAY, **options) == key(FRIDAY)


_texts = st.text(max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=12,
)


def respelt(value, chance):
    """The same data, written otherwise."""
    if isinstance(value, str):
        words = unicodedata.normalize("NFD" if chance.random() < 0.5 else "NFC", value)
        return f"{' ' * chance.randrange(3)}{words}{' ' * chance.randrange(3)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value) if chance.random() < 0.5 else value
    if isinstance(value, list):
        return [respelt(item, chance) for item in value]
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {name: respelt(item, chance) for name, item in items}
    return copy.deepcopy(value)


@given(st.dictionaries(_texts, _values, max_size=5), st.integers())
def test_a_key_survives_every_respelling(arguments, seed):
    assert intent_key("book", respelt(arguments, random.Random(seed))) == intent_key("book", arguments)


@given(_values, _values)
def test_different_data_has_different_keys(one, other):
    same = intent_key("book", {"a": one}) == intent_key("book", {"a": other})
    assert not same or repr_of(one) == repr_of(other)


def repr_of(value):
    """The data without what does not matter."""
    if isinstance(value, str):
        return "str", " ".join(unicodedata.normalize("NFC", value).split())
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    if isinstance(value, list):
        return [repr_of(item) for item in value]
    if isinstance(value, dict):
        return sorted((repr_of(k), str(repr_of(v))) for k, v in value.items())
    return repr(value)


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "day": "2026-12-04",
            "slots": 2,
            "note": "",
            "price": "1.50",
            "kind": "follow up",
            "patient": {"name": "Anna", "age": 7},
            "token": "00000000-0000-0000-0000-000000000001",
        }
    ],
)
def test_arguments_survive_the_store(arguments):
    tool = spec()
    validated = tool.validate(arguments)
    again = tool.validate(tool.jsonable(validated))
    assert again == validated
    assert {type(value) for value in again.values()} == {date, int, str, Decimal, Kind, Patient, UUID}


@pytest.mark.parametrize("price", [1.5, "1.5", "1.50", Decimal("1.500")])
def test_a_decimal_is_the_number_that_it_is(price):
    assert key({**FRIDAY, "price": price}) == key({**FRIDAY, "price": "1.5"})
    assert key({**FRIDAY, "price": price}) != key({**FRIDAY, "price": "1.51"})


def test_a_set_has_one_key_in_every_process():
    program = (
        "from pipecat_async_tools.operations.intent import intent_key;"
        "print(intent_key('book', {'tags': {'red', 'green', 'blue'}}))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert keys == {'book:{"tags":["blue","green","red"]}\n'}


def test_names_that_differ_in_white_space_alone_do_not_hide_each_other():
    one, other = {"a": {"x": 1, "x ": 2}}, {"a": {"x ": 2, "x": 1}}
    assert intent_key("book", one) == intent_key("book", other)
    assert intent_key("book", one) != intent_key("book", {"a": {"x": 3, "x ": 2}})
