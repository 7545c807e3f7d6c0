# SPDX-License-Identifier: BSD-2-Clause
"""What the callers of these stories say and hear, and what is true of every next call.

The model answers 0.6 s after the caller stopped and takes 0.3 s to its first word; a word takes 0.3 s.
So the question is answered, and the tool called, at 2.42.
"""

from functools import partial

from tests.conversations.facts import FAILED, SLOT, TIMED_OUT
from tests.restart.house import House, Seen
from tests.restart.process import GREETING, Process, RestartCall

THURSDAY = {"slot": "10:00"}
EVERY_FACT = [SLOT, FAILED, TIMED_OUT]


def ask_for_thursday(call: RestartCall) -> None:
    """The caller asks what the tool is for."""
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])


async def calls_again(
    process: Process, *, facts=EVERY_FACT, finishes_at: float | None = None, options=None, until: float = 10.0
) -> None:
    """The caller is back and only listens; the bot takes two seconds to greet.

    Args:
        process: The process.
        facts: What the model can tell.
        finishes_at: When a run of the tool ends, if what was left is run again.
        options: Of the tool.
        until: When the caller hangs up.
    """
    call = process.call(process.tool(**(options or {})), facts=facts)
    call.bot_greets(GREETING, at=2.0)
    if finishes_at is not None:
        call.tool_finishes("check_slots", at=finishes_at, result=THURSDAY)
    await process.plays(call, until=until)


def told_after_the_greeting(seen: Seen, sentence: str) -> None:
    """It was ready before the greeting, and was told once, after it."""
    assert seen.heard == [GREETING, sentence]
    (greeted_from, greeted_until), (told_from, _) = seen.heard_at
    assert greeted_until <= told_from
    assert len(seen.updates) == 1
    assert min(seen.at("on_delivery_waiting", "not been greeted")) < greeted_from


def nothing_more_is_told(house: House) -> None:
    """Another call hears the greeting, and that is all."""
    # An update would begin a second after the greeting, at about five.
    seen = house.play(partial(calls_again, until=7.0))
    assert seen.heard == [GREETING]
    assert seen.updates == []


async def asks_and_talks_on(
    process: Process, *, finishes_at=5.0, hangs_up_at=5.5, dies_at=None, options=None, **call_options
) -> None:
    """The caller asks and talks on; under that the tool ends, so that nobody hears of it.

    Args:
        process: The process.
        finishes_at: When the tool ends.
        hangs_up_at: When the caller hangs up.
        dies_at: When the process is killed.
        options: Of the tool.
        **call_options: Of the call.
    """
    call = process.call(process.tool(**(options or {})), facts=EVERY_FACT, **call_options)
    ask_for_thursday(call)
    call.user_speaks(at=4.0, until=9.0)
    call.tool_finishes("check_slots", at=finishes_at, result=THURSDAY)
    if dies_at is not None:
        call.at(dies_at, process.dies)
    call.user_hangs_up(at=hangs_up_at)
    await process.plays(call, until=hangs_up_at + 0.5)


def talking_on(**options):
    """`asks_and_talks_on`, with these arguments."""
    return partial(asks_and_talks_on, **options)
