# SPDX-License-Identifier: BSD-2-Clause
"""Intent: every effect is accepted once, whoever asks for it how often."""

import asyncio

import pytest

from pipecat_async_tools.operations.operation import OperationStatus
from tests.builders import operation
from tests.store.builders import DONE, OUTCOMES, TIMED_OUT, accept, events, ids_of, names, settle, the_event
from tests.store.databases import SOON

MODES = ["join", "reject", "replace"]
ANSWERS = {"join": "joined", "reject": "rejected", "replace": "joined"}


def wish(**fields):
    """An operation with an intent that lasts."""
    return operation(**{"intent_key": "book friday", "intent_window_secs": 1000.0, **fields})


async def there(store, status: str, **fields):
    """The operation of the intent, in a status, in a batch of its own."""
    old = await accept(store, wish(**{"batch_id": "batch-0", **fields}))
    if status == "running":
        return (await store.claim(old.operation_id, owner="worker")).operation
    if status in OUTCOMES:
        return (await store.finish(old.operation_id, OUTCOMES[status])).operation
    return old


@pytest.mark.parametrize("mode", ["join", "reject"])
@pytest.mark.parametrize("status", ["accepted", "running", "succeeded", "unknown"])
async def test_a_repeat_gets_the_one_that_is_there(store, status, mode):
    old = await there(store, status)
    (answer,) = await store.accept([wish()], owner="call", on_duplicate=mode)
    assert (answer.operation, answer.duplicate, answer.replaced) == (old, ANSWERS[mode], None)
    assert await store.operations("room") == [old]
    event = await the_event(store, "on_operation_joined")
    assert (event.reason, event.operation_id, event.batch_id) == (ANSWERS[mode], old.operation_id, "batch-0")
    assert (event.intent_key, event.session_id) == ("book friday", "room")


@pytest.mark.parametrize("status", ["succeeded", "unknown"])
async def test_what_is_settled_is_not_replaced_but_joined(store, status):
    old = await there(store, status)
    (answer,) = await store.accept([wish()], owner="call", on_duplicate="replace")
    assert (answer.operation, answer.duplicate, answer.replaced) == (old, "joined", None)
    assert (await the_event(store, "on_operation_joined")).reason == "joined"


@pytest.mark.parametrize("status", ["accepted", "running"])
async def test_what_is_not_settled_is_replaced(store, status):
    old = await there(store, status)
    since = len(await names(store))
    (answer,) = await store.accept([wish(arguments={"newer": True})], owner="call", on_duplicate="replace")
    replaced, new = await store.operations("room")
    assert (answer.operation, answer.replaced, answer.duplicate) == (new, replaced, None)
    assert replaced.operation_id == old.operation_id
    assert replaced.status is OperationStatus.CANCELLED
    assert (replaced.outcome_class, replaced.silent) == ("cancelled", True)
    assert replaced.error == "It was replaced by a newer request."
    assert replaced.settled_at is not None
    assert (new.status, new.arguments) == (OperationStatus.ACCEPTED, {"newer": True})
    assert new.idempotency_key != old.idempotency_key
    log = (await names(store))[since:]
    assert log.index("on_operation_settled") < log.index("on_operation_accepted")
    assert (await the_event(store, "on_operation_settled")).reason == "cancelled"
    assert await store.dead_letters() == []


async def test_who_was_replaced_has_its_batch_closed(store):
    old = await there(store, "accepted")
    await store.accept([wish(batch_id="batch-1")], owner="call", on_duplicate="replace")
    old_batch, new_batch = await store.batches("room")
    assert (old_batch.closed_at is not None, new_batch.closed_at) == (True, None)
    (delivery,) = await store.deliveries("room")
    assert (delivery.batch_id, ids_of(delivery.operations)) == ("batch-0", [old.operation_id])


async def test_a_batch_in_which_one_replaces_another_is_told_once(store):
    old = await there(store, "accepted", batch_id="batch-1")
    (answer,) = await store.accept([wish(batch_id="batch-1")], owner="call", on_duplicate="replace")
    assert await store.deliveries("room") == []
    finished = await store.finish(answer.operation.operation_id, DONE)
    assert ids_of(finished.delivery.operations) == [old.operation_id, answer.operation.operation_id]
    assert len(await store.deliveries("room")) == 1


async def test_who_was_replaced_cannot_finish_any_more(store):
    old = await there(store, "running")
    await store.accept([wish()], owner="call", on_duplicate="replace")
    assert await store.finish(old.operation_id, DONE, fence=1) is None
    assert (await store.operation(old.operation_id)).status is OperationStatus.CANCELLED


@pytest.mark.parametrize("mode", MODES)
async def test_after_a_time_out_the_next_takes_over_the_key_of_the_service(store, mode):
    old = await there(store, "timed_out", idempotency_key="the effect")
    (answer,) = await store.accept([wish()], owner="call", on_duplicate=mode)
    assert (answer.duplicate, answer.replaced) == (None, None)
    assert answer.operation.operation_id != old.operation_id
    assert answer.operation.idempotency_key == "the effect"
    assert (await store.operation(answer.operation.operation_id)).idempotency_key == "the effect"
    assert await events(store, "on_operation_joined") == []


async def test_the_key_of_the_service_goes_on_over_many_time_outs(store, clock):
    await there(store, "timed_out", idempotency_key="the effect")
    for i in range(3):
        await clock.pass_(0.002)
        again = (await settle(store, TIMED_OUT, **vars(wish(batch_id=f"batch-{i}")))).operation
        assert again.idempotency_key == "the effect"


async def test_a_success_counts_more_than_an_older_time_out(store):
    await there(store, "timed_out")
    second = (await settle(store, **vars(wish(batch_id="batch-1")))).operation
    (answer,) = await store.accept([wish(batch_id="batch-2")], owner="call")
    assert (answer.operation, answer.duplicate) == (second, "joined")


async def test_one_that_succeeded_after_all_is_a_duplicate(store):
    old = await there(store, "timed_out")
    await store.finish(old.operation_id, DONE)
    (answer,) = await store.accept([wish()], owner="call")
    assert (answer.operation.operation_id, answer.duplicate) == (old.operation_id, "joined")
    assert answer.operation.result == DONE.result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_what_came_to_nothing_may_be_asked_for_again(store, status, mode):
    await there(store, status, idempotency_key="old")
    new = wish()
    (answer,) = await store.accept([new], owner="call", on_duplicate=mode)
    assert (answer.operation.operation_id, answer.duplicate) == (new.operation_id, None)
    assert answer.operation.idempotency_key == new.idempotency_key


@pytest.mark.parametrize("status", ["succeeded", "unknown", "timed_out"])
async def test_when_the_window_is_over_it_is_another_effect(store, clock, status):
    await there(store, status, intent_window_secs=SOON, idempotency_key="old")
    await clock.pass_(SOON + 0.01)
    new = wish()
    (answer,) = await store.accept([new], owner="call")
    assert (answer.operation.operation_id, answer.duplicate) == (new.operation_id, None)
    assert answer.operation.idempotency_key == new.idempotency_key


async def test_the_window_begins_when_it_is_settled(store, clock):
    old = await accept(store, wish(intent_window_secs=0.5))
    await clock.pass_(0.3 if not clock.exact else 100.0)
    await store.finish(old.operation_id, DONE)
    await clock.pass_(0.3)
    (answer,) = await store.accept([wish()], owner="call")
    assert answer.duplicate == "joined"


@pytest.mark.parametrize("database", ["memory", "file"], indirect=True)
@pytest.mark.parametrize("status", ["succeeded", "unknown", "timed_out"])
async def test_the_last_moment_of_the_window_is_in_it(store, clock, status):
    old = await there(store, status, intent_window_secs=0.25)
    clock.jump(0.25)
    (answer,) = await store.accept([wish()], owner="call")
    if status == "timed_out":
        assert answer.operation.idempotency_key == old.idempotency_key
    else:
        assert answer.duplicate == "joined"


async def test_the_window_is_that_of_the_older_one(store, clock):
    await there(store, "succeeded", intent_window_secs=SOON, batch_id="batch-0")
    long = await there(store, "succeeded", intent_key="other", batch_id="batch-1")
    await clock.pass_(SOON + 0.01)
    (answer,) = await store.accept([wish(intent_window_secs=1000.0)], owner="call")
    assert answer.duplicate is None
    (answer,) = await store.accept([wish(intent_key="other", intent_window_secs=0.0)], owner="call")
    assert answer.operation.operation_id == long.operation_id


@pytest.mark.parametrize("status", ["accepted", "running"])
async def test_without_a_window_it_is_a_duplicate_while_it_is_not_settled(store, clock, status):
    await there(store, status, intent_window_secs=0.0)
    await clock.pass_()
    (answer,) = await store.accept([wish()], owner="call")
    assert answer.duplicate == "joined"


async def test_an_empty_key_is_no_intent(store):
    answers = [await store.accept([wish(intent_key="")], owner="call") for _ in range(3)]
    assert [answer.duplicate for (answer,) in answers] == [None, None, None]


async def test_another_session_or_another_key_is_another_intent(store):
    await there(store, "running")
    (elsewhere,) = await store.accept([wish(session_id="elsewhere", batch_id="e")], owner="call")
    (other,) = await store.accept([wish(intent_key="book Friday")], owner="call")
    assert (elsewhere.duplicate, other.duplicate) == (None, None)


async def test_keys_may_be_as_long_and_as_strange_as_arguments(store):
    keys = ["k" * 10_000, "k" * 10_001, "ключ 🗝", "a:b", "a", "{a}", "%s'\"\\", "\n"]
    for number, key in enumerate(keys):
        for mode in ("new", "joined"):
            given = wish(intent_key=key, batch_id=f"{number}-{mode}")
            (answer,) = await store.accept([given], owner="call")
            assert answer.duplicate == (None if mode == "new" else "joined")
            assert answer.operation.intent_key == key


@pytest.mark.parametrize("mode", MODES)
async def test_adopted_operations_neither_have_duplicates_nor_are_any(store, mode):
    first = await accept(store, wish(adopted=True))
    (second,) = await store.accept([wish(adopted=True)], owner="call", on_duplicate=mode)
    (mine,) = await store.accept([wish()], owner="call", on_duplicate=mode)
    (third,) = await store.accept([wish(adopted=True)], owner="call", on_duplicate=mode)
    assert [a.duplicate for a in (second, mine, third)] == [None, None, None]
    assert len(await store.operations("room")) == 4
    assert not any(op.is_settled for op in await store.operations("room"))
    await store.finish(first.operation_id, TIMED_OUT)
    assert mine.operation.idempotency_key != first.idempotency_key


@pytest.mark.parametrize("mode", ["join", "reject"])
async def test_of_two_with_one_key_in_a_call_the_second_is_a_duplicate(store, mode):
    items = [wish(tool_call_id="call", item=0), wish(tool_call_id="call", item=1), wish(intent_key="other")]
    first, second, third = await store.accept(items, owner="call", on_duplicate=mode)
    assert (first.duplicate, second.duplicate, third.duplicate) == (None, ANSWERS[mode], None)
    assert second.operation.operation_id == first.operation.operation_id
    assert len(await store.operations("room")) == 2


async def test_some_items_of_a_call_may_be_duplicates(store):
    old = await there(store, "running", intent_key="b")
    keys = ["a", "b", "c"]
    answers = await store.accept([wish(tool_call_id="call", intent_key=k) for k in keys], owner="call")
    assert [answer.duplicate for answer in answers] == [None, "joined", None]
    assert answers[1].operation == old
    (_, batch) = await store.batches("room")
    assert list(batch.operation_ids) == ids_of([answers[0].operation, answers[2].operation])


async def test_of_many_who_ask_at_once_one_is_accepted(store, another):
    stores = [store, another] * 4
    requests = [wish(batch_id=f"batch-{i}") for i in range(8)]
    answers = await asyncio.gather(
        *(s.accept([request], owner=f"call-{i}") for i, (s, request) in enumerate(zip(stores, requests)))
    )
    new = [answer for (answer,) in answers if answer.duplicate is None]
    assert len(new) == 1
    assert {answer.operation.operation_id for (answer,) in answers} == {new[0].operation.operation_id}
    assert len(await store.operations("room")) == 1
    assert len(await events(store, "on_operation_joined")) == 7


async def test_of_many_who_replace_at_once_one_is_left(store, another):
    stores = [store, another] * 4
    await asyncio.gather(
        *(
            s.accept([wish(batch_id=f"b-{i}")], owner="c", on_duplicate="replace")
            for i, s in enumerate(stores)
        )
    )
    left = [op for op in await store.operations("room") if not op.is_settled]
    assert (len(left), len(await store.operations("room"))) == (1, 8)
