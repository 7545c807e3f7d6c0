# SPDX-License-Identifier: BSD-2-Clause
"""A delivery says what its tools declare."""

import pytest

from pipecat_async_tools import Envelope, OperationContext, async_tool
from pipecat_async_tools.operations.tool import spec_of
from tests.builders import envelope, failed, succeeded, telling


def tools(**declared):
    """Tools by name, each declared with the options given."""

    def tool(name, options):
        async def handler(op: OperationContext, day: str = ""): ...

        handler.__name__ = name
        return spec_of(async_tool(**options)(handler))

    return {name: tool(name, options) for name, options in declared.items()}


def build(*operations, **declared):
    return Envelope.of(
        operations, tools=tools(**declared), delivery_id="d", batch_id="b", turn_id="t", ready_at=1.0
    )


def test_one_urgent_member_makes_it_urgent():
    members = succeeded(tool="a"), succeeded(tool="b")
    assert build(*members, a={}, b={}).priority == "normal"
    assert build(*members, a={}, b={"priority": "urgent"}).priority == "urgent"


def test_the_shortest_life_of_a_member_is_its_own():
    members = succeeded(tool="a"), succeeded(tool="b"), succeeded(tool="adopted")
    declared = {"a": {"expires_after_secs": 9.0}, "b": {"expires_after_secs": 5.0}}
    assert build(*members, **declared).expires_after_secs == 5.0
    assert build(*members).expires_after_secs is None


@pytest.mark.parametrize(
    ("wishes", "speak"),
    [
        (["never", "always"], "always"),
        (["never", "on_failure"], "on_failure"),
        (["on_failure", "always"], "always"),
        (["never"], "never"),
    ],
)
def test_one_members_silence_does_not_silence_another(wishes, speak):
    declared = {f"tool{i}": {"speak": wish} for i, wish in enumerate(wishes)}
    assert build(*(succeeded(tool=name) for name in declared), **declared).speak == speak


def test_an_adopted_function_wants_to_be_told():
    assert build(succeeded(tool="adopted"), succeeded(tool="a"), a={"speak": "never"}).speak == "always"


def test_a_silent_outcome_is_put_into_the_context_only():
    silent, loud = succeeded("quiet", silent=True), succeeded("loud")
    assert build(silent).speak == "never"
    delivery = build(silent, loud)
    assert delivery.speak == "always"
    assert (delivery.told, delivery.quiet) == ((loud,), (silent,))


def test_subjects_are_named_by_tool_and_arguments():
    members = [succeeded(tool=tool, arguments={"day": "friday"}) for tool in ("a", "b", "c")]
    by_day = {"supersedes": lambda arguments: arguments["day"]}
    delivery = build(*members, a=by_day, b=by_day, c={})
    assert delivery.subjects == {
        members[0].operation_id: "a:friday",
        members[1].operation_id: "b:friday",
    }


def test_a_subject_that_cannot_be_told_does_not_lose_the_outcome():
    operation = succeeded(tool="a", arguments={})
    delivery = build(operation, a={"supersedes": lambda arguments: arguments["day"]})
    assert delivery.operations == (operation,)
    assert delivery.subjects == {}


def test_all_succeeded_means_all():
    assert envelope(succeeded(), succeeded()).all_succeeded
    assert not envelope(succeeded(), failed()).all_succeeded


def test_attempts_are_the_tellings_that_started():
    outcomes = ("withdrawn", "lost", "interrupted", "unheard", "withdrawn")
    assert envelope(tellings=tuple(map(telling, outcomes))).attempts == 3
