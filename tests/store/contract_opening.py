# SPDX-License-Identifier: BSD-2-Clause
"""Opening and closing: whoever comes first makes the database, and what was answered is kept."""

import asyncio

import pytest

from pipecat_async_tools.operations.operation import OperationStatus
from tests.builders import operation
from tests.store.builders import DONE, FAR, accept, hold, ids_of, owe, run
from tests.store.databases import KINDS

outlives_its_store = pytest.mark.parametrize("database", KINDS[1:], indirect=True)


async def test_opening_again_does_nothing(store):
    await store.open()
    new = await accept(store)
    await store.open()
    assert ids_of(await store.operations("room")) == [new.operation_id]


async def test_every_method_opens_the_store_by_itself(database):
    for use in (
        lambda store: store.now(),
        lambda store: store.renew("me", 1.0),
        lambda store: store.operations("room"),
        lambda store: store.events(),
        lambda store: store.recover(),
        lambda store: store.prune(FAR),
        lambda store: anext(store.watch()),
    ):
        await use(database.connect())


async def test_many_may_open_a_new_database_at_once(database):
    stores = [database.connect() for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(accept(store, operation(batch_id=f"{i}")) for i, store in enumerate(stores)))
    for store in stores:
        assert len(await store.operations("room")) == 5


async def test_many_may_use_a_new_database_at_once(database):
    stores = [database.connect() for _ in range(5)]
    await asyncio.gather(*(accept(store, operation(batch_id=f"{i}")) for i, store in enumerate(stores)))
    assert len(await stores[0].operations("room")) == 5


@outlives_its_store
async def test_what_was_answered_is_kept_when_the_store_is_closed(database, store, another):
    fence = await hold(store)
    delivery = await owe(store)
    claim = await run(store, batch_id="b")
    log = await store.events()
    await store.close()
    later = database.connect()
    for reader in (another, later):
        assert await reader.open_deliveries("room") == [delivery]
        assert await reader.operation(claim.operation.operation_id) == claim.operation
        assert await reader.events() == log
    assert await later.hold_session("room", owner="call") == fence
    finished = await later.finish(claim.operation.operation_id, DONE, fence=claim.fence)
    assert finished.operation.status is OperationStatus.SUCCEEDED


async def test_a_store_may_be_closed_unused_twice_and_used_again(database, store):
    await store.close()
    new = await accept(store)
    await store.close()
    await store.close()
    kept = [] if database.kind == "memory" else [new.operation_id]
    assert ids_of(await store.operations("room")) == kept


@outlives_its_store
async def test_what_is_answered_while_the_store_is_closed_is_kept(database, store, another):
    await store.open()
    writing = [asyncio.create_task(accept(store, operation(batch_id=f"{i}"))) for i in range(5)]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*writing, return_exceptions=True)
    answered = [answer.operation_id for answer in answers if not isinstance(answer, BaseException)]
    assert set(answered) <= set(ids_of(await another.operations("room")))


async def test_two_processes_see_one_truth(store, another):
    new = await accept(store, owner="a")
    claim = await another.claim(new.operation_id, owner="b")
    assert await store.claim(new.operation_id, owner="a") is None
    finished = await another.finish(new.operation_id, DONE, fence=claim.fence)
    assert await store.deliveries("room") == [finished.delivery]
    assert await store.events() == await another.events()
