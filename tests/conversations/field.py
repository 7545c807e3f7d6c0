# SPDX-License-Identifier: BSD-2-Clause
"""The field cases D1 to D9 of FIELD-CASES.md, as conversations; the clock is that of `conflicts`."""

from collections.abc import Sequence
from typing import Any

from pipecat_async_tools.testing import ScriptedModel, ScriptedVoice
from tests.conversations.conflicts import THURSDAY, ask_for_thursday
from tests.conversations.facts import (
    FAILED,
    FRIDAY,
    GOOD_NEWS,
    MONDAY,
    PRICE,
    SLOT,
    THE_PRACTICE,
    TIMED_OUT,
    TUESDAY,
    TWENTY_WORDS,
    WEDNESDAY,
    nothing_left,
)
from tests.conversations.props import LatePlaybackEnd, SplitPlayback, StrayPlayback, behind_output
from tests.conversations.script import NATIVE, OURS, Conversation, StagedCall, Tool, conversation


@conversation(
    "D1",
    "a cough while the tool runs, and its result under the cough",
    facts=[SLOT],
    shifts=[-0.15, -0.05, 0.05, 0.3, 0.9, 1.5, 2.2, 2.4, 4.8, 4.95, 5.2],
)
def coughs(call: StagedCall, shift: float) -> None:
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="", calls=["check_slots"])
    call.user_speaks(at=2.6, until=2.9)
    call.tool_finishes("check_slots", at=2.9 + shift, result=THURSDAY)


def ask_for_both(call: StagedCall) -> None:
    call.user_asks(
        "Is Thursday free, and at what price?",
        at=0.5,
        until=1.5,
        answer="",
        calls=["check_slots", "find_price"],
    )


BOTH: dict[str, Any] = {"facts": [SLOT, PRICE], "tools": ["check_slots", "find_price"]}


@conversation(
    "D2a",
    "the first of two parallel calls is over at once",
    shifts=[-0.04, 0.05, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0, 1.5, 2.5],
    **BOTH,
)
def first_is_quick(call: StagedCall, shift: float) -> None:
    ask_for_both(call)
    call.tool_finishes("check_slots", at=2.45 + shift, result=THURSDAY)
    call.tool_finishes("find_price", at=4.0, result={"price_eur": 40})


@conversation(
    "D2b",
    "two calls that run one after the other",
    shifts=[-0.04, 0.05, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0, 1.6, 2.5],
    options=lambda: {"model": ScriptedModel(run_in_parallel=False)},
    **BOTH,
)
def one_after_the_other(call: StagedCall, shift: float) -> None:
    ask_for_both(call)
    call.tool_finishes("check_slots", at=2.45 + shift, result=THURSDAY)
    call.tool_finishes("find_price", at=4.0, result={"price_eur": 40})


@conversation(
    "D2c",
    "a first handler that never awaits",
    shifts=[-1.6, -1.45, -1.35, -1.3, -1.25, -1.0, -0.5, 0.5, 1.5, 3.0],
    **BOTH,
)
def first_never_awaits(call: StagedCall, shift: float) -> None:
    ask_for_both(call)
    call.tool_finishes("check_slots", at=0.0, result=THURSDAY)
    call.tool_finishes("find_price", at=4.0 + shift, result={"price_eur": 40})


@conversation(
    "D3",
    "the cancel of a call overtakes its in-progress frame",
    facts=[TIMED_OUT, FRIDAY],
    tools=[Tool(name="check_slots", timeout_secs=1.0, pipecat_timeout_secs=1.0)],
    runs=2,
    shifts=[-0.4, -0.2, 0.2, 0.4, 0.6, 0.7, 1.0, 1.5, 3.0, 5.0],
    until=30.0,
)
def cancel_overtakes(call: StagedCall, shift: float) -> None:
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer=THE_PRACTICE, calls=["check_slots"])
    call.user_asks("Hold on a second.", at=3.0 + shift, until=3.8 + shift, answer="Sure.")
    call.user_asks(
        "Then what about Friday?", at=17.0, until=18.0, answer="Let me see.", calls=["check_slots"]
    )
    call.tool_finishes("check_slots", at=12.0, result=THURSDAY)
    call.tool_finishes("check_slots", nth=1, at=19.6, result={"slot": "12:00"})


@conversation(
    "D4",
    "the caller barges in after four of twenty words",
    facts=[TWENTY_WORDS],
    shifts=[-1.3, -1.1, -0.9, -0.3, 0.3, 0.6, 1.2, 3.0, 4.5, 4.8],
    until=24.0,
    within_secs=12.0,
)
def four_of_twenty(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00", "where": "Mill Lane"})
    call.user_asks("Hold on a second.", at=5.8 + shift, until=6.6 + shift, answer="Sure.")


def returns_nothing(name: str, result: Any, written: str, shifts: Sequence[float]) -> Conversation:
    @conversation(
        f"D5 {name}",
        f"the only tool returns {name}",
        facts=[nothing_left(written)],
        shifts=shifts,
    )
    def finds_nothing(call: StagedCall, shift: float) -> None:
        ask_for_thursday(call)
        call.tool_finishes("check_slots", at=4.0 + shift, result=result)

    return finds_nothing


EMPTY = [
    returns_nothing("[]", [], r"\[\]", [-1.2, -1.1, -1.0, -0.8, -0.6, -0.3, 0.3, 0.6, 1.0, 2.0]),
    returns_nothing("False", False, "false", [-1.2, -0.3, 1.0]),
    returns_nothing("0", 0, "0", [-1.1, -0.6, 2.0]),
    returns_nothing('""', "", '""', [-1.0, -0.3, 0.6]),
    returns_nothing("None", None, "null", [-1.2, -0.8, 0.3]),
]


@conversation(
    "D6a",
    "a native function reports its result twice",
    facts=[SLOT],
    tools=[Tool(name="check_slots", reports=2)],
    shifts=[-1.55, -1.5, -1.4, -1.3, -1.25, -1.0, -0.5, 0.5, 1.0, 2.0],
    doors=NATIVE,
)
def reports_twice(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0 + shift, result=THURSDAY)


@conversation(
    "D6b",
    "the result comes two seconds after its time-out",
    facts=[SLOT],
    may_hear=[TIMED_OUT],
    tools=[Tool(name="check_slots", timeout_secs=3.0, ignores_cancellation=True)],
    shifts=[-2.4, -2.2, -1.9, -1.7, -1.6, -1.4, -0.8, -0.2, 0.5, 1.5],
    doors=OURS,
)
def too_late(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=7.8 + shift, result=THURSDAY)


@conversation(
    "D6c",
    "the result comes after its time-out, while the caller speaks",
    facts=[SLOT],
    may_hear=[TIMED_OUT],
    tools=[Tool(name="check_slots", timeout_secs=3.0, ignores_cancellation=True)],
    shifts=[-1.2, -0.75, -0.6, -0.5, -0.3, -0.1, 0.1, 0.4, 0.8, 1.2],
    doors=OURS,
)
def too_late_under_speech(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("Are you still there?", at=6.3 + shift, until=7.8 + shift, answer="I am here.")
    call.tool_finishes("check_slots", at=7.0, result=THURSDAY)


@conversation(
    "D7",
    "three results while the bot speaks",
    facts=[MONDAY, TUESDAY, WEDNESDAY],
    tools=["check_first", "check_second", "check_third"],
    shifts=[-3.2, -2.0, -1.2, -0.5, 0.5, 1.0, 2.0, 2.5, 3.3, 3.8],
    until=28.0,
    within_secs=14.0,
)
def three_results(call: StagedCall, shift: float) -> None:
    call.user_asks("Look at the first day.", at=0.5, until=1.2, answer="Sure.", calls=["check_first"])
    call.user_asks("Look at the second day.", at=3.0, until=3.7, answer="Sure.", calls=["check_second"])
    call.user_asks("Look at the third day.", at=5.5, until=6.2, answer="Sure.", calls=["check_third"])
    call.user_asks("Tell me about the house.", at=8.0, until=8.7, answer=THE_PRACTICE)
    call.tool_finishes("check_first", at=11.0 + shift, result={"found": "mon-full"})
    call.tool_finishes("check_second", at=11.5 + shift, result={"found": "tue-1"})
    call.tool_finishes("check_third", at=12.0 + shift, result={"found": "wed-ok"})


@conversation(
    "D8a",
    "the news that the bot has stopped comes late",
    facts=[SLOT],
    shifts=[-0.9, -0.6, -0.3, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.5],
    options=lambda: behind_output(LatePlaybackEnd()),
)
def stop_is_late(call: StagedCall, shift: float) -> None:
    call.prop.late_secs = 1.0 + shift
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=3.2, result=THURSDAY)


@conversation(
    "D8b",
    "another result in the pause between two sentences of an update",
    facts=[GOOD_NEWS, PRICE],
    tools=["check_slots", "find_price"],
    shifts=[-2.5, -1.5, -1.0, -0.7, -0.3, 0.2, 0.4, 0.6, 0.9, 1.5],
    options=lambda: {"voice": ScriptedVoice(first_audio_secs=1.6)},
    until=25.0,
    within_secs=12.0,
)
def pause_between_sentences(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("What does it cost?", at=5.5, until=6.0, answer="Let me see.", calls=["find_price"])
    call.tool_finishes("check_slots", at=10.5, result=THURSDAY)
    call.tool_finishes("find_price", at=13.6 + shift, result={"price_eur": 40})


@conversation(
    "D8c",
    "a stray pair of bot-started and bot-stopped",
    facts=[SLOT],
    shifts=[-0.4, -0.25, -0.1, 0.1, 0.2, 0.3, 0.6, 1.0, 1.5, 2.0],
    options=lambda: behind_output(StrayPlayback()),
)
def stray_pair(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.0, result=THURSDAY)
    call.at(5.2 + shift, call.prop.claim)


@conversation(
    "D8d",
    "bot-stopped and bot-started in mid-sentence",
    facts=[SLOT, PRICE],
    tools=["check_slots", "find_price"],
    shifts=[-0.6, -0.5, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8, 1.1, 1.4],
    options=lambda: behind_output(SplitPlayback()),
    until=18.0,
)
def split_in_mid_sentence(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("What does it cost?", at=4.0, until=4.5, answer="Let me see.", calls=["find_price"])
    call.tool_finishes("check_slots", at=8.0, result=THURSDAY)
    call.tool_finishes("find_price", at=9.0, result={"price_eur": 40})
    call.at(9.0 + shift, call.prop.claim)


@conversation(
    "D9a",
    "a handler raises",
    facts=[FAILED],
    shifts=[-1.55, -1.5, -1.4, -1.3, -1.25, -1.0, -0.5, 0.5, 1.0, 2.0],
    options=lambda: {"expect_errors": True},
)
def raises(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0 + shift, error=RuntimeError("connection pool exhausted"))


@conversation(
    "D9b",
    "a native handler returns without reporting",
    facts=[TIMED_OUT],
    tools=[Tool(name="check_slots", timeout_secs=3.0, reports=0)],
    shifts=[-1.55, -1.5, -1.4, -1.3, -1.25, -1.0, -0.5, 0.5, 1.0, 1.4],
    doors=NATIVE,
    within_secs=9.0,
)
def never_reports(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0 + shift, result=THURSDAY)


@conversation(
    "D9c",
    "a handler never ends, and its deadline passes near the caller's next words",
    facts=[TIMED_OUT],
    tools=[Tool(name="check_slots", timeout_secs=3.0)],
    shifts=[-2.0, -1.5, -1.0, -0.8, -0.4, 0.2, 0.6, 0.9, 1.5, 2.5],
)
def never_ends(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("Are you still there?", at=5.3 + shift, until=6.3 + shift, answer="I am here.")
    call.tool_hangs("check_slots")
