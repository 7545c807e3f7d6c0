# SPDX-License-Identifier: BSD-2-Clause
"""The conflicts C1 to C6 and C12 of FIELD-CASES.md, as conversations.

The model answers 0.6 s after the caller stopped and takes 0.3 s to its first word; a word takes 0.3 s.
So the first question is answered, and the tool called, at 2.42.
"""

from tests.conversations.facts import (
    CANCELLED,
    PRICE,
    SLOT,
    SLOT_AND_DOCTOR,
    THE_PRACTICE,
)
from tests.conversations.props import RepeatsResults, SlowWayToContext, before_model, behind_model
from tests.conversations.script import OURS, StagedCall, conversation

THURSDAY = {"slot": "10:00"}
THURSDAY_IN_THE_GREEN_BUILDING = {"slot": "10:00", "where": "green building"}


def ask_for_thursday(call: StagedCall) -> None:
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])


@conversation(
    "C1",
    "the tool finishes while the caller is still speaking",
    facts=[SLOT],
    shifts=[-2.1, -1.85, -1.7, -1.6, -1.4, 1.4, 1.65, 2.05, 2.5, 3.3, 3.9],
)
def finishes_under_speech(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("And how do I get there?", at=5.0, until=8.0, answer="Take the bus.")
    call.tool_finishes("check_slots", at=6.5 + shift, result=THURSDAY)


@conversation(
    "C1b",
    "the same, and the model takes its time to answer the caller",
    facts=[SLOT],
    shifts=[-2.1, -1.7, 1.4, 1.65, 2.05, 2.3, 2.8, 3.3, 3.55, 3.9, 4.4],
    until=16.0,
)
def finishes_before_a_slow_answer(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("And how do I get there?", at=5.0, until=8.0, answer="Take the bus.", thinks_secs=1.5)
    call.tool_finishes("check_slots", at=6.5 + shift, result=THURSDAY)


@conversation(
    "C1c",
    "the caller begins while the update is on its way to the model",
    facts=[SLOT],
    shifts=[-0.4, -0.25, -0.19, -0.1, -0.05, 0.05, 0.09, 0.11, 0.2, 0.5, 1.0],
    options=lambda: before_model(SlowWayToContext()),
)
def begins_at_the_last_instant(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.0, result=THURSDAY)
    call.user_asks("And how do I get there?", at=5.0 + shift, until=6.5 + shift, answer="Take the bus.")


@conversation(
    "C2",
    "the tool finishes during playback",
    facts=[SLOT],
    shifts=[-4.0, -3.3, -2.5, -2.4, -2.1, 2.0, 3.4, 3.75, 4.1, 4.6],
    until=18.0,
    within_secs=12.0,
)
def finishes_under_playback(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.user_asks("Tell me about the house.", at=4.0, until=5.0, answer=THE_PRACTICE)
    call.tool_finishes("check_slots", at=8.0 + shift, result=THURSDAY)


@conversation(
    "C3",
    "two tools of one batch finish in reverse order",
    facts=[SLOT, PRICE],
    tools=["check_slots", "find_price"],
    shifts=[-3.3, -2.5, -2.1, -2.05, -2.0, -1.95, -1.9, -1.65, -0.7, 1.5],
)
def finish_in_reverse(call: StagedCall, shift: float) -> None:
    call.user_asks(
        "Is Thursday free, and at what price?",
        at=0.5,
        until=1.5,
        answer="One moment.",
        calls=["check_slots", "find_price"],
    )
    call.tool_finishes("check_slots", at=6.0 + shift, result=THURSDAY)
    call.tool_finishes("find_price", at=4.0, result={"price_eur": 40})


@conversation(
    "C4",
    "a callback arrives twice",
    facts=[SLOT],
    shifts=[-0.5, -0.45, -0.3, -0.15, 0.2, 0.5, 1.0, 1.6, 2.0, 3.0],
    options=lambda: behind_model(RepeatsResults()),
)
def arrives_twice(call: StagedCall, shift: float) -> None:
    call.prop.after_secs = 0.5 + shift
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.0, result=THURSDAY)


@conversation(
    "C5",
    "the caller interrupts before hearing the completion",
    facts=[SLOT_AND_DOCTOR],
    shifts=[-2.1, -1.9, -1.85, -1.8, -1.5, -1.0, 1.0, 2.0, 2.3, 2.55, 2.7],
)
def interrupts_the_telling(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=4.0, result=THURSDAY_IN_THE_GREEN_BUILDING)
    call.user_asks("Hold on a second.", at=6.0 + shift, until=6.8 + shift, answer="Sure.")


@conversation(
    "C6",
    "the application cancels an operation",
    facts=lambda shift: [CANCELLED] if shift <= 3.0 else [SLOT],
    shifts=[-2.2, -1.9, -1.0, 1.0, 2.95, 3.05, 3.3, 3.5, 4.5, 6.0],
    doors=OURS,
    cancels=True,
)
def is_cancelled(call: StagedCall, shift: float) -> None:
    async def cancel() -> None:
        assert call.async_tools is not None
        (operation,) = call.async_tools.snapshot().operations
        call.seen["cancelled"] = await call.async_tools.cancel(operation.operation_id)

    ask_for_thursday(call)
    call.at(5.0 + shift, cancel)
    call.tool_finishes("check_slots", at=8.0, result=THURSDAY)


@conversation(
    "C12",
    "a false start of the voice detection",
    facts=[SLOT],
    shifts=[-1.0, -0.5, -0.25, -0.1, 0.1, 0.3, 0.36, 0.6, 1.2, 1.9, 2.3],
)
def false_start(call: StagedCall, shift: float) -> None:
    ask_for_thursday(call)
    call.tool_finishes("check_slots", at=5.3, result=THURSDAY)
    call.user_speaks(at=5.0 + shift, until=5.4 + shift)
