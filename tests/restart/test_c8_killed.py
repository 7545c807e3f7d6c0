# SPDX-License-Identifier: BSD-2-Clause
"""C8: the process dies after the effect and before the follow-up: effect once, follow-up once."""

from functools import partial

from tests.conversations.facts import SLOT, TIMED_OUT
from tests.restart.process import LEASE_SECS, Process
from tests.restart.talks import (
    EVERY_FACT,
    THURSDAY,
    ask_for_thursday,
    calls_again,
    nothing_more_is_told,
    told_after_the_greeting,
)


async def dies_after_the_effect(process: Process, *, idempotent: bool) -> None:
    tool = process.tool(idempotent=idempotent, after=process.dies)
    call = process.call(tool, facts=EVERY_FACT)
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.0, result=THURSDAY)
    await process.plays(call, until=12.0)


async def dies_before_the_follow_up(process: Process) -> None:
    call = process.call(process.tool(), facts=EVERY_FACT)
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.0, result=THURSDAY)

    async def dies(*_) -> None:
        process.dies()

    call.async_tools.add_event_handler("on_delivery_ready", dies)
    await process.plays(call, until=12.0)


def test_before_it_was_written_down_and_it_may_be_repeated(house):
    first = house.play(partial(dies_after_the_effect, idempotent=True), killed=True)
    assert first.heard == ["One moment."]
    left = house.left()
    assert left.statuses == ["running"] and left.effects == {"check_slots": 1}
    house.passes(LEASE_SECS + 0.1)

    # Whatever takes the session up runs it again, under the key that the clinic knows.
    again = partial(calls_again, options={"idempotent": True}, finishes_at=1.0)
    told_after_the_greeting(house.play(again), SLOT.sentence)
    nothing_more_is_told(house)
    left = house.left()
    assert left.runs == {"check_slots": 2} and left.effects == {"check_slots": 1}
    assert left.events["on_operation_recovered"] == 1
    assert left.statuses == ["succeeded"] and left.deliveries == ["spoken"] and left.told == [1]
    assert left.letters == left.pending == []


def test_before_it_was_written_down_and_it_may_not_be_repeated(house):
    house.play(partial(dies_after_the_effect, idempotent=False), killed=True)
    assert house.left().statuses == ["running"]
    house.passes(LEASE_SECS + 0.1)

    told_after_the_greeting(house.play(calls_again), TIMED_OUT.sentence)
    nothing_more_is_told(house)
    left = house.left()
    assert left.runs == left.effects == {"check_slots": 1}
    assert left.statuses == ["unknown"] and left.deliveries == ["spoken"] and left.told == [1]
    assert left.letters == ["whether it took effect is not known"] and left.pending == []


def test_after_it_was_written_down(house):
    first = house.play(dies_before_the_follow_up, killed=True)
    assert first.heard == ["One moment."] and first.updates == []
    left = house.left()
    assert left.statuses == ["succeeded"] and left.deliveries == ["pending"]
    house.passes(LEASE_SECS + 0.1)

    told_after_the_greeting(house.play(calls_again), SLOT.sentence)
    nothing_more_is_told(house)
    left = house.left()
    assert left.runs == left.effects == {"check_slots": 1}
    assert left.deliveries == ["spoken"] and left.told == [1]
    assert left.letters == left.pending == []
