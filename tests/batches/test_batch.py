# SPDX-License-Identifier: BSD-2-Clause
"""A batch closes when every announced call is accounted for, in whatever order they end."""

import itertools
from dataclasses import replace

import pytest

from pipecat_async_tools import BatchPolicy, ConfigurationError, OperationStatus
from pipecat_async_tools.batches.batch import BatchState
from tests.builders import operation

TERMINAL = [status for status in OperationStatus if status.is_terminal]


def announced(*call_ids):
    return BatchState("batch-1", "turn-1", set(call_ids))


def member(call_id):
    return operation(operation_id=call_id, tool_call_id=call_id)


def ended(operation, status=OperationStatus.SUCCEEDED):
    return replace(operation, status=status, result=str(status))


async def callback(): ...


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_it_is_complete_after_the_last_of_them_and_not_before(order):
    batch = announced(*"abc")
    members = {call_id: member(call_id) for call_id in "abc"}
    for operation_ in members.values():
        batch.accept(operation_)
    for call_id in order:
        assert not batch.is_complete
        batch.settle(ended(members[call_id]), None)
    assert batch.is_complete


@pytest.mark.parametrize("status", TERMINAL)
def test_every_terminal_state_settles_a_member(status):
    batch = announced("a")
    batch.settle(ended(member("a"), status), None)
    assert batch.is_complete


def test_a_first_member_that_ends_before_the_second_is_seen_does_not_complete_it():
    batch = announced("a", "b")
    batch.accept(member("a"))
    batch.settle(ended(batch.operations["a"]), None)
    assert not batch.is_complete
    assert batch.missing == ("b",)


def test_a_terminal_state_beats_an_acceptance_that_comes_later():
    batch = announced("a")
    accepted = member("a")
    batch.settle(ended(accepted), None)
    batch.accept(accepted)
    assert batch.is_complete
    assert batch.operations["a"].is_settled


def test_the_first_terminal_state_counts():
    batch = announced("a")
    accepted = member("a")
    batch.settle(ended(accepted, OperationStatus.CANCELLED), None)
    batch.settle(ended(accepted, OperationStatus.SUCCEEDED), callback)
    assert batch.operations["a"].status is OperationStatus.CANCELLED
    assert batch.callbacks == []


def test_a_dismissed_call_is_not_waited_for():
    batch = announced("a", "b")
    batch.settle(ended(member("a")), None)
    batch.dismiss("b")
    assert batch.is_complete
    assert list(batch.operations) == ["a"]


def test_missing_names_calls_that_have_not_started_and_calls_that_run():
    batch = announced("c", "b", "a")
    batch.accept(member("c"))
    assert batch.missing == ("a", "b", "c")


def test_only_unstarted_calls_keep_it_open_when_all_members_are_settled():
    batch = announced("a", "b")
    batch.accept(member("a"))
    assert not batch.waits_for_unstarted_only
    batch.settle(ended(batch.operations["a"]), None)
    assert batch.waits_for_unstarted_only
    batch.dismiss("b")
    assert not batch.waits_for_unstarted_only


class TestClosing:
    def test_it_hands_over_its_operations_and_callbacks(self):
        batch = announced("a", "b")
        for call_id in "ab":
            batch.settle(ended(member(call_id)), callback)
        operations, callbacks = batch.close()
        assert [o.tool_call_id for o in operations] == ["a", "b"]
        assert callbacks == (callback, callback)
        assert batch.closed

    def test_a_call_given_up_that_starts_after_all_opens_it_again_for_the_rest(self):
        batch = announced("a", "b")
        batch.settle(ended(member("a")), callback)
        batch.dismiss("b")
        batch.close()
        late = member("b")
        batch.accept(late)
        assert not batch.closed
        assert not batch.is_complete
        batch.settle(ended(late), None)
        operations, callbacks = batch.close()
        assert [o.tool_call_id for o in operations] == ["b"]
        assert callbacks == ()

    def test_a_member_seen_again_does_not_open_it(self):
        batch = announced("a")
        accepted = member("a")
        batch.settle(ended(accepted), None)
        batch.close()
        batch.accept(accepted)
        assert batch.closed


@pytest.mark.parametrize(
    "wrong", [{"grace_secs": -0.1}, {"unstarted_timeout_secs": 0}, {"unstarted_timeout_secs": -1}], ids=str
)
def test_a_policy_with_a_number_that_cannot_be_is_refused_by_name(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(ConfigurationError, match=f"{name}={value}"):
        BatchPolicy(**wrong)


def test_no_grace_is_a_policy():
    assert BatchPolicy(grace_secs=0).grace_secs == 0
