# SPDX-License-Identifier: BSD-2-Clause
"""D9: a handler raises, returns without reporting, or never ends, and the process dies right after."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from pipecat_async_tools import Retry, Worker
from tests.conversations.facts import FAILED, SLOT, TIMED_OUT
from tests.restart.process import LEASE_SECS, Process
from tests.restart.talks import (
    EVERY_FACT,
    THURSDAY,
    ask_for_thursday,
    calls_again,
    nothing_more_is_told,
    told_after_the_greeting,
)


class Unavailable(Exception):
    """What an HTTP client raises for a 503."""

    status_code = 503


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a handler does not end well, and what becomes of it.

    Parameters:
        dies_at: When the process is killed.
        error: What it raises; None if it never ends.
        native: Whether it is a native function, which returns at 5.0 without reporting.
        tool: Options of the tool.
        call: Options of the call.
        runs: How often it runs.
        at_death: The status when the process is killed.
        status: The status at last.
        told: What the next call is told.
        letters: The dead letters.
    """

    dies_at: float = 5.2
    error: Exception | None = None
    native: bool = False
    tool: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    runs: int = 1
    at_death: str
    status: str
    told: str
    letters: list[str] = field(default_factory=list)


NOT_KNOWN = ["whether it took effect is not known"]
ENDINGS = {
    "raises": Ending(
        error=RuntimeError("no connection left"), at_death="failed", status="failed", told=FAILED.sentence
    ),
    "raises whatever is tried": Ending(
        error=Unavailable("later"),
        tool={"idempotent": True, "retry": Retry(max_attempts=2, initial_wait_secs=0.05)},
        dies_at=5.6,
        runs=2,
        at_death="failed",
        status="failed",
        told=FAILED.sentence,
        letters=["unavailable after 2 attempts"],
    ),
    "returns without reporting": Ending(
        native=True, at_death="running", status="unknown", told=TIMED_OUT.sentence, letters=NOT_KNOWN
    ),
    "returns without reporting, and its time ran out": Ending(
        native=True,
        call={"adopted_timeout_secs": 2.7},
        dies_at=6.5,
        at_death="timed_out",
        status="timed_out",
        told=TIMED_OUT.sentence,
        letters=["its time ran out"],
    ),
    "never ends": Ending(at_death="running", status="unknown", told=TIMED_OUT.sentence, letters=NOT_KNOWN),
    "never ends, and its time ran out": Ending(
        tool={"timeout_secs": 2.7},
        at_death="unknown",
        status="unknown",
        told=TIMED_OUT.sentence,
        letters=NOT_KNOWN,
    ),
}


async def does_not_end_well(process: Process, ending: Ending) -> None:
    if ending.native:
        native = {"tools": {"check_slots": process.native_tool("check_slots", reports=0)}}
        call = process.call(facts=EVERY_FACT, call_options=native, **ending.call)
    else:
        options = {"expect_errors": True}
        call = process.call(
            process.tool(**ending.tool), facts=EVERY_FACT, call_options=options, **ending.call
        )
    ask_for_thursday(call)
    # Nothing is told before the end: the caller talks on.
    call.user_speaks(at=4.0, until=9.0)
    if ending.native or ending.error:
        for nth in range(ending.runs):
            call.tool_finishes("check_slots", nth=nth, at=5.0, result=THURSDAY, error=ending.error)
    else:
        call.tool_hangs("check_slots")
    call.at(ending.dies_at, process.dies)
    await process.plays(call, until=8.0)


@pytest.mark.parametrize("how", ENDINGS)
def test_the_batch_closes_and_the_failure_is_told_once_in_the_next_call(house, how):
    ending = ENDINGS[how]
    first = house.play(partial(does_not_end_well, ending=ending), killed=True)
    assert first.heard == ["One moment."]
    assert house.left().statuses == [ending.at_death]
    house.passes(LEASE_SECS + 0.1)

    told_after_the_greeting(house.play(calls_again), ending.told)
    nothing_more_is_told(house)
    left = house.left()
    assert left.statuses == [ending.status] and left.runs == {"check_slots": ending.runs}
    assert left.events["on_batch_closed"] == 1
    assert left.deliveries == ["spoken"] and left.told == [1]
    assert left.letters == ending.letters
    assert left.pending == [] and left.effects == {}


async def works(process: Process, *, runs: bool) -> None:
    """A worker sees to what the dead left, and to what was replayed."""
    worker = Worker(store=process.store, tools=[process.tool()], lease_secs=LEASE_SECS)

    def script(tools) -> None:
        if runs:
            tools.finishes("check_slots", 0, 0.0, THURSDAY, None)

    await process.works(worker, script, secs=3.0)


def replay(house) -> None:
    """What `pipecat-async-tools dead replay` does."""

    async def ask(store):
        (letter,) = await store.dead_letters()
        await store.replay(letter.letter_id)

    house.ask(ask)


def test_what_is_replayed_after_it_was_told_is_told_in_the_call_after(house):
    house.play(partial(does_not_end_well, ending=ENDINGS["never ends"]), killed=True)
    house.passes(LEASE_SECS + 0.1)
    told_after_the_greeting(house.play(calls_again), TIMED_OUT.sentence)

    replay(house)
    house.passes(0.1)
    house.play(partial(works, runs=True))
    left = house.left()
    assert left.statuses == ["succeeded"] and left.deliveries == ["spoken", "pending"]
    house.passes(0.1)
    told_after_the_greeting(house.play(calls_again), SLOT.sentence)
    is_over(house, deliveries=["spoken", "spoken"], told=[1, 1])


def test_of_what_is_replayed_before_it_was_told_only_the_result_is_told(house):
    house.play(partial(does_not_end_well, ending=ENDINGS["never ends"]), killed=True)
    house.passes(LEASE_SECS + 0.1)
    house.play(partial(works, runs=False))
    left = house.left()
    assert left.statuses == ["unknown"] and left.deliveries == ["pending"]

    replay(house)
    house.passes(0.1)
    house.play(partial(works, runs=True))
    house.passes(0.1)
    told_after_the_greeting(house.play(calls_again), SLOT.sentence)
    is_over(house, deliveries=["suppressed", "spoken"], told=[0, 1])


def is_over(house, *, deliveries, told):
    """It was run once more, took effect once, and no further call hears of it."""
    nothing_more_is_told(house)
    left = house.left()
    assert left.statuses == ["succeeded"]
    assert left.runs == {"check_slots": 2} and left.effects == {"check_slots": 1}
    assert left.deliveries == deliveries and left.told == told
    assert left.events["on_operation_replayed"] == 1
    assert left.letters == left.pending == []
