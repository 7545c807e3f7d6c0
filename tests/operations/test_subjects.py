# SPDX-License-Identifier: BSD-2-Clause
"""Which requests a newer one of the same subject replaced."""

import pytest

from pipecat_async_tools import OperationStatus, TellingOptions
from pipecat_async_tools.operations.subjects import Subjects
from tests.builders import operation

TOOLS = {"check": TellingOptions(supersedes=lambda arguments: arguments["about"]), "plain": TellingOptions()}


def asked(tool="check", about="slots", at=1.0, **fields):
    return operation(tool, arguments={"about": about}, accepted_at=at, **fields)


def superseded(*operations):
    subjects = Subjects(tools=TOOLS, operations=lambda: operations)
    return [subjects.is_superseded(o) for o in operations]


@pytest.mark.parametrize("status", [s for s in OperationStatus if s is not OperationStatus.CANCELLED])
def test_a_newer_request_replaces_an_older_one_whatever_became_of_it(status):
    assert superseded(asked(at=1.0), asked(at=2.0, status=status)) == [True, False]


def test_one_that_was_taken_back_replaces_nothing():
    assert superseded(asked(at=1.0), asked(at=2.0, status=OperationStatus.CANCELLED)) == [False, False]


def test_of_the_same_instant_the_later_one_counts():
    assert superseded(asked(at=1.0), asked(at=1.0)) == [True, False]


def test_the_order_they_are_kept_in_does_not_count_otherwise():
    assert superseded(asked(at=2.0), asked(at=1.0)) == [False, True]


def test_another_subject_or_tool_replaces_nothing():
    assert superseded(asked(), asked(about="prices", at=2.0)) == [False, False]
    assert superseded(asked("plain"), asked("plain", at=2.0)) == [False, False]
    assert superseded(asked("unknown"), asked("unknown", at=2.0)) == [False, False]
