# SPDX-License-Identifier: BSD-2-Clause
"""What the callers are to hear. Every fact has words that nothing else in its conversation has."""

from tests.conversations.mind import Fact

SLOT = Fact("There is a slot at ten.", data="10:00")
SLOT_AND_DOCTOR = Fact(
    "Doctor Brown can see you this Thursday morning at ten in the green building.", data="10:00"
)
TWENTY_WORDS = Fact(
    "Doctor Brown offers you Thursday morning at ten in our green building opposite the old railway "
    "station near Mill Lane.",
    data="10:00",
)
GOOD_NEWS = Fact("Good news. There is a slot at ten.", data="10:00")
ALARM = Fact("There is smoke in the kitchen.", data="smoke")
PRICE = Fact("It costs forty euros.", data="price_eur")
MONDAY = Fact("Monday is full.", data="mon-full")
TUESDAY = Fact("Tuesday has one place.", data="tue-1")
WEDNESDAY = Fact("Wednesday works well.", data="wed-ok")
FRIDAY = Fact("Friday at noon works.", data="12:00")
CANCELLED = Fact("That has been stopped.", data=r'"status": "cancelled"|CANCELLED')
FAILED = Fact("Sadly that failed.", data=r'"status": "failed"|failed and returned no result')
TIMED_OUT = Fact("I could not confirm that.", data=r'"status": "(timed_out|unknown)"|CANCELLED')


def nothing_left(result: str) -> Fact:
    """A fact about a result that is empty, or false."""
    return Fact("None are left.", data=rf'"result": {result}[}},]|^{result}$')


THE_PRACTICE = (
    "We are three doctors and two nurses in a bright modern house with a lift and our own car park."
)
