# SPDX-License-Identifier: BSD-2-Clause
"""Whatever hangs, a store or a handler: frames pass at once, answers are honest, and closing is bounded."""

import asyncio
import contextlib
import json
from types import SimpleNamespace

import pytest
from pipecat.frames.frames import CancelFrame, EndFrame, InterruptionFrame

from pipecat_async_tools import AsyncTools, async_tool
from pipecat_async_tools.operations.insisting import STORE_TIMEOUT_SECS
from pipecat_async_tools.testing import Call, NativeTool, SimulatedCall, native_tool, virtual_time
from tests.integration.recording import FrameRecorder
from tests.stores import broken_store, memory_store

PLACES = ("PacedOutput", "LLMAssistantAggregator", "PipelineWorker::Sink")
MOMENTS = {"in the grace": 1.9, "while it is accepted": 3.0, "later": 9.0}
STORE_METHODS = ("accept", "claim", "record_progress", "finish", "append", "events")
DRAIN_SECS = 2.0
LONG = "One two three four five six seven eight nine ten eleven twelve."


class Stubborn:
    """A handler that never ends and ignores being cancelled, until the test lets it go."""

    def __init__(self):
        self.ignored = 0
        self.released = asyncio.Event()

        @async_tool()
        async def never_ends(op):
            """Never end."""
            while not self.released.is_set():
                try:
                    await self.released.wait()
                except asyncio.CancelledError:
                    self.ignored += 1

        self.tool = never_ends


@contextlib.asynccontextmanager
async def broken_call(store, *, text="One moment."):
    """A call with an operation, or the attempt at one, pending of each kind."""
    stubborn = Stubborn()
    async_tools = AsyncTools(session_id="s", tools=[stubborn.tool], store=store, drain_secs=DRAIN_SECS)
    native = {"native": never_reports, "foreign": NativeTool(never_reports, cancel_on_interruption=True)}
    call = SimulatedCall(async_tools, tools=native)
    recorder = FrameRecorder()
    call.line.worker.add_observer(recorder)
    call.user_says(at=0.2, until=0.8, text="All of it.")
    calls = [Call("never_ends"), Call("native"), Call("foreign")]
    call.model_says(text, when="all of it", calls=calls, times=1)
    try:
        yield SimpleNamespace(async_tools=async_tools, call=call, recorder=recorder, stubborn=stubborn)
    finally:
        stubborn.released.set()


async def never_reports(params):
    await asyncio.Event().wait()


STORES = {
    "sound": memory_store,
    "hangs": lambda: broken_store("hangs", methods=STORE_METHODS),
    "fails": lambda: broken_store("fails", methods=STORE_METHODS),
    "hangs later": lambda: broken_store("hangs", methods=("finish", "append")),
    "fails later": lambda: broken_store("fails", methods=("finish", "append")),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("at", MOMENTS.values(), ids=MOMENTS)
@virtual_time
async def test_an_interruption_passes_at_once(store, at):
    async with broken_call(STORES[store]()) as broken:
        broken.call.bot_greets(LONG, at=at - 0.1)
        broken.call.user_speaks(at=at - broken.call.line.caller.start_secs, until=at + 0.5)
        await broken.call.run(until=12)
    for processor in PLACES:
        assert broken.recorder.times(InterruptionFrame, processor=processor)[-1] == pytest.approx(at)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("at", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize("frame_type", [EndFrame, CancelFrame])
@virtual_time
async def test_an_end_and_a_cancel_pass_at_once(frame_type, store, at):
    """Nothing is being said here: an end frame waits for the audio before it, as it should."""
    async with broken_call(STORES[store](), text="") as broken:
        if frame_type is EndFrame:
            broken.call.call_ends(at)
        else:
            broken.call.user_hangs_up(at)
        await broken.call.run(until=12)
    # The output plays a little silence of its own before it passes the end on.
    silence = broken.call.line.output._params.audio_out_end_silence_secs if frame_type is EndFrame else 0
    times = [broken.recorder.times(frame_type, processor=processor) for processor in PLACES]
    assert times == [[pytest.approx(at)], [pytest.approx(at + silence)], [pytest.approx(at + silence)]]


@pytest.mark.parametrize("store", STORES)
@virtual_time
async def test_closing_is_bounded(store):
    async with broken_call(STORES[store]()) as broken:
        broken.call.user_hangs_up(at=9.0)
        await broken.call.run(until=9.1)
        await broken.async_tools.stop()
        took = broken.call.now - 9.0
    # The drain, a second to unwind, the store's time-out for the outcomes and once more for the events.
    assert took <= DRAIN_SECS + 1 + 2 * STORE_TIMEOUT_SECS
    if store == "sound":
        assert took == pytest.approx(DRAIN_SECS + 1)
        assert broken.stubborn.ignored


@virtual_time
async def test_no_handler_is_left_behind_by_a_store_that_is_gone():
    store = broken_store("hangs", methods=("finish",))
    call = SimulatedCall(AsyncTools(session_id="s", tools=[quick_after(60)], store=store, drain_secs=1))
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")], times=1)
    await call.run(until=5)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("operation")]
    await call._async_tools.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("operation")]


@virtual_time
async def test_what_ran_when_the_call_ended_is_on_record_as_unknown():
    async with broken_call(memory_store()) as broken:
        await broken.call.run(until=9)
        await broken.async_tools.stop()
        operations = broken.async_tools.snapshot().operations
    assert {(o.tool, str(o.status)) for o in operations} == {("never_ends", "unknown"), ("native", "unknown")}


@virtual_time
async def test_a_handler_that_ended_while_the_store_was_gone_is_settled_when_it_is_back():
    store = broken_store("hangs", methods=("finish",))
    tools = [quick_after(4.0)]
    call = SimulatedCall(AsyncTools(session_id="s", tools=tools, store=store))
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")], times=1)
    call.model_says("I found 7.", when="update due")
    call.at(8.0, lambda: delattr(store, "finish"))
    timeline = await call.run(until=20)
    assert timeline.heard_text == "One moment. I found 7."
    assert [telling.started_at > 8.0 for telling in timeline.tellings] == [True]


def quick_after(secs):
    @async_tool()
    async def look_up(op):
        """Look it up."""
        await asyncio.sleep(secs)
        return {"found": 7}

    return look_up


@pytest.mark.parametrize("how", ["hangs", "fails"])
@virtual_time
async def test_a_call_that_cannot_be_stored_is_refused(how):
    ran = []

    @async_tool()
    async def book(op):
        """Book it."""
        ran.append(op)

    async_tools = AsyncTools(session_id="s", tools=[book], store=broken_store(how, methods=STORE_METHODS))
    call = SimulatedCall(async_tools)
    call.user_says(at=0.2, until=0.8, text="Book it.")
    call.model_says(when="book it", calls=[Call("book")])
    call.model_says("I could not even begin.", when='"refused"')
    timeline = await call.run(until=12)
    asked = timeline.model_runs[0].ended_at
    told = timeline.model_runs[1].at
    assert told - asked == pytest.approx(STORE_TIMEOUT_SECS if how == "hangs" else 0.0, abs=0.01)
    answer = json.loads(timeline.model_runs[1].last_message["content"])
    assert answer == {
        "status": "refused",
        "error": "The request could not be written down, so nothing was started.",
    }
    assert timeline.heard_text == "I could not even begin."
    assert not ran and not timeline.operations and timeline.history_problems() == []


@pytest.mark.parametrize("how", ["hangs", "fails"])
@pytest.mark.parametrize("finished_at", [3.0, 9.0], ids=["while the store is asked", "later"])
@virtual_time
async def test_an_adopted_call_that_cannot_be_stored_keeps_its_native_answer(finished_at, how):
    call = SimulatedCall(
        AsyncTools(session_id="s", store=broken_store(how, methods=STORE_METHODS)),
        tools={"look_up": native_tool("look_up")},
    )
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")])
    call.tool_finishes("look_up", at=finished_at, result={"found": 7})
    call.model_says("I found 7.", when="found")
    timeline = await call.run(until=15)
    assert timeline.heard_text == "One moment. I found 7."
    refused_at = 1.74 + 0.3 + (STORE_TIMEOUT_SECS if how == "hangs" else 0.0)
    assert timeline.model_runs[1].at == pytest.approx(max(finished_at, refused_at), abs=0.1)
    assert not timeline.operations and timeline.history_problems() == []


@virtual_time
async def test_a_log_that_cannot_be_written_changes_nothing():
    call = SimulatedCall(
        AsyncTools(session_id="s", store=broken_store("hangs", methods=("append",))),
        tools={"look_up": native_tool("look_up")},
    )
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")])
    call.tool_finishes("look_up", at=4, result={"found": 7})
    call.model_says("I found 7.", when="found")
    timeline = await call.run(until=10)
    assert timeline.heard_text == "One moment. I found 7."
    assert [telling.outcome for telling in timeline.tellings] == ["completed"]


@virtual_time
async def test_the_log_is_complete_when_closing_is_over():
    store = memory_store()
    write = store.append

    async def slowly(event):
        await asyncio.sleep(1.5)
        await write(event)

    store.append = slowly
    async with broken_call(store) as broken:
        await broken.call.run(until=9)
        await broken.async_tools.stop()
        names = [logged.event.name for logged in await store.events(session_id="s")]
    assert names.count("on_operation_accepted") == names.count("on_operation_settled") == 2
