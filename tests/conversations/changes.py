# SPDX-License-Identifier: BSD-2-Clause
"""What changes while work runs: the line, the request, the urgency (C7, C9 to C11, D12)."""

from tests.conversations.conflicts import THURSDAY, THURSDAY_IN_THE_GREEN_BUILDING, ask_for_thursday
from tests.conversations.facts import ALARM, FRIDAY, SLOT, SLOT_AND_DOCTOR, THE_PRACTICE
from tests.conversations.script import StagedCall, Tool, conversation


def calls_again(call: StagedCall) -> None:
    call.bot_greets("Welcome back.", at=0.3)
    call.user_asks("Hello, me again.", at=3.0, until=4.0, answer="How can I help?")


@conversation(
    "C7",
    "the caller hangs up with the update pending, and calls again",
    facts=[SLOT],
    shifts=[-2.0, -1.6, -1.2, -0.9, -0.6, -0.4, -0.2, 0.2, 0.4, 0.5],
    then=calls_again,
    until=7.5,
    within_secs=15.0,
)
def hangs_up(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_says(at=4.4, until=7.2, text=None)
    call.tool_finishes("check_slots", at=4.8 + shift, result=THURSDAY)
    call.user_hangs_up(at=5.4)


def about_slots(arguments: object) -> str:
    return "slots"


SLOTS = Tool(name="check_slots", telling={"supersedes": about_slots})


@conversation(
    "C9",
    "a new intent makes an earlier update stale",
    facts=[FRIDAY],
    unwanted=[SLOT],
    tools=[SLOTS],
    runs=2,
    shifts=[-0.9, -0.6, -0.3, -0.1, 0.1, 0.3, 0.6, 1.0, 2.0, 3.0],
    until=20.0,
)
def changes_the_request(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("No, what about Friday?", at=4.0, until=5.0, answer="Let me see.", calls=["check_slots"])
    call.tool_finishes("check_slots", nth=0, at=7.0 + shift, result=THURSDAY)
    call.tool_finishes("check_slots", nth=1, at=9.0, result={"slot": "12:00"})


@conversation(
    "C10",
    "an urgent result interrupts and a normal one waits",
    facts=[SLOT_AND_DOCTOR, ALARM],
    tools=["check_slots", Tool(name="watch_alarm", telling={"priority": "urgent"})],
    shifts=[-3.0, -2.0, -1.0, -0.5, -0.2, 0.2, 0.5, 1.0, 2.0, 3.0],
    until=30.0,
    within_secs=15.0,
)
def alarm_goes_off(call: StagedCall, shift: float) -> None:
    call.user_asks("Watch the alarm.", at=0.5, until=1.5, answer="Sure.", calls=["watch_alarm"])
    call.user_asks("Is Thursday free?", at=3.5, until=4.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=7.0, result=THURSDAY_IN_THE_GREEN_BUILDING)
    call.tool_finishes("watch_alarm", at=8.5 + shift, result={"alarm": "smoke"})


@conversation(
    "C11",
    "the voice is ahead of the line, whose buffer a barge-in clears",
    facts=[SLOT_AND_DOCTOR],
    shifts=[-1.8, -1.5, -1.0, -0.6, -0.3, 0.3, 0.6, 1.0, 1.5, 2.9],
    options=lambda: {"output": "unpaced"},
    until=20.0,
)
def far_end_lags(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY_IN_THE_GREEN_BUILDING)
    call.user_asks("Hold on a second.", at=6.0 + shift, until=6.8 + shift, answer="Sure.")


@conversation(
    "D12",
    "a result is older than its limit when the line is free",
    facts=[],
    unwanted=[SLOT],
    tools=[Tool(name="check_slots", telling={"expires_after_secs": 2.0})],
    shifts=[-0.5, -0.4, -0.3, -0.2, -0.1, 0.1, 0.2, 0.3, 0.4, 0.5],
)
def too_old(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("Tell me about the house.", at=4.0, until=5.0, answer=THE_PRACTICE)
    call.tool_finishes("check_slots", at=7.0 + shift, result=THURSDAY)
