# SPDX-License-Identifier: BSD-2-Clause
"""The calls of one response, and whether they were quick enough to stay unannounced."""

import asyncio

import pytest
from pipecat.frames.frames import FunctionCallResultFrame, FunctionCallResultProperties

from pipecat_async_tools.operations.calls import CallGroup, CallKind, Report, Verdict
from pipecat_async_tools.testing import virtual_time
from tests.builders import operation, succeeded


class Watched:
    """A group that is watched, and when it was decided."""

    def __init__(self, *kinds, grace_secs=0.3):
        self.group = CallGroup(
            turn_id="turn-1", calls={f"call-{i}": f"tool_{i}" for i in range(len(kinds))}, batch_id="batch-1"
        )
        self.calls = list(self.group.calls.values())
        for call, kind in zip(self.calls, kinds, strict=True):
            call.kind = kind
        self.decided_at = []
        self.group.watch(grace_secs, self.on_verdict)

    def on_verdict(self, group):
        assert group is self.group
        self.decided_at.append(round(asyncio.get_running_loop().time(), 3))

    def finish(self, index):
        call = self.calls[index]
        if call.kind is CallKind.OURS:
            call.operations = {"op": succeeded()}
        else:
            call.reported = True
        return self.group.reconsider()


OURS, ADOPTED, FOREIGN, ANNOUNCED = CallKind.OURS, CallKind.ADOPTED, CallKind.FOREIGN, CallKind.ANNOUNCED


@pytest.mark.parametrize(
    "kinds", [(OURS,), (ADOPTED,), (OURS, ADOPTED), (ADOPTED, FOREIGN), (ANNOUNCED, OURS)]
)
@virtual_time
async def test_slow_calls_are_announced_when_the_grace_is_over(kinds):
    watched = Watched(*kinds)
    assert await watched.group.decided() is Verdict.ACCEPTED
    assert watched.decided_at == [0.3]


@pytest.mark.parametrize("kinds", [(OURS,), (ADOPTED,), (OURS, ADOPTED)])
@virtual_time
async def test_quick_calls_take_pipecats_own_way_as_soon_as_the_last_is_over(kinds):
    watched = Watched(*kinds)
    await asyncio.sleep(0.1)
    outcomes = [watched.finish(i) for i in range(len(kinds))]
    assert outcomes == [False] * (len(kinds) - 1) + [True]
    assert await watched.group.decided() is Verdict.NATIVE
    await asyncio.sleep(5)
    assert watched.decided_at == [0.1]


@virtual_time
async def test_one_slow_call_announces_its_quick_sibling_too():
    watched = Watched(OURS, OURS)
    assert not watched.finish(0)
    assert await watched.group.decided() is Verdict.ACCEPTED
    assert not watched.finish(1)
    assert watched.group.verdict is Verdict.ACCEPTED
    assert watched.decided_at == [0.3]


@virtual_time
async def test_without_grace_everything_is_announced_at_once():
    watched = Watched(OURS, grace_secs=0)
    assert watched.group.verdict is Verdict.ACCEPTED
    assert watched.decided_at == [0.0]
    assert not watched.finish(0)


@virtual_time
async def test_hurry_ends_the_grace_now():
    watched = Watched(OURS, ADOPTED)
    await asyncio.sleep(0.1)
    watched.finish(0)
    watched.group.hurry()
    assert watched.group.verdict is Verdict.ACCEPTED
    watched.group.hurry()
    await asyncio.sleep(5)
    assert watched.decided_at == [0.1]


@virtual_time
async def test_hurry_does_not_announce_what_was_quick():
    watched = Watched(OURS)
    watched.finish(0)
    watched.group.hurry()
    assert watched.group.verdict is Verdict.NATIVE


@virtual_time
async def test_one_call_at_a_time_the_group_waits_for_those_not_yet_started():
    watched = Watched(ADOPTED, ANNOUNCED)
    assert not watched.finish(0)
    watched.calls[1].kind = ADOPTED
    assert watched.finish(1)
    assert watched.group.verdict is Verdict.NATIVE


@virtual_time
async def test_an_announced_call_that_turns_out_to_be_foreign_is_not_waited_for():
    watched = Watched(ADOPTED, ANNOUNCED)
    watched.finish(0)
    watched.calls[1].kind = FOREIGN
    assert watched.group.reconsider()


@virtual_time
async def test_calls_that_are_none_of_ours_are_left_alone():
    watched = Watched(FOREIGN, FOREIGN)
    assert watched.group.reconsider()
    assert watched.group.candidates == ()
    unasked = Watched(FOREIGN)
    assert await unasked.group.decided() is Verdict.NATIVE


@virtual_time
async def test_a_group_is_mixed_when_a_foreign_call_shares_it():
    assert Watched(OURS, FOREIGN).group.is_mixed
    assert not Watched(OURS, ADOPTED, ANNOUNCED).group.is_mixed


@virtual_time
async def test_a_dropped_group_is_not_decided_any_more():
    watched = Watched(OURS)
    watched.group.drop()
    await asyncio.sleep(5)
    assert watched.decided_at == []


@virtual_time
async def test_whoever_waits_is_told_even_when_it_was_decided_before():
    watched = Watched(OURS)
    waiting = [asyncio.create_task(watched.group.decided()) for _ in range(2)]
    assert await asyncio.gather(*waiting) == [Verdict.ACCEPTED] * 2
    assert await watched.group.decided() is Verdict.ACCEPTED


@virtual_time
async def test_progress_is_not_the_end_of_a_call():
    watched = Watched(OURS, ADOPTED)
    watched.calls[0].operations = {"op": operation()}
    assert not watched.calls[0].is_over
    assert not watched.calls[1].is_over
    watched.calls[1].reported = True
    assert watched.calls[1].is_over


class TestReport:
    def frame(self, **fields):
        defaults = {"run_llm": None, "properties": None, "error": None}
        return FunctionCallResultFrame(
            function_name="f", tool_call_id="call-0", arguments={"a": 1}, result=[], **{**defaults, **fields}
        )

    def report(self, frame):
        call = CallGroup(turn_id="t", calls={"call-0": "f"}, batch_id="b").calls["call-0"]
        call.arguments = frame.arguments
        return Report.of(call, frame)

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"run_llm": True},
            {"properties": FunctionCallResultProperties(run_llm=False)},
            {"error": "It broke."},
        ],
        ids=str,
    )
    @virtual_time
    async def test_it_says_again_what_the_frame_said(self, fields):
        frame = self.frame(**fields)
        again = self.report(frame).frame()
        for name in (
            "function_name",
            "tool_call_id",
            "arguments",
            "result",
            "run_llm",
            "properties",
            "error",
        ):
            assert getattr(again, name) == getattr(frame, name), name
        assert again is not frame

    @pytest.mark.parametrize(
        ("properties", "final"),
        [
            (None, True),
            (FunctionCallResultProperties(), True),
            (FunctionCallResultProperties(is_final=False), False),
        ],
    )
    @virtual_time
    async def test_it_knows_progress_from_the_end(self, properties, final):
        assert self.report(self.frame(properties=properties)).is_final is final
