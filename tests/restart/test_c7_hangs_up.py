# SPDX-License-Identifier: BSD-2-Clause
"""C7: the caller hangs up with a delivery pending, and is back in another process, or is not."""

from functools import partial

import pytest

from pipecat_async_tools import Worker
from tests.conversations.facts import SLOT, SLOT_AND_DOCTOR, TIMED_OUT
from tests.restart.process import GREETING, LEASE_SECS, Process
from tests.restart.talks import (
    EVERY_FACT,
    THURSDAY,
    ask_for_thursday,
    calls_again,
    nothing_more_is_told,
    talking_on,
    told_after_the_greeting,
)


@pytest.mark.parametrize(
    ("first_call", "killed"),
    [
        pytest.param(talking_on(), False, id="ready while the caller spoke"),
        pytest.param(talking_on(finishes_at=7.0, drain_secs=5.0), False, id="ready when nobody was there"),
        pytest.param(talking_on(dies_at=5.2), True, id="ready, and the process is killed"),
    ],
)
def test_it_is_told_once_after_the_greeting_of_the_next_call(house, first_call, killed):
    first = house.play(first_call, killed=killed)
    assert first.heard == ["One moment."]
    # The caller was speaking: it was to join the answer, and a process that is killed cannot take that back.
    assert house.left().deliveries == ["telling" if killed else "pending"]
    # Who hangs up lets go of the session; who is killed holds it until the lease has run out.
    house.passes(LEASE_SECS + 0.1 if killed else 0.0)

    told_after_the_greeting(house.play(calls_again), SLOT.sentence)
    nothing_more_is_told(house)

    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1]
    assert left.statuses == ["succeeded"]
    assert left.effects == left.runs == {"check_slots": 1}
    assert left.letters == left.pending == []


def test_what_still_ran_at_the_hang_up_is_told_as_not_confirmed(house):
    first = house.play(talking_on(finishes_at=30.0))
    assert first.heard == ["One moment."]
    left = house.left()
    assert left.statuses == ["unknown"] and left.deliveries == ["pending"]

    told_after_the_greeting(house.play(calls_again), TIMED_OUT.sentence)
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1] and left.pending == []
    assert left.letters == ["whether it took effect is not known"]
    assert left.runs == {"check_slots": 1} and left.effects == {}


def test_what_expired_meanwhile_is_stored_and_not_said(house):
    house.play(talking_on(options={"expires_after_secs": 1.0}))
    assert house.left().deliveries == ["pending"]
    house.passes(1.1)

    second = house.play(partial(calls_again, options={"expires_after_secs": 1.0}))
    assert second.heard == [GREETING] and second.updates == []
    # It had expired before, not by waiting for the greeting.
    assert second.at("on_delivery_suppressed", "older than 1 s")[0] < 0.5

    left = house.left()
    assert left.deliveries == ["suppressed"] and "older than 1 s" in left.reasons[0]
    assert left.told == [0] and left.pending == [] and left.letters == []


async def is_cut_off(process: Process, *, dies: bool) -> None:
    call = process.call(process.tool(), facts=[SLOT_AND_DOCTOR])
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY)
    if dies:
        call.at(6.5, process.dies)
    call.user_hangs_up(at=6.5)
    await process.plays(call, until=7.5)


def test_what_was_cut_off_by_the_hang_up_is_told_to_its_end(house):
    first = house.play(partial(is_cut_off, dies=False))
    heard = first.heard[-1]
    sentence = SLOT_AND_DOCTOR.sentence
    assert sentence.startswith(heard) and 3 <= len(heard.split()) <= 10
    left = house.left()
    assert left.deliveries == ["pending"] and left.heard == [heard]

    second = house.play(partial(calls_again, facts=[SLOT_AND_DOCTOR]))
    told_after_the_greeting(second, sentence.removeprefix(heard).strip())
    assert heard in second.updates[0]
    nothing_more_is_told(house)

    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1] and left.pending == []
    assert left.effects == left.runs == {"check_slots": 1}


def test_what_was_cut_off_by_a_kill_is_told_from_its_beginning(house):
    first = house.play(partial(is_cut_off, dies=True), killed=True)
    assert SLOT_AND_DOCTOR.sentence.startswith(first.heard[-1])
    # Nobody could write down how much was heard.
    left = house.left()
    assert left.deliveries == ["telling"] and left.heard == [""]
    house.passes(LEASE_SECS + 0.1)

    second = house.play(partial(calls_again, facts=[SLOT_AND_DOCTOR]))
    told_after_the_greeting(second, SLOT_AND_DOCTOR.sentence)
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1] and left.pending == []


async def holds_the_session(process: Process, *, until: str, dies: bool, lease_secs: float) -> None:
    call = process.call(process.tool(), facts=EVERY_FACT, lease_secs=lease_secs)

    async def lets_the_other_call() -> None:
        process.announces("the first holds the session")
        await process.waits_for(until)
        if dies:
            process.dies()

    call.at(1.0, lets_the_other_call)
    call.bot_greets(GREETING, at=2.0)
    await process.plays(call, until=10.0)


async def calls_at_the_same_time(process: Process, *, outlives: bool, lease_secs: float) -> None:
    await process.waits_for("the first holds the session")
    call = process.call(process.tool(), facts=EVERY_FACT, lease_secs=lease_secs)
    call.bot_greets(GREETING, at=2.0)
    if outlives:

        async def waits_for_the_end_of_the_other() -> None:
            process.announces("the second was refused")
            await process.waits_for("the first is dead")

        call.at(1.0, waits_for_the_end_of_the_other)
    await process.plays(call, until=12.0)
    process.announces("the second has hung up")


def test_of_two_calls_at_the_same_time_only_one_tells(house):
    house.play(talking_on())
    one = house.start(partial(holds_the_session, until="the second has hung up", dies=False, lease_secs=60.0))
    two = house.start(partial(calls_at_the_same_time, outlives=False, lease_secs=60.0))
    second, first = two.ends(), one.ends()

    # The second asked for the session while the delivery was pending, and the first held it all along.
    assert second.notes["held"] and not any(second.notes["held"])
    assert first.notes["held"] and all(first.notes["held"])
    assert second.heard == [GREETING] and second.updates == []
    told_after_the_greeting(first, SLOT.sentence)
    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1] and left.pending == []


def test_the_second_of_two_calls_tells_when_the_first_dies(house):
    house.play(talking_on())
    one = house.start(partial(holds_the_session, until="the second was refused", dies=True, lease_secs=2.0))
    two = house.start(partial(calls_at_the_same_time, outlives=True, lease_secs=2.0))
    first = one.ends(killed=True)
    house.passes(2.1)
    house.gives_sign("the first is dead")
    second = two.ends()

    assert first.heard == []
    assert second.notes["held"][0] is False and second.notes["held"][-1] is True
    assert second.heard == [GREETING, SLOT.sentence] and len(second.updates) == 1
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["spoken"] and left.told == [1] and left.pending == []


async def nobody_calls_again(process: Process, *, finishes_at: float) -> None:
    await talking_on(finishes_at=finishes_at, drain_secs=5.0, undeliverable_after_secs=1.0)(process)
    await process.waits(5.0)


@pytest.mark.parametrize("finishes_at", [5.0, 7.0], ids=["ready before", "ready after the hang-up"])
def test_what_nobody_comes_back_for_is_reported_by_the_process_of_the_call(house, finishes_at):
    first = house.play(partial(nobody_calls_again, finishes_at=finishes_at))
    assert len(first.at("on_delivery_undeliverable", "nobody was there for 1 s")) == 1
    assert first.at("on_delivery_undeliverable")[0] == pytest.approx(max(finishes_at, 5.5) + 1.0, abs=0.2)
    is_given_up(house)


async def gives_up(process: Process) -> None:
    reported = process.notes.setdefault("reported", [])

    async def send_a_message(row) -> None:
        reported.append([row.session_id, row.operations[0].result])

    worker = Worker(
        store=process.store,
        tools=[process.tool()],
        lease_secs=LEASE_SECS,
        undeliverable_after_secs=1.0,
        on_undeliverable=send_a_message,
    )
    await process.works(worker, lambda script: None, secs=5.0)


def test_what_nobody_comes_back_for_is_reported_by_a_worker(house):
    house.play(talking_on(dies_at=5.2), killed=True)
    assert house.left().deliveries == ["telling"]
    house.passes(LEASE_SECS + 1.2)
    assert house.play(gives_up).notes["reported"] == [["caller-17", THURSDAY]]
    is_given_up(house)


def is_given_up(house):
    """It is a dead letter, once, and no later call hears of it."""
    nothing_more_is_told(house)
    left = house.left()
    assert left.deliveries == ["undeliverable"] and left.told == [0]
    assert left.reasons == left.letters == ["nobody was there for 1 s"]
    assert left.events["on_delivery_undeliverable"] == left.events["on_dead_letter_opened"] == 1
    assert left.pending == [] and left.effects == {"check_slots": 1}
