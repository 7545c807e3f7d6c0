# SPDX-License-Identifier: BSD-2-Clause
"""The one object a bot touches: what it refuses, what it tells, and how it ends."""

import asyncio

import pytest
from loguru import logger

import pipecat_async_tools
from pipecat_async_tools import (
    AsyncTools,
    AsyncToolsError,
    BatchSnapshot,
    ConfigurationError,
    LocalExecutor,
    OperationContext,
    OperationStatus,
    SessionSnapshot,
    ToolDefinitionError,
    Wording,
    async_tool,
)
from pipecat_async_tools.events import EVENT_NAMES, LOGGED_ONLY, NOT_LOGGED_BY_STORES
from pipecat_async_tools.testing import Call, SimulatedCall, virtual_time
from tests.stores import broken_store, memory_store


@async_tool()
async def wait(op: OperationContext, secs: float) -> dict:
    """Wait for a while.

    Args:
        secs: How long.
    """
    await asyncio.sleep(secs)
    return {"waited": secs}


def another_wait():
    @async_tool()
    async def wait(op: OperationContext):
        """Wait as well."""

    return wait


async def undecorated(op: OperationContext):
    """Not a tool."""


class TestConstructor:
    @pytest.mark.parametrize(
        ("argument", "value"),
        [
            ("session_id", ""),
            ("store", "calls.db"),
            ("adopt", "check_availability"),
            ("adopt", None),
            ("adopt", 3),
            ("adopted_timeout_secs", 0),
            ("adopted_timeout_secs", -1.0),
            ("acknowledge", "loudly"),
            ("drain_secs", -0.1),
        ],
    )
    def test_a_value_that_cannot_be_is_refused_by_name(self, argument, value):
        with pytest.raises(ConfigurationError, match=f"{argument}={value!r}: pass "):
            AsyncTools(**{"session_id": "room", argument: value})

    def test_a_tool_that_is_not_decorated_is_named(self):
        with pytest.raises(ToolDefinitionError, match=r"^tools: undecorated is not decorated"):
            AsyncTools(session_id="room", tools=[wait, undecorated])

    def test_two_tools_of_one_name_are_named(self):
        with pytest.raises(ConfigurationError, match=r"^tools: two functions are named wait"):
            AsyncTools(session_id="room", tools=[wait, another_wait()])

    def test_a_tool_that_is_not_in_a_list_is_told_so(self):
        with pytest.raises(ConfigurationError, match=r"^tools=<function wait .*: pass a list"):
            AsyncTools(session_id="room", tools=wait)

    def test_an_unknown_argument_is_named(self):
        with pytest.raises(TypeError, match="toolz"):
            AsyncTools(session_id="room", toolz=[wait])

    def test_it_takes_keywords_only(self):
        with pytest.raises(TypeError, match="positional"):
            AsyncTools("room")

    @pytest.mark.parametrize(
        "adopt", [True, False, ["a"], {"a"}, ("a",), lambda name: True], ids=lambda a: type(a).__name__
    )
    def test_every_kind_of_adoption_is_taken(self, adopt):
        assert AsyncTools(session_id="room", adopt=adopt).processors()

    def test_every_problem_is_one_of_ours(self):
        with pytest.raises(AsyncToolsError):
            AsyncTools(session_id="")


def test_processors_are_three_in_their_order_and_always_the_same():
    async_tools = AsyncTools(session_id="room")
    names = [type(p).__name__ for p in async_tools.processors()]
    assert names == ["OperationRegistry", "BatchAggregator", "ActivityGate"]
    assert async_tools.processors() == async_tools.processors()
    assert async_tools.playback() is async_tools.playback()
    assert async_tools.playback() not in async_tools.processors()


def test_functions_are_those_of_the_tools():
    async_tools = AsyncTools(session_id="room", tools=[wait])
    assert [f.__name__ for f in async_tools.functions] == ["wait"]
    assert [f.__name__ for f in async_tools.flow_functions] == ["wait"]
    assert AsyncTools(session_id="room").functions == []


def asking(async_tools, *, secs=3.0, tool="wait"):
    """A call in which the caller asks for one slow thing."""
    call = SimulatedCall(async_tools)
    call.user_says(at=0.5, until=1.5, text="Please wait a bit.")
    call.model_says(when="please wait", calls=[Call(tool, {"secs": secs})])
    call.model_says("I have waited.", when="UPDATE DUE")
    return call


class TestEvents:
    async def story(self, **options):
        async_tools = AsyncTools(session_id="room-7", tools=[wait], **options)
        events = []
        for name in set(EVENT_NAMES) - LOGGED_ONLY:

            @async_tools.event_handler(name)
            async def on_event(source, event):
                assert source is async_tools
                events.append(event)

        call = asking(async_tools)
        # The result comes while the caller speaks, and waits.
        call.user_says(at=4.5, until=6.0, text="Take your time.")
        call.model_says("I will.", when="take your time")
        await call.run(until=15)
        return async_tools, events

    @virtual_time
    async def test_they_tell_the_story_with_every_id(self):
        async_tools, events = await self.story()
        names = [e.name for e in events if e.name != "on_delivery_waiting"]
        assert names == [
            "on_operation_accepted",
            "on_operation_started",
            "on_batch_opened",
            "on_operation_settled",
            "on_batch_closed",
            "on_delivery_ready",
            "on_delivery_started",
            "on_delivery_spoken",
        ]
        [operation] = async_tools.snapshot().operations
        [delivery] = async_tools.snapshot().deliveries
        for event in events:
            assert event.session_id == "room-7"
            assert event.turn_id == operation.turn_id
            assert event.batch_id == operation.batch_id
            if event.name.startswith("on_operation"):
                assert event.operation_id == operation.operation_id
                assert (event.tool, event.intent_key) == ("wait", operation.intent_key)
            if event.name.startswith("on_delivery"):
                assert event.delivery_id == delivery.delivery_id
        telling_ids = {e.telling_id for e in events if e.telling_id}
        assert telling_ids == {t.telling_id for t in delivery.tellings}
        assert len(telling_ids) == 1

    @virtual_time
    async def test_their_times_are_those_of_the_call(self):
        _, events = await self.story()
        at = {event.name: event.at for event in events}
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert at["on_operation_settled"] - at["on_operation_started"] == pytest.approx(3.0)

    @virtual_time
    async def test_they_are_written_down(self):
        store = memory_store()
        _, events = await self.story(store=store)
        logged = [entry.event for entry in await store.events(session_id="room-7")]
        told = {(e.name, e.operation_id, e.batch_id, e.delivery_id, e.telling_id) for e in events}
        assert told <= {(e.name, e.operation_id, e.batch_id, e.delivery_id, e.telling_id) for e in logged}
        # The store knows of the session too; everything else was told to the handlers as well.
        assert {e.name for e in logged} - {e.name for e in events} == {
            "on_session_held",
            "on_session_released",
        }

    @virtual_time
    async def test_a_store_that_cannot_write_them_spoils_nothing(self):
        complaints = []
        sink = logger.add(complaints.append, level="ERROR")
        try:
            store = broken_store("fails", methods=("append",))
            async_tools, events = await self.story(store=store)
        finally:
            logger.remove(sink)
        assert [d.state for d in async_tools.snapshot().deliveries] == ["spoken"]
        waiting = [e for e in events if e.name in NOT_LOGGED_BY_STORES]
        assert waiting
        assert len([c for c in complaints if "the disk is on fire" in c]) == len(waiting)


class TestSnapshot:
    @virtual_time
    async def test_a_new_call_is_empty(self):
        assert AsyncTools(session_id="room").snapshot() == SessionSnapshot(
            session_id="room", operations=(), batches=(), deliveries=()
        )

    @virtual_time
    async def test_while_it_runs_it_says_what_is_missing(self):
        async_tools = AsyncTools(session_id="room", tools=[wait])
        await asking(async_tools, secs=100.0).run(until=6)
        snapshot = async_tools.snapshot()
        [operation] = snapshot.operations
        assert (operation.tool, dict(operation.arguments)) == ("wait", {"secs": 100.0})
        assert snapshot.batches == (
            BatchSnapshot(
                batch_id=operation.batch_id,
                turn_id=operation.turn_id,
                operation_ids=(operation.operation_id,),
                missing=(operation.tool_call_id,),
                closed=False,
            ),
        )
        assert snapshot.deliveries == ()

    @virtual_time
    async def test_in_the_end_it_says_what_was_told(self):
        async_tools = AsyncTools(session_id="room", tools=[wait])
        await asking(async_tools).run(until=15)
        snapshot = async_tools.snapshot()
        [operation] = snapshot.operations
        assert (operation.status, operation.result) == (OperationStatus.SUCCEEDED, {"waited": 3.0})
        assert [(b.closed, b.missing) for b in snapshot.batches] == [(True, ())]
        [delivery] = snapshot.deliveries
        assert delivery.state == "spoken"
        assert [t.heard for t in delivery.tellings] == ["I have waited."]


class TestCancel:
    @virtual_time
    async def test_an_operation_that_runs(self):
        async_tools = AsyncTools(session_id="room", tools=[wait])
        cancelled = []

        @async_tools.event_handler("on_batch_opened")
        async def on_opened(source, event):
            await asyncio.sleep(1)
            [operation] = source.snapshot().operations
            cancelled.append(await source.cancel(operation.operation_id))
            cancelled.append(await source.cancel(operation.operation_id))

        await asking(async_tools, secs=100.0).run(until=15)
        assert cancelled == [True, False]
        [delivery] = async_tools.snapshot().deliveries
        assert [o.status for o in delivery.operations] == [OperationStatus.CANCELLED]
        assert delivery.state == "spoken"

    @virtual_time
    async def test_an_operation_nobody_knows(self):
        assert not await AsyncTools(session_id="room").cancel("op-nowhere")


class TestStop:
    @virtual_time
    async def test_it_may_be_called_again_and_again(self):
        async_tools = AsyncTools(session_id="room", tools=[wait])
        await async_tools.stop()
        await async_tools.stop()
        await asyncio.gather(async_tools.stop(), async_tools.stop())
        assert asyncio.get_running_loop().time() == 0.0

    @virtual_time
    async def test_the_executor_is_stopped_once(self):
        stopped = []

        class Counting(LocalExecutor):
            async def stop(self, drain_secs):
                stopped.append(drain_secs)
                await super().stop(drain_secs)

        async_tools = AsyncTools(session_id="room", tools=[wait], executor=Counting(), drain_secs=7.0)
        await asking(async_tools).run(until=15)
        await asyncio.gather(async_tools.stop(), async_tools.stop())
        assert stopped == [7.0]

    @virtual_time
    async def test_after_a_call_it_waits_for_what_still_runs_and_changes_nothing_twice(self):
        async_tools = AsyncTools(session_id="room", tools=[wait], drain_secs=60.0)
        await asking(async_tools, secs=30.0).run(until=6)
        await async_tools.stop()
        before = async_tools.snapshot()
        assert [o.status for o in before.operations] == [OperationStatus.SUCCEEDED]
        await async_tools.stop()
        assert async_tools.snapshot() == before

    @virtual_time
    async def test_it_waits_no_longer_than_it_may(self):
        async_tools = AsyncTools(session_id="room", tools=[wait], drain_secs=2.0)
        await asking(async_tools, secs=500.0).run(until=6)
        await async_tools.stop()
        assert asyncio.get_running_loop().time() < 12.0
        assert [o.status for o in async_tools.snapshot().operations] == [OperationStatus.UNKNOWN]

    @virtual_time
    async def test_cancelling_whoever_waits_does_not_cancel_the_end(self):
        async_tools = AsyncTools(session_id="room", tools=[wait], drain_secs=60.0)
        await asking(async_tools, secs=30.0).run(until=6)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(async_tools.stop(), 1.0)
        await async_tools.stop()
        assert [o.status for o in async_tools.snapshot().operations] == [OperationStatus.SUCCEEDED]


@virtual_time
async def test_the_wording_is_that_of_the_application():
    class Polite(Wording):
        def acknowledgement(self, tools):
            return "Certainly, one moment."

    async_tools = AsyncTools(session_id="room", tools=[wait], wording=Polite())
    timeline = await asking(async_tools).run(until=15)
    assert [u.text for u in timeline.heard] == ["Certainly, one moment.", "I have waited."]


@virtual_time
async def test_arguments_that_do_not_fit_are_refused_and_start_nothing():
    async_tools = AsyncTools(session_id="room", tools=[wait])
    refused = []

    @async_tools.event_handler("on_operation_refused")
    async def on_refused(source, event):
        refused.append((event.tool, event.session_id, event.reason))

    await asking(async_tools, secs="soon").run(until=10)
    [(tool, session, reason)] = refused
    assert (tool, session) == ("wait", "room")
    assert "secs" in reason
    assert async_tools.snapshot().operations == ()


def test_every_name_that_is_promised_is_there_and_documented():
    assert sorted(pipecat_async_tools.__all__, key=str.lower) == sorted(
        set(pipecat_async_tools.__all__), key=str.lower
    )
    for name in pipecat_async_tools.__all__:
        assert getattr(pipecat_async_tools, name).__doc__, name
