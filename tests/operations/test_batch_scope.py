# SPDX-License-Identifier: BSD-2-Clause
"""Which responses share a batch."""

import pytest

from pipecat_async_tools import ConfigurationError
from pipecat_async_tools.operations.batch_scope import BatchScope, is_latch
from pipecat_async_tools.operations.calls import CallGroup, CallKind, Verdict
from pipecat_async_tools.testing import virtual_time


def group(name, kind=CallKind.OURS):
    made = CallGroup(turn_id="turn-1", calls={name: "tool"}, batch_id=f"batch-{name}")
    made.calls[name].kind = kind
    return made


@virtual_time
async def test_a_response_alone_has_a_batch_of_its_own():
    scope, first = BatchScope("group"), group("a")
    assert not scope.take(first) and scope.of(first) is None
    assert scope.expected_of(first) == ("a",)


@virtual_time
async def test_a_second_response_ends_the_grace_of_the_first_and_joins_it():
    scope, first, second = BatchScope("session"), group("a"), group("b")
    assert not scope.take(first)
    first.watch(0.3, lambda group: None)
    assert scope.take(second)
    assert first.verdict is Verdict.ACCEPTED
    assert second.batch_id == first.batch_id == "batch-a"
    *calls, latch = scope.expected_of(second)
    assert calls == ["b"] and is_latch(latch)


@virtual_time
async def test_what_has_ended_is_not_joined():
    scope, first, second = BatchScope("session"), group("a"), group("b")
    scope.take(first)
    scope.end(scope.of(first))
    assert not scope.take(second) and second.batch_id == "batch-b"


@virtual_time
async def test_the_applications_batch_takes_in_everything_until_it_is_closed():
    scope, first, second = BatchScope("group"), group("a"), group("b")
    name = scope.open("trip", urgent=True)
    assert scope.take(first) and first.batch_id == name
    shared = scope.close()
    assert shared.closing and shared.urgent
    assert not scope.take(second)
    with pytest.raises(ConfigurationError):
        scope.close()
