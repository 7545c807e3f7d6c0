# SPDX-License-Identifier: BSD-2-Clause
"""D6: a result comes after its time-out, when the call in which that was told is over."""

from functools import partial

import pytest

from pipecat_async_tools import Worker
from tests.conversations.facts import SLOT, TIMED_OUT
from tests.restart.process import LEASE_SECS, SESSION, NobodyExecutor, Process
from tests.restart.talks import (
    EVERY_FACT,
    THURSDAY,
    ask_for_thursday,
    calls_again,
    nothing_more_is_told,
    told_after_the_greeting,
)


async def outlives_its_call(process: Process, *, idempotent: bool, talks_on: bool) -> None:
    """The tool is given up after 3 s, and ends when the caller has long hung up."""
    tool = process.tool(timeout_secs=3.0, idempotent=idempotent, stubborn=True)
    call = process.call(tool, facts=EVERY_FACT)
    ask_for_thursday(call)
    if talks_on:
        call.user_speaks(at=4.0, until=12.0)
    call.tool_finishes("check_slots", at=14.0, result=THURSDAY)
    call.user_hangs_up(at=9.0)
    await process.plays(call, until=10.0)
    (operation,) = await process.store.operations(SESSION)
    process.notes["when the call was over"] = str(operation.status)
    await process.waits(6.0)


@pytest.mark.parametrize(("idempotent", "status"), [(True, "timed_out"), (False, "unknown")])
def test_what_was_told_is_corrected_once_in_the_next_call(house, idempotent, status):
    first = house.play(partial(outlives_its_call, idempotent=idempotent, talks_on=False))
    assert first.heard == ["One moment.", TIMED_OUT.sentence]
    assert first.notes["when the call was over"] == status
    is_corrected(house)


@pytest.mark.parametrize(("idempotent", "status"), [(True, "timed_out"), (False, "unknown")])
def test_what_was_not_told_is_replaced(house, idempotent, status):
    first = house.play(partial(outlives_its_call, idempotent=idempotent, talks_on=True))
    assert first.heard == ["One moment."]
    assert first.notes["when the call was over"] == status
    assert house.left().deliveries == ["pending"]

    second = house.play(calls_again)
    told_after_the_greeting(second, SLOT.sentence)
    assert "This corrects" not in second.updates[0]
    nothing_more_is_told(house)
    left = house.left()
    assert left.statuses == ["succeeded"] and left.events["on_operation_corrected"] == 1
    assert left.deliveries == ["spoken"] and left.told == [1]
    assert left.letters == left.pending == []
    assert left.runs == left.effects == {"check_slots": 1}


async def is_corrected_while_it_winds_up(process: Process) -> None:
    tool = process.tool(timeout_secs=3.0, stubborn=True)
    call = process.call(tool, facts=EVERY_FACT, drain_secs=5.0, undeliverable_after_secs=1.0)
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=10.0, result=THURSDAY)
    call.user_hangs_up(at=9.0)
    await process.plays(call, until=9.5)
    await process.waits(5.0)


def test_a_correction_that_nobody_comes_back_for_is_reported(house):
    first = house.play(is_corrected_while_it_winds_up)
    assert first.heard == ["One moment.", TIMED_OUT.sentence]
    assert first.at("on_operation_corrected")[0] == pytest.approx(10.0)
    assert len(first.at("on_delivery_undeliverable", "nobody was there for 1 s")) == 1
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["spoken", "undeliverable correction"] and left.told == [1, 0]
    assert left.letters == ["nobody was there for 1 s"] and left.pending == []


async def has_it_done(process: Process) -> None:
    """The bot leaves the work to a worker, gives it up after 5 s and says so."""
    tool = process.tool(timeout_secs=5.0)
    call = process.call(tool, facts=EVERY_FACT, executor=NobodyExecutor(), lease_secs=30.0)
    ask_for_thursday(call)

    async def lets_the_worker_begin() -> None:
        process.announces("it is accepted")
        await process.waits_for("the worker has begun")

    call.at(3.0, lets_the_worker_begin)
    call.user_hangs_up(at=11.0)
    await process.plays(call, until=12.0)
    process.announces("the call is over")


async def works_too_long(process: Process) -> None:
    """The worker's service answers when the call is over."""
    await process.waits_for("it is accepted")
    # Until the bot can no longer be expected to begin with it.
    await process.lets_pass(LEASE_SECS + 0.1)

    async def ends_late() -> None:
        process.announces("the worker has begun")
        await process.waits_for("the call is over")

    tool = process.tool(timeout_secs=5.0, before=ends_late)
    worker = Worker(store=process.store, tools=[tool], lease_secs=LEASE_SECS)
    await process.works(
        worker, lambda script: script.finishes("check_slots", 0, 0.0, THURSDAY, None), secs=6.0
    )


def test_what_was_told_is_corrected_once_when_a_worker_is_late(house):
    working = house.start(works_too_long)
    first = house.play(has_it_done)
    working.ends()
    assert first.heard == ["One moment.", TIMED_OUT.sentence]
    is_corrected(house)


def is_corrected(house):
    """The next call is told that it worked out after all, and no further one."""
    left = house.left()
    assert left.statuses == ["succeeded"] and left.events["on_operation_corrected"] == 1
    assert left.deliveries == ["spoken", "pending correction"] and left.letters == []

    second = house.play(calls_again)
    told_after_the_greeting(second, SLOT.sentence)
    assert "This corrects" in second.updates[0]
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["spoken", "spoken correction"] and left.told == [1, 1]
    assert left.letters == left.pending == []
    assert left.runs == left.effects == {"check_slots": 1}
