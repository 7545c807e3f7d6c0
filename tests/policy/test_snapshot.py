# SPDX-License-Identifier: BSD-2-Clause
"""What an interface sees at a glance, in the call and out of the store."""

from pipecat_async_tools import DeliveryPolicy, session_view
from pipecat_async_tools.testing import virtual_time
from tests.conversations.facts import SLOT
from tests.conversations.script import SESSION
from tests.policy.talk import PRICE, bot, both_doors, heard_out

BOTH = ["check_slots", "find_price"]


def looked_at(call, *moments):
    """Look at the session at these moments, from the inside and through the store."""
    seen = call.seen["looks"] = []

    async def look():
        ours, stored = call.async_tools.snapshot(), await session_view(call.async_tools._store, SESSION)
        seen.append((ours, stored))

    for at in moments:
        call.at(at, look)
    return seen


def modes(seen):
    return [(ours.sync_mode, stored.sync_mode) for ours, stored in seen]


@both_doors
@virtual_time
async def test_the_modes_of_an_update_that_is_told_by_itself(door):
    call = bot(door, {"check_slots": {}, "find_price": {}}, [SLOT, PRICE])
    seen = looked_at(call, 0.2, 3.5, 5.0, 8.2, 9.5, 14.0)
    call.user_asks("Is Thursday free, and at what price?", at=0.5, until=1.5, answer="Sure.", calls=BOTH)
    call.user_says(at=6.5, until=8.4, text=None)
    call.tool_finishes("check_slots", at=4.0, result=False)
    call.tool_finishes("find_price", at=7.0, result={"price_eur": 40})
    await heard_out(call, 20)
    told = [m for m in modes(seen)]
    assert told[:4] == [(m, m) for m in ("idle", "waiting", "aggregating", "queued_final")]
    assert told[-1] == ("idle", "idle")
    aggregating = seen[2]
    for view in aggregating:
        (batch,) = view.batches
        assert len(batch.missing) == 1 and not batch.closed
        assert [o.attempts for o in view.operations] == [1, 1]


@both_doors
@virtual_time
async def test_proactive_and_next_turn(door):
    call = bot(door, {"check_slots": {}}, [SLOT])
    seen = looked_at(call, 4.7, 13.0)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00"})
    call.user_asks("And Friday?", at=8.0, until=9.0, answer="Let me see.", calls=["check_slots"])
    call.user_asks("How do I get there?", at=12.0, until=14.0, answer="Take the bus.")
    call.tool_finishes("check_slots", nth=1, at=12.5, result={"slot": "10:00"})
    await heard_out(call, 20)
    assert modes(seen) == [("proactive", "proactive"), ("next_turn", "next_turn")]


@both_doors
@virtual_time
async def test_a_batch_that_is_held_open_says_so_and_misses_nothing(door):
    call = bot(door, {"check_slots": {}}, [SLOT])
    call.async_tools.open_batch("trip")
    seen = looked_at(call, 6.0)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00"})
    await heard_out(call, 8)
    for view in seen[0]:
        (batch,) = view.batches
        assert batch.held_open and batch.missing == () and view.sync_mode == "aggregating"


@both_doors
@virtual_time
async def test_deliveries_have_mode_reason_and_the_words_heard(door):
    call = bot(door, {"check_slots": {}}, [SLOT], delivery=DeliveryPolicy(proactive=False))
    seen = looked_at(call, 6.0, 14.0)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=4.0, result={"slot": "10:00"})
    call.user_asks("How do I get there?", at=8.0, until=9.0, answer="Take the bus.")
    await heard_out(call, 20)
    waiting, told = seen
    assert waiting[0].deliveries[0].reason == "it is told with the next answer only"
    for view in told:
        (delivery,) = view.deliveries
        assert (delivery.state, delivery.mode) == ("spoken", "next_turn")
        assert delivery.tellings[-1].heard == f"Take the bus. {SLOT.sentence}"
