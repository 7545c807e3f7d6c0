# SPDX-License-Identifier: BSD-2-Clause
"""Tellings: taken under the session's fence, settled by who still has them, given up when nobody comes."""

import asyncio

import pytest

from pipecat_async_tools.store.rows import TellingEnd, TellingRecord
from tests.builders import operation
from tests.store.builders import (
    DONE,
    FAR,
    accept,
    delivery_of,
    end,
    events,
    finish_telling,
    hold,
    names,
    owe,
    tell,
    the_event,
)
from tests.store.databases import SOON

EVENTS = {
    "completed": "on_delivery_spoken",
    "withdrawn": "on_delivery_withdrawn",
    "interrupted": "on_delivery_interrupted",
    "lost": "on_delivery_interrupted",
    "unheard": "on_delivery_interrupted",
    "uncovered": "on_delivery_withdrawn",
}


async def three(store):
    """Three deliveries, oldest first, and the fence of their session."""
    rows = [await owe(store, batch_id=name) for name in ("a", "b", "c")]
    return [row.delivery_id for row in rows], await hold(store)


async def states(store):
    """The states of the deliveries of the session, oldest first."""
    return [row.state for row in await store.deliveries("room")]


async def test_deliveries_come_oldest_first(store, another):
    rows = [await owe(store, batch_id=name) for name in ("z", "m", "a")]
    assert await another.deliveries("room") == rows
    assert await another.open_deliveries("room") == rows
    assert await store.deliveries("nowhere") == []
    assert await store.open_deliveries("nowhere") == []


async def test_open_is_what_is_pending_or_being_told(store):
    ids, fence = await three(store)
    await store.claim_telling("room", [ids[1]], "telling-1", fence=fence)
    await store.suppress("room", ids[0], "stale", fence=fence)
    assert [(row.delivery_id, row.state) for row in await store.open_deliveries("room")] == [
        (ids[1], "telling"),
        (ids[2], "pending"),
    ]


async def test_granted_is_what_is_pending_in_the_order_asked_for(store):
    ids, fence = await three(store)
    asked = [ids[2], "nowhere", ids[0]]
    assert await store.claim_telling("room", asked, "telling-1", fence=fence) == (ids[2], ids[0])
    assert await states(store) == ["telling", "pending", "telling"]
    rows = {row.delivery_id: row.telling_id for row in await store.deliveries("room")}
    assert rows == {ids[0]: "telling-1", ids[1]: None, ids[2]: "telling-1"}
    started = await events(store, "on_delivery_started")
    assert [(e.delivery_id, e.telling_id) for e in started] == [(ids[2], "telling-1"), (ids[0], "telling-1")]


async def test_nothing_of_another_session_is_granted(store):
    delivery = await owe(store)
    fence = await hold(store, "elsewhere")
    assert await store.claim_telling("elsewhere", [delivery.delivery_id], "t", fence=fence) == ()
    assert await states(store) == ["pending"]


async def test_nothing_that_is_over_is_granted(store):
    ids, fence = await three(store)
    await store.suppress("room", ids[0], "stale", fence=fence)
    await store.claim_telling("room", ids[1:], "t", fence=fence)
    ends = [end(ids[1], telling_id="t"), end(ids[2], "undeliverable", "lost", telling_id="t")]
    await store.settle_telling("t", ends)
    assert await store.claim_telling("room", ids, "t2", fence=fence) == ()
    assert await states(store) == ["suppressed", "spoken", "undeliverable"]


async def test_under_an_older_fence_nothing_is_granted(store, another):
    ids, old = await three(store)
    await store.renew("call", 0.0)
    new = await hold(another, owner="other")
    log = await names(store)
    assert await store.claim_telling("room", ids, "stale", fence=old) == ()
    assert await store.claim_telling("room", ids, "forged", fence=new + 1) == ()
    assert await store.claim_telling("nowhere", ids, "forged", fence=1) == ()
    assert await names(store) == log
    assert await another.claim_telling("room", ids, "t", fence=new) == tuple(ids)


async def test_who_let_go_tells_nothing(store):
    ids, fence = await three(store)
    await store.release_session("room", owner="call")
    assert await store.claim_telling("room", ids, "t", fence=fence) == ()
    assert await states(store) == ["pending"] * 3


async def test_a_newer_telling_takes_over(store, another):
    ids, fence = await three(store)
    await store.claim_telling("room", ids[:2], "old", fence=fence)
    await store.renew("call", 0.0)
    newer = await hold(another, owner="other")
    assert await another.claim_telling("room", ids[1:], "new", fence=newer) == tuple(ids[1:])
    late = [end(name, telling_id="old") for name in ids]
    assert await store.settle_telling("old", late) == (ids[0],)
    assert await states(store) == ["spoken", "telling", "telling"]
    ends = [end(name, telling_id="new") for name in ids]
    assert await another.settle_telling("new", ends) == tuple(ids[1:])
    told = await store.deliveries("room")
    assert [[t.telling_id for t in row.tellings] for row in told] == [["old"], ["new"], ["new"]]


@pytest.mark.parametrize("outcome", EVENTS)
async def test_how_a_telling_ended_is_written_down(store, outcome):
    delivery = await owe(store)
    await tell(store, delivery)
    state = "spoken" if outcome == "completed" else "pending"
    since = len(await names(store))
    how = end(delivery.delivery_id, state, outcome, heard="There is", text="There is a slot at ten.")
    assert await store.settle_telling("telling-1", [how]) == (delivery.delivery_id,)
    now = await delivery_of(store, delivery.delivery_id)
    assert (now.state, now.reason, now.heard, now.text) == (state, how.reason, how.heard, how.text)
    assert now.tellings == (how.record,)
    assert now.telling_id == "telling-1"
    assert await names(store, since) == [EVENTS[outcome]]
    event = await the_event(store, EVENTS[outcome])
    assert (event.delivery_id, event.telling_id) == (delivery.delivery_id, "telling-1")
    assert (event.reason, event.session_id, event.batch_id) == (outcome, "room", "batch-1")


async def test_a_telling_without_audio_has_no_start(store, another):
    delivery = await owe(store)
    await tell(store, delivery)
    how = end(delivery.delivery_id, "pending", "lost")
    silent = type(how.record)(**{**vars(how.record), "started_at": None})
    await store.settle_telling("telling-1", [type(how)(**{**vars(how), "record": silent})])
    assert (await another.deliveries("room"))[0].tellings == (silent,)


async def test_tellings_are_appended(store):
    delivery = await owe(store)
    fence = await hold(store)
    for number in range(3):
        name = f"telling-{number}"
        assert await store.claim_telling("room", [delivery.delivery_id], name, fence=fence)
        state, outcome = ("spoken", "completed") if number == 2 else ("pending", "interrupted")
        ends = [end(delivery.delivery_id, state, outcome, telling_id=name, heard=f"word {number}")]
        await store.settle_telling(name, ends)
    now = await delivery_of(store, delivery.delivery_id)
    assert [telling.telling_id for telling in now.tellings] == ["telling-0", "telling-1", "telling-2"]
    assert [telling.outcome for telling in now.tellings] == ["interrupted", "interrupted", "completed"]
    assert (now.heard, now.ready_at) == ("word 2", delivery.ready_at)


async def test_the_deliveries_of_a_telling_end_each_in_its_own_way(store):
    ids, fence = await three(store)
    await store.claim_telling("room", ids, "telling-1", fence=fence)
    ends = [end(ids[0]), end(ids[2], "pending", "interrupted")]
    assert await store.settle_telling("telling-1", ends) == (ids[0], ids[2])
    assert await states(store) == ["spoken", "telling", "pending"]


async def test_a_telling_is_settled_once(store):
    delivery = await owe(store)
    await finish_telling(store, delivery, "spoken")
    log = await names(store)
    again = [end(delivery.delivery_id, "pending", "interrupted")]
    assert await store.settle_telling("telling-1", again) == ()
    assert await store.settle_telling("unheard of", again) == ()
    assert await states(store) == ["spoken"]
    assert await names(store) == log


async def test_when_two_settle_at_once_one_of_them_does(store, another):
    delivery = await owe(store)
    await tell(store, delivery)
    answers = await asyncio.gather(
        *(s.settle_telling("telling-1", [end(delivery.delivery_id)]) for s in (store, another) for _ in "ab")
    )
    assert sorted(answers) == [(), (), (), (delivery.delivery_id,)]
    assert len((await delivery_of(store, delivery.delivery_id)).tellings) == 1


async def test_what_cannot_be_told_becomes_a_dead_letter(store):
    delivery = await owe(store)
    await tell(store, delivery)
    since = len(await names(store))
    ends = [end(delivery.delivery_id, "undeliverable", "unheard", reason="told too often")]
    await store.settle_telling("telling-1", ends)
    assert await names(store, since) == [
        "on_delivery_interrupted",
        "on_delivery_undeliverable",
        "on_dead_letter_opened",
    ]
    (letter,) = await store.dead_letters()
    assert letter.letter_id == f"dead-{delivery.delivery_id}"
    assert (letter.kind, letter.reason, letter.operation) == ("delivery", "told too often", None)
    assert letter.delivery == await delivery_of(store, delivery.delivery_id)
    assert letter.delivery.state == "undeliverable"
    opened = await the_event(store, "on_dead_letter_opened")
    lost = await the_event(store, "on_delivery_undeliverable")
    assert opened.delivery_id == lost.delivery_id == delivery.delivery_id


async def test_a_pending_delivery_is_suppressed(store):
    delivery = await owe(store)
    fence = await hold(store)
    assert await store.suppress("room", delivery.delivery_id, "stale", fence=fence) is True
    now = await delivery_of(store, delivery.delivery_id)
    assert (now.state, now.reason) == ("suppressed", "stale")
    event = await the_event(store, "on_delivery_suppressed")
    assert (event.delivery_id, event.reason) == (delivery.delivery_id, "stale")
    assert await store.suppress("room", delivery.delivery_id, "again", fence=fence) is False
    assert len(await events(store, "on_delivery_suppressed")) == 1


async def test_what_is_not_pending_or_not_ours_is_not_suppressed(store):
    delivery = await owe(store)
    old = await tell(store, delivery)
    assert await store.suppress("room", delivery.delivery_id, "stale", fence=old) is False
    await store.settle_telling("telling-1", [end(delivery.delivery_id, "pending", "interrupted")])
    await store.renew("call", 0.0)
    new = await hold(store, owner="other")
    elsewhere = await hold(store, "elsewhere", owner="other")
    assert await store.suppress("room", delivery.delivery_id, "stale", fence=old) is False
    assert await store.suppress("room", "nowhere", "stale", fence=new) is False
    assert await store.suppress("elsewhere", delivery.delivery_id, "stale", fence=elsewhere) is False
    assert await states(store) == ["pending"]
    assert await events(store, "on_delivery_suppressed") == []


async def test_for_a_caller_who_never_comes_deliveries_are_given_up(store, clock):
    delivery = await owe(store)
    await clock.pass_()
    assert await store.give_up_deliveries(FAR) == []
    since = len(await names(store))
    (lost,) = await store.give_up_deliveries(SOON)
    assert lost == await delivery_of(store, delivery.delivery_id)
    assert (lost.state, lost.reason) == ("undeliverable", "nobody was there for 0.05 s")
    (letter,) = await store.dead_letters()
    assert (letter.kind, letter.delivery, letter.reason) == ("delivery", lost, lost.reason)
    assert await names(store, since) == ["on_delivery_undeliverable", "on_dead_letter_opened"]
    assert await store.give_up_deliveries(SOON) == []


async def test_while_somebody_is_there_nothing_is_given_up(store, clock):
    delivery = await owe(store, batch_id="pending")
    await owe(store, batch_id="telling")
    await tell(store, delivery)
    await clock.pass_()
    assert await store.give_up_deliveries(0.0) == []
    assert await states(store) == ["telling", "pending"]


async def test_when_who_told_them_died_they_are_given_up(store, clock):
    delivery = await owe(store)
    await tell(store, delivery)
    await store.renew("call", 0.0)
    assert await store.give_up_deliveries(FAR) == []
    await clock.pass_()
    (lost,) = await store.give_up_deliveries(SOON)
    assert lost.state == "undeliverable"
    assert await store.settle_telling("telling-1", [end(delivery.delivery_id)]) == ()


async def test_they_wait_from_when_the_session_was_let_go(store, clock):
    await owe(store)
    await hold(store)
    await clock.pass_(0.4 if not clock.exact else 100.0)
    await store.release_session("room", owner="call")
    assert await store.give_up_deliveries(0.4) == []
    assert await states(store) == ["pending"]


async def test_they_wait_from_when_they_are_ready(store, clock):
    new = await accept(store)
    await clock.pass_(0.4 if not clock.exact else 100.0)
    await store.finish(new.operation_id, DONE)
    assert await store.give_up_deliveries(0.4) == []
    assert await states(store) == ["pending"]


async def test_a_replayed_delivery_waits_anew(store, clock):
    await owe(store)
    await clock.pass_(0.4)
    await store.give_up_deliveries(0.4)
    (letter,) = await store.dead_letters()
    await store.replay(letter.letter_id)
    assert await store.give_up_deliveries(0.4) == []
    assert await states(store) == ["pending"]


async def test_only_the_deliveries_of_one_session_are_given_up(store, clock):
    for name in ("a", "b"):
        new = await accept(store, operation(session_id=name, batch_id=name))
        await store.finish(new.operation_id, DONE)
    await clock.pass_()
    assert [row.session_id for row in await store.give_up_deliveries(SOON, session_id="b")] == ["b"]
    assert len(await store.open_deliveries("a")) == 1
    assert [row.session_id for row in await store.give_up_deliveries(SOON)] == ["a"]


async def test_they_are_given_up_once(store, another, clock):
    for name in ("a", "b", "c"):
        await owe(store, batch_id=name)
    await clock.pass_()
    answers = await asyncio.gather(*(s.give_up_deliveries(SOON) for s in (store, another) for _ in "ab"))
    assert sorted(row.batch_id for answer in answers for row in answer) == ["a", "b", "c"]
    assert len(await store.dead_letters()) == 3


@pytest.mark.parametrize("mode", ["proactive", "next_turn"])
async def test_how_it_is_told_is_kept_with_it(store, another, mode):
    row = await owe(store)
    assert row.mode is None
    fence = await hold(store)
    await store.claim_telling("room", [row.delivery_id], "telling-1", fence=fence, mode=mode)
    assert (await another.deliveries("room"))[0].mode == mode
    assert (await the_event(store, "on_delivery_started")).detail == {"mode": mode}
    record = TellingRecord(
        telling_id="telling-1", started_at=1.0, ended_at=2.0, heard="", outcome="uncovered", mode=mode
    )
    ending = TellingEnd(
        delivery_id=row.delivery_id, state="pending", reason="uncovered", record=record, heard="", text=""
    )
    await store.settle_telling("telling-1", [ending])
    (told,) = await another.deliveries("room")
    assert told.mode == mode and told.tellings == (record,)
