# SPDX-License-Identifier: BSD-2-Clause
"""The processor that makes one delivery of one batch."""

import asyncio
from dataclasses import replace

import pytest
from pipecat.frames.frames import ErrorFrame, TextFrame
from pipecat.tests.utils import SleepFrame, run_test

from pipecat_async_tools import BatchPolicy, OperationContext, OperationStatus, async_tool
from pipecat_async_tools.batches.aggregator import BatchAggregator
from pipecat_async_tools.frames import (
    AcknowledgeFrame,
    BatchOpenedFrame,
    BatchReleasedFrame,
    CallDismissedFrame,
    DeliveryReadyFrame,
    OperationAcceptedFrame,
    OperationSettledFrame,
)
from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.store.rows import DeliveryRow, delivery_id
from pipecat_async_tools.testing import virtual_time
from tests.builders import Notebook, operation


class AnyPlace:
    """A wiring that is content with every pipeline."""

    def problem_of(self, pipeline):
        return None


@async_tool(speak="never")
async def quiet_tool(op: OperationContext):
    """A tool whose outcome is for the context only."""


class Bench:
    """An aggregator between a source and a sink."""

    def __init__(self, **policy):
        self.notebook = Notebook()
        self.dismissed = []
        self.aggregator = BatchAggregator(
            policy=BatchPolicy(**policy),
            tools={"quiet_tool": spec_of(quiet_tool)},
            journal=self.notebook.journal,
            dismissed=lambda batch_id, call_ids: self.dismissed.append((batch_id, call_ids)),
            deliver_part=self.deliver_part,
            wiring=AnyPlace(),
        )

    async def deliver_part(self, batch_id):
        """What the store would answer: everything that has settled."""
        (batch,) = [b for b in self.aggregator.batches if b.batch_id == batch_id]
        settled = [
            o for o in batch.operations.values() if o.is_settled and o.operation_id not in batch.handed_over
        ]
        if not settled:
            return None
        name = delivery_id(batch_id, settled[0] if batch.handed_over else None)
        return DeliveryRow(
            delivery_id=name,
            session_id="room",
            batch_id=batch_id,
            turn_id="turn-1",
            operations=tuple(settled),
            ready_at=0.0,
        )

    async def send(self, *frames):
        """Send frames and return what comes out; an error inside the processor fails the test."""
        started = asyncio.get_running_loop().time()
        down, up = await run_test(self.aggregator, frames_to_send=[*frames, SleepFrame(sleep=0.1)])
        errors = [frame.error for frame in up if isinstance(frame, ErrorFrame)]
        assert not errors, errors
        self.secs = asyncio.get_running_loop().time() - started
        return list(down)

    async def deliveries(self, *frames):
        out = await self.send(*frames)
        return [frame.envelope for frame in out if isinstance(frame, DeliveryReadyFrame)]


def opened(*call_ids, acknowledge=True):
    tools = tuple(f"tool_{call_id}" for call_id in call_ids)
    return BatchOpenedFrame("batch-1", "turn-1", call_ids, tools, acknowledge=acknowledge)


def accepted(operation):
    return OperationAcceptedFrame(operation)


def ended(operation, status=OperationStatus.SUCCEEDED, *, callback=None, **fields):
    return OperationSettledFrame(replace(operation, status=status, **fields), on_context_updated=callback)


@pytest.fixture
def a():
    return operation(tool_call_id="a")


@pytest.fixture
def b():
    return operation(tool_call_id="b")


@virtual_time
async def test_one_delivery_after_the_last_member(a, b):
    bench = Bench()
    frames = [opened("a", "b"), accepted(a), accepted(b), ended(a, result=1)]
    assert await bench.deliveries(*frames) == []
    assert bench.notebook.names == []

    bench = Bench()
    [delivery] = await bench.deliveries(*frames, ended(b, result=2))
    assert [o.result for o in delivery.operations] == [1, 2]
    assert (delivery.batch_id, delivery.turn_id) == ("batch-1", "turn-1")
    assert bench.notebook.names == ["on_batch_closed"]


@virtual_time
async def test_a_first_member_that_ends_before_the_second_starts_does_not_close_it(a, b):
    [delivery] = await Bench().deliveries(
        opened("a", "b"), accepted(a), ended(a), accepted(b), SleepFrame(sleep=20.0), ended(b)
    )
    assert len(delivery.operations) == 2


@virtual_time
async def test_a_terminal_state_beats_an_acceptance_that_comes_later(a):
    [delivery] = await Bench().deliveries(opened("a"), ended(a, result=1), accepted(a))
    assert [o.result for o in delivery.operations] == [1]


@virtual_time
async def test_a_second_terminal_state_makes_no_second_delivery(a):
    deliveries = await Bench().deliveries(opened("a"), accepted(a), ended(a), ended(a))
    assert len(deliveries) == 1


@virtual_time
async def test_a_dismissed_call_is_not_waited_for(a):
    [delivery] = await Bench().deliveries(
        opened("a", "b"), accepted(a), ended(a), CallDismissedFrame(batch_id="batch-1", call_id="b")
    )
    assert [o.tool_call_id for o in delivery.operations] == ["a"]


@virtual_time
async def test_an_empty_batch_tells_nothing():
    bench = Bench()
    dismissed = [CallDismissedFrame(batch_id="batch-1", call_id=call_id) for call_id in "ab"]
    assert await bench.deliveries(opened("a", "b"), *dismissed) == []
    assert bench.notebook.names == ["on_batch_closed"]
    assert bench.aggregator.batches[0].closed


@virtual_time
async def test_a_call_that_never_starts_is_given_up(a):
    bench = Bench(unstarted_timeout_secs=5.0)
    frames = [opened("a", "b"), accepted(a), ended(a)]
    [delivery] = await bench.deliveries(*frames, SleepFrame(sleep=5.0))
    assert [o.tool_call_id for o in delivery.operations] == ["a"]
    assert delivery.ready_at == pytest.approx(5.0, abs=0.2)
    assert await Bench(unstarted_timeout_secs=5.0).deliveries(*frames, SleepFrame(sleep=4.5)) == []


@virtual_time
async def test_giving_up_counts_from_when_everything_else_is_settled(a, b):
    [delivery] = await Bench(unstarted_timeout_secs=5.0).deliveries(
        opened("a", "b", "c"),
        accepted(a),
        ended(a),
        SleepFrame(sleep=4.0),
        accepted(b),
        SleepFrame(sleep=10.0),
        ended(b),
        SleepFrame(sleep=6.0),
    )
    assert [o.tool_call_id for o in delivery.operations] == ["a", "b"]
    assert delivery.ready_at == pytest.approx(19.0, abs=0.3)


@virtual_time
async def test_a_call_given_up_that_starts_after_all_is_told_by_itself(a, b):
    first, second = await Bench(unstarted_timeout_secs=5.0).deliveries(
        opened("a", "b"), accepted(a), ended(a), SleepFrame(sleep=6.0), accepted(b), ended(b, result="late")
    )
    assert [o.tool_call_id for o in first.operations] == ["a"]
    assert [(o.tool_call_id, o.result) for o in second.operations] == [("b", "late")]
    assert first.delivery_id != second.delivery_id


@pytest.mark.parametrize("status", [s for s in OperationStatus if s.is_terminal])
@virtual_time
async def test_every_end_is_told(status, a):
    [delivery] = await Bench().deliveries(opened("a"), accepted(a), ended(a, status))
    assert [o.status for o in delivery.told] == [status]


@virtual_time
async def test_a_silent_member_does_not_silence_the_others(a, b):
    [delivery] = await Bench().deliveries(
        opened("a", "b"), accepted(a), accepted(b), ended(a, silent=True), ended(b, result=None)
    )
    assert [o.tool_call_id for o in delivery.told] == ["b"]
    assert [o.tool_call_id for o in delivery.quiet] == ["a"]
    assert delivery.speak == "always"


@virtual_time
async def test_what_a_tool_declares_about_its_telling_reaches_the_delivery():
    quiet = operation(tool="quiet_tool", tool_call_id="a")
    [delivery] = await Bench().deliveries(opened("a"), accepted(quiet), ended(quiet))
    assert delivery.speak == "never"


@virtual_time
async def test_callbacks_go_with_the_delivery(a, b):
    async def callback(): ...

    [delivery] = await Bench().deliveries(
        opened("a", "b"), accepted(a), accepted(b), ended(a, callback=callback), ended(b)
    )
    assert delivery.callbacks == (callback,)


@virtual_time
async def test_the_work_is_acknowledged_once_when_the_caller_is_owed_a_word():
    out = await Bench().send(opened("a", "b"))
    [acknowledge] = [frame for frame in out if isinstance(frame, AcknowledgeFrame)]
    assert acknowledge.call_ids == ("a", "b")
    assert acknowledge.tools == ("tool_a", "tool_b")
    out = await Bench().send(opened("a", "b", acknowledge=False))
    assert out == []


@virtual_time
async def test_our_frames_go_no_further_and_those_of_others_pass(a):
    out = await Bench().send(TextFrame("one"), opened("a"), accepted(a), TextFrame("two"), ended(a))
    assert [type(frame) for frame in out] == [TextFrame, AcknowledgeFrame, TextFrame, DeliveryReadyFrame]


@virtual_time
async def test_two_batches_do_not_mix(a):
    other = operation(tool_call_id="z", batch_id="batch-2", turn_id="turn-2")
    second = BatchOpenedFrame("batch-2", "turn-2", ("z",), ("tool_z",), acknowledge=False)
    [delivery] = await Bench().deliveries(opened("a"), second, accepted(a), accepted(other), ended(other))
    assert (delivery.batch_id, delivery.turn_id) == ("batch-2", "turn-2")


@virtual_time
async def test_the_end_of_the_pipeline_does_not_wait_for_a_call_that_never_starts(a):
    bench = Bench(unstarted_timeout_secs=500.0)
    await bench.send(opened("a", "b"), accepted(a), ended(a))
    await asyncio.sleep(600.0)
    assert bench.secs < 5.0
    assert bench.notebook.names == []


@virtual_time
async def test_after_its_longest_wait_what_has_settled_is_told_as_a_part(a, b):
    bench = Bench(max_wait_secs=2.0)
    frames = [opened("a", "b"), accepted(a), accepted(b), ended(a, result=1)]
    part, rest = await bench.deliveries(*frames, SleepFrame(sleep=2.1), ended(b, result=2))
    assert (part.partial, [o.result for o in part.operations]) == (True, [1])
    assert (rest.partial, [o.result for o in rest.operations]) == (False, [2])
    assert (part.delivery_id, rest.delivery_id) == (
        delivery_id("batch-1"),
        delivery_id("batch-1", rest.operations[0]),
    )


@virtual_time
async def test_nothing_has_settled_by_its_longest_wait(a, b):
    bench = Bench(max_wait_secs=2.0)
    frames = [opened("a", "b"), accepted(a), accepted(b), SleepFrame(sleep=2.1)]
    [delivery] = await bench.deliveries(*frames, ended(a, result=1), ended(b, result=2))
    assert (delivery.partial, [o.result for o in delivery.operations]) == (False, [1, 2])


@virtual_time
async def test_a_batch_that_is_held_open_takes_in_another_response(a, b):
    bench = Bench()
    first, second = [
        BatchOpenedFrame("batch-1", "turn-1", (call,), ("t",), acknowledge=False, held_open=True, urgent=True)
        for call in "ab"
    ]
    frames = [first, accepted(a), ended(a, result=1), second, accepted(b), ended(b, result=2)]
    assert await bench.deliveries(*frames) == []
    bench = Bench()
    [delivery] = await bench.deliveries(*frames, BatchReleasedFrame("batch-1"))
    assert [o.result for o in delivery.operations] == [1, 2]
    assert delivery.priority == "urgent"


@virtual_time
async def test_a_batch_that_was_released_closes_with_its_last_member(a, b):
    bench = Bench()
    first = BatchOpenedFrame("batch-1", "turn-1", ("a",), ("t",), acknowledge=False, held_open=True)
    frames = [first, accepted(a), BatchReleasedFrame("batch-1"), SleepFrame(sleep=1.0), ended(a, result=1)]
    [delivery] = await bench.deliveries(*frames)
    assert [o.result for o in delivery.operations] == [1]


@virtual_time
async def test_a_batch_that_is_over_while_a_part_is_taken_out_tells_the_rest_behind_it(a, b):
    bench = Bench(max_wait_secs=2.0)
    at_once = bench.aggregator._deliver_part

    async def slowly(batch_id):
        row = await at_once(batch_id)
        await asyncio.sleep(0.5)
        return row

    bench.aggregator._deliver_part = slowly
    frames = [opened("a", "b"), accepted(a), accepted(b), ended(a, result=1), SleepFrame(sleep=2.2)]
    part, rest = await bench.deliveries(*frames, ended(b, result=2), SleepFrame(sleep=1.0))
    assert [[o.result for o in d.operations] for d in (part, rest)] == [[1], [2]]
    assert part.delivery_id != rest.delivery_id
