# SPDX-License-Identifier: BSD-2-Clause
"""C4: the same callback arrives twice, once before the restart and once after it, from another process."""

from functools import partial

from pipecat_async_tools.operations.outcome import succeeded
from tests.conversations.facts import SLOT
from tests.restart.process import GREETING, LEASE_SECS, SESSION, Process
from tests.restart.talks import (
    EVERY_FACT,
    THURSDAY,
    ask_for_thursday,
    nothing_more_is_told,
    talking_on,
)


async def calls_back(process: Process, *, after: str | None = None) -> None:
    """The clinic reports the result, once more, to whichever process answers its callbacks now."""
    if after:
        await process.waits_for(after)
    (operation,) = await process.store.operations(SESSION)
    again = await process.store.finish(operation.operation_id, succeeded(THURSDAY))
    process.notes["status before"] = str(operation.status)
    process.notes["was news"] = again is not None
    process.announces("it has called back")


async def is_told_and_dies(process: Process) -> None:
    call = process.call(process.tool(), facts=[SLOT])
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY)
    call.at(9.0, process.dies)
    await process.plays(call, until=10.0)


async def greets_when_it_was_called_back(process: Process) -> None:
    call = process.call(process.tool(), facts=EVERY_FACT)

    async def is_called_back() -> None:
        process.announces("the next call has begun")
        await process.waits_for("it has called back")

    call.at(1.0, is_called_back)
    call.bot_greets(GREETING, at=2.0)
    await process.plays(call, until=10.0)


def test_again_after_it_was_told(house):
    first = house.play(is_told_and_dies, killed=True)
    assert first.heard == ["One moment.", SLOT.sentence]
    house.passes(LEASE_SECS + 0.1)

    assert house.play(calls_back).notes == {"status before": "succeeded", "was news": False, "held": []}
    nothing_more_is_told(house)
    one_result_and_one_update(house)


def test_again_in_the_next_call_before_it_was_told(house):
    first = house.play(talking_on(dies_at=5.2), killed=True)
    assert first.heard == ["One moment."]
    house.passes(LEASE_SECS + 0.1)

    calling_back = house.start(partial(calls_back, after="the next call has begun"))
    second = house.play(greets_when_it_was_called_back)
    assert calling_back.ends().notes["was news"] is False
    assert second.heard == [GREETING, SLOT.sentence] and len(second.updates) == 1
    nothing_more_is_told(house)
    one_result_and_one_update(house)


def one_result_and_one_update(house):
    """The second one changed nothing."""
    left = house.left()
    assert left.statuses == ["succeeded"]
    assert left.deliveries == ["spoken"] and left.told == [1]
    assert left.effects == left.runs == {"check_slots": 1}
    assert left.events["on_operation_settled"] == left.events["on_batch_closed"] == 1
    assert left.letters == left.pending == []
