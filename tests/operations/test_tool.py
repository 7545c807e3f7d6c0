# SPDX-License-Identifier: BSD-2-Clause
"""``@async_tool``: what it takes, what it refuses, and in which words."""

import datetime
import functools
import inspect
import json
import re
from decimal import Decimal
from enum import Enum
from typing import Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, computed_field, field_validator

from pipecat_async_tools import ConfigurationError, OperationContext, Retry, ToolDefinitionError, async_tool
from pipecat_async_tools.operations.tool import spec_of
from tests.builders import operation
from tests.operations import postponed


class Desk(Enum):
    MAIN = "main"


class Person(BaseModel):
    name: str
    age: int = 30


async def check(op: OperationContext, day: str, *, hour: int = 9, note: str | None = None) -> dict:
    """Check a slot.

    Args:
        day: The day.
    """
    return {"day": day}


def spec(handler, **options):
    return spec_of(async_tool(**options)(handler))


class TestTheFunction:
    def test_it_is_returned_unchanged(self):
        signature, doc = inspect.signature(check), check.__doc__
        assert async_tool()(check) is check
        assert inspect.signature(check) == signature
        assert check.__doc__ == doc
        assert check.__name__ == "check"

    def test_it_can_still_be_called(self):
        with pytest.raises(StopIteration) as done:
            check(None, "friday").send(None)
        assert done.value.value == {"day": "friday"}

    def test_defaults(self):
        tool = spec(check)
        assert (tool.name, tool.handler) == ("check", check)
        assert tool.retry.max_attempts == 1
        assert (tool.timeout_secs, tool.expires_after_secs) == (120.0, None)
        assert (tool.priority, tool.speak, tool.supersedes) == ("normal", "always", None)

    def test_options_are_kept(self):
        def subject(arguments):
            return arguments["day"]

        tool = spec(
            check,
            retry=Retry(max_attempts=4),
            timeout_secs=5.0,
            expires_after_secs=60.0,
            priority="urgent",
            speak="on_failure",
            supersedes=subject,
        )
        assert tool.retry == Retry(max_attempts=4)
        assert (tool.timeout_secs, tool.expires_after_secs) == (5.0, 60.0)
        assert (tool.priority, tool.speak, tool.supersedes) == ("urgent", "on_failure", subject)


class TestWrongFunctions:
    def refused(self, handler, *words):
        with pytest.raises(ToolDefinitionError) as problem:
            async_tool()(handler)
        for word in ("@async_tool", *words):
            assert word in str(problem.value)

    def test_a_plain_function(self):
        def plain(op): ...

        self.refused(plain, "plain", "async def plain(op, ...)")

    def test_an_async_generator(self):
        async def stream(op):
            yield 1

        self.refused(stream, "stream")

    @pytest.mark.parametrize(
        "thing",
        [functools.partial(check, day="friday"), Person, "check", None],
        ids=["partial", "class", "text", "none"],
    )
    def test_what_is_no_function(self, thing):
        self.refused(thing, "coroutine function")

    def test_a_bound_method(self):
        class Clinic:
            async def book(self, op): ...

        self.refused(Clinic().book, "book")

    def test_no_parameters(self):
        async def bare(): ...

        self.refused(bare, "first parameter", "bare", "`op`")

    def test_another_first_parameter(self):
        async def other(day: str, op: OperationContext): ...

        self.refused(other, "first parameter", "other", "`op`")

    def test_args(self):
        async def many(op, *days: str): ...

        self.refused(many, "*days", "many")

    def test_kwargs(self):
        async def many(op, **days: str): ...

        self.refused(many, "**days", "many")

    def test_positional_only(self):
        async def positional(op, day: str, /): ...

        self.refused(positional, "day", "positional")

    def test_an_underscore(self):
        async def private(op, _day: str): ...

        self.refused(private, "_day", "private")

    def test_an_annotation_that_cannot_be_read(self):
        self.refused(postponed.unreadable, "unreadable", "Nowhere")

    def test_without_parentheses(self):
        with pytest.raises(TypeError, match="async_tool"):
            async_tool(check)

    def test_positional_options(self):
        with pytest.raises(TypeError, match="async_tool"):
            async_tool(Retry())


class TestWrongOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("timeout_secs", 0),
            ("timeout_secs", -1),
            ("expires_after_secs", 0),
            ("expires_after_secs", -0.5),
            ("priority", "high"),
            ("speak", "sometimes"),
            ("retry", 3),
            ("supersedes", "day"),
        ],
    )
    def test_an_option_that_cannot_be_is_refused_by_name(self, name, value):
        with pytest.raises(ConfigurationError, match=f"^{name}={value!r}: pass"):
            async_tool(**{name: value})

    def test_an_unknown_option_is_refused_by_name(self):
        with pytest.raises(TypeError, match="patience"):
            async_tool(patience=3)


class TestRetry:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"max_attempts": 0},
            {"max_attempts": -1},
            {"initial_wait_secs": -0.1},
            {"max_wait_secs": 0.1},
            {"initial_wait_secs": 5.0, "max_wait_secs": 4.0},
        ],
        ids=str,
    )
    def test_a_number_that_cannot_be_is_refused_by_name(self, wrong):
        with pytest.raises(ConfigurationError) as problem:
            Retry(**wrong)
        for name, value in wrong.items():
            assert f"{name}={value}" in str(problem.value)

    def test_one_attempt_and_no_wait_are_fine(self):
        assert Retry(max_attempts=1, initial_wait_secs=0, max_wait_secs=0).max_attempts == 1


class TestArguments:
    def test_they_are_taken_as_the_handler_declares_them(self):
        async def book(op, day: datetime.date, who: Person, desk: Desk, how: Literal["fast", "slow"]): ...

        assert spec(book).validate(
            {"day": "2026-12-03", "who": {"name": "Anna"}, "desk": "main", "how": "fast"}
        ) == {
            "day": datetime.date(2026, 12, 3),
            "who": Person(name="Anna"),
            "desk": Desk.MAIN,
            "how": "fast",
        }

    def test_defaults_fill_what_is_missing(self):
        assert spec(check).validate({"day": "friday"}) == {"day": "friday", "hour": 9, "note": None}

    def test_a_falsy_argument_is_not_replaced_by_its_default(self):
        assert spec(check).validate({"day": "", "hour": 0}) == {"day": "", "hour": 0, "note": None}

    def test_without_an_annotation_anything_goes(self):
        async def loose(op, thing): ...

        thing = object()
        assert spec(loose).validate({"thing": thing}) == {"thing": thing}

    def test_a_tool_without_arguments_takes_none(self):
        async def bare(op): ...

        assert spec(bare).validate({}) == {}

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ({}, "day"),
            ({"day": 5}, "day"),
            ({"day": "friday", "hour": "late"}, "hour"),
            ({"day": "friday", "extra": 1}, "extra"),
            ({"day": "friday", "op": "mine"}, "op"),
        ],
    )
    def test_what_does_not_fit_is_refused_by_name(self, arguments, named):
        with pytest.raises(ValueError, match=f"check was called with wrong arguments: {named}: "):
            spec(check).validate(arguments)

    def test_every_problem_is_named(self):
        async def book(op, day: str, who: Person): ...

        with pytest.raises(ValueError, match=r"day: .*; who\.age: "):
            spec(book).validate({"who": {"name": "Anna", "age": "old"}})

    def test_annotations_may_be_postponed(self):
        assert spec(postponed.book).validate({"day": "2026-12-03"}) == {
            "day": datetime.date(2026, 12, 3),
            "nights": 1,
        }
        with pytest.raises(ValueError, match="nights"):
            spec(postponed.book).validate({"day": "2026-12-03", "nights": "many"})


class TestSubject:
    def test_it_names_tool_and_subject(self):
        assert (
            spec(check, supersedes=lambda a: a["day"]).subject_of(
                operation("check", arguments={"day": "friday"})
            )
            == "check:friday"
        )

    def test_without_one_there_is_none(self):
        assert spec(check).subject_of(operation("check", arguments={"day": "friday"})) is None

    def test_one_that_raises_is_none(self):
        assert spec(check, supersedes=lambda a: a["day"]).subject_of(operation("check")) is None


def test_an_undecorated_function_is_told_what_to_do():
    async def native(params): ...

    with pytest.raises(ToolDefinitionError, match=r"native is not decorated with @async_tool\(\)"):
        spec_of(native)


class Invoice(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cents: int

    @computed_field
    @property
    def euros(self) -> float:
        return self.cents / 100


class Careless(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def known(cls, code):
        return {"a": "A"}[code]


async def grant(op, accesses: list[str], day: str = "today"):
    """Grant accesses."""


async def pair(op, both: tuple[str, int]):
    """Take two things."""


class TestRunningOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("intent", "day"),
            ("intent", 3),
            ("intent", [["day"]]),
            ("on_duplicate", "ignore"),
            ("intent_window_secs", -1),
            ("idempotent", "no"),
            ("items", ["accesses"]),
        ],
    )
    def test_one_that_cannot_be_is_refused_by_name(self, name, value):
        with pytest.raises(ConfigurationError, match=f"^{name}={re.escape(repr(value))}: pass"):
            async_tool(**{name: value})

    @pytest.mark.parametrize(
        ("handler", "options", "words"),
        [
            (grant, {"intent": ["date"]}, "intent names 'date'.*grant.*name some of: accesses, day"),
            (grant, {"items": "people"}, "items='people' is no parameter of grant"),
            (grant, {"items": "day"}, "annotate that parameter of grant as a list"),
            (pair, {"items": "both"}, "annotate that parameter of pair as a list"),
            (grant, {"items": "accesses", "intent": ["day"]}, "must name 'accesses' too"),
        ],
    )
    def test_one_that_does_not_fit_the_function_is_refused(self, handler, options, words):
        with pytest.raises(ToolDefinitionError, match=words):
            spec(handler, **options)

    def test_named_items_have_a_key_each(self):
        tool = spec(grant, items="accesses", intent=["accesses"])
        parts = tool.split(tool.validate({"accesses": ["mail", "wiki"]}))
        assert len({tool.intent_key(part) for part in parts}) == 2

    def test_they_are_kept(self):
        tool = spec(grant, items="accesses", on_duplicate="reject", intent_window_secs=5.0, idempotent=True)
        assert (tool.items, tool.on_duplicate, tool.intent_window_secs, tool.idempotent) == (
            "accesses",
            "reject",
            5.0,
            True,
        )


class TestTheRecord:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (datetime.datetime, "2026-12-03T10:30:00Z"),
            (datetime.timedelta, "PT90S"),
            (Decimal, "1.50"),
            (UUID, "00000000-0000-0000-0000-000000000001"),
            (Desk, "main"),
            (Person, {"name": "Anna"}),
            (list[list[datetime.date]], [["2026-12-03"], []]),
            (dict[str, list[Person]], {"team": [{"name": "Anna", "age": 7}]}),
            (set[str], ["mail", "wiki"]),
            (tuple[int, str], [1, "a"]),
            (Invoice, {"cents": 150}),
        ],
        ids=str,
    )
    def test_arguments_come_back_as_they_were(self, annotation, value):
        async def book(op, thing): ...

        book.__annotations__["thing"] = annotation
        tool = spec(book)
        arguments = tool.validate({"thing": value})
        record = json.loads(json.dumps(tool.jsonable(arguments)))
        assert tool.validate(record) == arguments

    def test_a_validator_that_breaks_is_a_refusal_like_any_other(self):
        async def book(op, what: Careless): ...

        with pytest.raises(ValueError, match="book was called with arguments that cannot be read"):
            spec(book).validate({"what": {"code": "b"}})
