# SPDX-License-Identifier: BSD-2-Clause
"""Sessions: held by one living owner at a time, under a fence that grows with every change of hands."""

import asyncio

import pytest

from pipecat_async_tools.errors import StoreError
from tests.builders import operation
from tests.store.builders import (
    FAR,
    TIMED_OUT,
    accept,
    end,
    events,
    hold,
    owe,
    run,
    settle,
    tell,
    the_event,
)
from tests.store.databases import SOON


async def test_who_holds_a_session_keeps_it(store, another):
    assert await hold(store, owner="me") == 1
    assert await hold(store, owner="me") == 1
    await another.renew("you", FAR)
    assert await another.hold_session("room", owner="you") is None
    assert await another.hold_session("elsewhere", owner="you") == 1
    held = await events(store, "on_session_held")
    assert [event.session_id for event in held] == ["room", "elsewhere"]


async def test_without_a_lease_nobody_holds_anything(store):
    with pytest.raises(StoreError, match="nobody"):
        await store.hold_session("room", owner="nobody")
    await store.renew("dead", 0.0)
    with pytest.raises(StoreError, match="dead"):
        await store.hold_session("room", owner="dead")
    assert await hold(store, owner="me") == 1
    await store.renew("me", 0.0)
    with pytest.raises(StoreError, match="me"):
        await store.hold_session("room", owner="me")


async def test_each_change_of_hands_makes_the_fence_grow(store, another):
    assert await hold(store, owner="a") == 1
    await store.release_session("room", owner="a")
    assert await hold(store, owner="a") == 2
    await another.release_session("room", owner="a")
    assert await hold(another, owner="b") == 3
    await store.renew("b", 0.0)
    assert await hold(store, owner="c") == 4
    assert len(await events(store, "on_session_held")) == 4
    assert len(await events(store, "on_session_released")) == 2


async def test_only_who_holds_it_lets_go(store):
    await hold(store, owner="me")
    await store.release_session("room", owner="you")
    await store.release_session("nowhere", owner="me")
    assert await events(store, "on_session_released") == []
    await store.renew("you", FAR)
    assert await store.hold_session("room", owner="you") is None
    await store.release_session("room", owner="me")
    await store.release_session("room", owner="me")
    assert (await the_event(store, "on_session_released")).session_id == "room"


async def test_a_lease_runs_out_by_itself(store, clock):
    await store.renew("me", 4 * SOON)
    assert await store.hold_session("room", owner="me") == 1
    await clock.pass_(4 * SOON)
    assert await hold(store, owner="you") == 2


async def test_a_lease_that_is_renewed_goes_on(store, clock):
    await store.renew("me", SOON)
    await store.renew("me", FAR)
    await store.hold_session("room", owner="me")
    await clock.pass_()
    await store.renew("you", FAR)
    assert await store.hold_session("room", owner="you") is None


async def test_who_comes_back_before_anybody_took_over_still_holds_it(store):
    await hold(store, owner="me")
    await store.renew("me", 0.0)
    assert await hold(store, owner="me") == 1
    await store.renew("you", FAR)
    assert await store.hold_session("room", owner="you") is None


async def test_who_comes_back_too_late_is_another(store):
    await hold(store, owner="me")
    await store.renew("me", 0.0)
    assert await hold(store, owner="you") == 2
    await store.renew("me", FAR)
    assert await store.hold_session("room", owner="me") is None
    await store.release_session("room", owner="me")
    assert await hold(store, owner="you") == 2


async def test_of_many_who_want_it_at_once_one_holds_it(store, another):
    for i in range(8):
        await store.renew(f"call-{i}", FAR)
    stores = [store, another] * 4
    fences = await asyncio.gather(*(s.hold_session("room", owner=f"call-{i}") for i, s in enumerate(stores)))
    assert sorted(fences, key=str) == [1] + [None] * 7
    await the_event(store, "on_session_held")


async def test_the_sessions_at_a_glance(store, clock):
    await owe(store, session_id="quiet", batch_id="q")
    await clock.pass_(0.005)
    before = await store.now()
    await hold(store, "busy", owner="me")
    await settle(store, outcome=TIMED_OUT, session_id="busy", batch_id="b1")
    await run(store, session_id="busy", batch_id="b2")
    await accept(store, operation(session_id="busy", batch_id="b3"))
    busy, quiet = await store.sessions()
    assert (busy.session_id, busy.owner) == ("busy", "me")
    assert (busy.operations, busy.running, busy.open_deliveries, busy.dead_letters) == (3, 2, 1, 1)
    assert before <= busy.first_at <= busy.last_at <= await store.now()
    assert (quiet.session_id, quiet.owner) == ("quiet", None)
    assert (quiet.operations, quiet.running, quiet.open_deliveries, quiet.dead_letters) == (1, 0, 1, 0)


async def test_the_session_with_the_latest_activity_comes_first(store, clock):
    for name in ("a", "b", "c"):
        await clock.pass_(0.005)
        await accept(store, operation(session_id=name, batch_id=name))
    await clock.pass_(0.005)
    await store.answer_natively("a")
    await accept(store, operation(session_id="a", batch_id="a2"))
    assert [row.session_id for row in await store.sessions()] == ["a", "c", "b"]
    assert [row.session_id for row in await store.sessions(limit=2)] == ["a", "c"]


async def test_nobody_alive_is_nobody(store):
    await hold(store, owner="me")
    await store.renew("me", 0.0)
    assert [row.owner for row in await store.sessions()] == [None]
    await hold(store, owner="you")
    assert [row.owner for row in await store.sessions()] == ["you"]
    await store.release_session("room", owner="you")
    assert [row.owner for row in await store.sessions()] == [None]


async def test_what_is_told_or_closed_is_not_counted_as_open(store):
    lost = await settle(store, TIMED_OUT)
    await tell(store, lost.delivery)
    (row,) = await store.sessions()
    assert (row.open_deliveries, row.dead_letters) == (1, 1)
    await store.settle_telling("telling-1", [end(lost.delivery.delivery_id)])
    await store.close_dead_letter(lost.dead_letter, "seen to")
    (row,) = await store.sessions()
    assert (row.open_deliveries, row.dead_letters) == (0, 0)
