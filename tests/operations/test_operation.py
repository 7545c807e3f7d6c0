# SPDX-License-Identifier: BSD-2-Clause
"""The life of an operation: every move, legal or not."""

import itertools

import pytest

from pipecat_async_tools import IllegalTransitionError, OperationStatus
from pipecat_async_tools.operations.operation import new_id
from tests.builders import operation

ENDS = {"succeeded", "failed", "timed_out", "cancelled", "unknown"}
LEGAL = {("accepted", end) for end in ENDS} | {("running", end) for end in ENDS} | {("accepted", "running")}
MOVES = list(itertools.product(OperationStatus, repeat=2))


@pytest.mark.parametrize(("before", "after"), [m for m in MOVES if (str(m[0]), str(m[1])) in LEGAL])
def test_a_legal_move(before, after):
    record = operation(status=before)
    moved = record.moved(after, error="why")
    assert (moved.status, moved.error) == (after, "why")
    assert moved.operation_id == record.operation_id
    assert record.status is before


@pytest.mark.parametrize(("before", "after"), [m for m in MOVES if (str(m[0]), str(m[1])) not in LEGAL])
def test_an_illegal_move(before, after):
    record = operation(status=before)
    with pytest.raises(IllegalTransitionError, match=f"{record.operation_id} is {before} .* become {after}"):
        record.moved(after)


def test_the_moves_are_all_there_are():
    assert len(LEGAL) == 11
    assert {str(status) for status in OperationStatus} == ENDS | {"accepted", "running"}


@pytest.mark.parametrize("status", OperationStatus)
def test_what_is_terminal_is_settled(status):
    assert status.is_terminal == (str(status) in ENDS)
    assert operation(status=status).is_settled == (str(status) in ENDS)


def test_ids_say_what_they_name_and_do_not_repeat():
    ids = {new_id("op") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(name.startswith("op-") for name in ids)
