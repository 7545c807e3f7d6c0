# SPDX-License-Identifier: BSD-2-Clause
"""The server refuses a request, or never answers it: a speech-to-speech bot asks again, and not for ever."""

import asyncio

import pytest

from pipecat_async_tools import ClockParams, DeliveryPolicy
from pipecat_async_tools.delivery.wording import PUT_OFF_MARKER, UPDATE_MARKER
from tests.realtime.bench import UPDATE, Bench, ask_for_slots
from tests.realtime.call import RealtimeCall, in_real_time
from tests.realtime.server import RealtimeServer

pytestmark = pytest.mark.realtime

IMPATIENT = DeliveryPolicy(min_quiet_secs=0.3)
REFUSED = "conversation_already_has_active_response"


@in_real_time
async def test_a_refused_request_is_not_told_by_the_answer_there_was():
    """The server is slow to say that it answers the caller; what it then says is not the update."""
    bench = Bench()
    tools = bench.async_tools(clocks=ClockParams(answer_timeout_secs=0.3), delivery=IMPATIENT)
    async with RealtimeServer() as server, RealtimeCall(tools, server) as call:
        server.answers("It is sunny.", when="weather", announced_after_secs=0.8)
        await ask_for_slots(call)
        server.heard.append("How is the weather?")
        call.microphone.speaking = True
        await asyncio.sleep(0.3)
        bench.result.set()
        await asyncio.sleep(0.3)
        call.microphone.speaking = False
        await call.until(call.spoken)
        await asyncio.sleep(0.5)

        assert server.errors() == [REFUSED]
        lost, completed = call.delivery.tellings
        assert (lost.outcome, lost.heard, lost.started_at) == ("lost", "", None)
        assert (completed.outcome, completed.heard) == ("completed", UPDATE)
        assert call.heard.endswith(f"It is sunny. {UPDATE}")
        assert len(server.messages(UPDATE_MARKER)) == 2 and len(server.messages(PUT_OFF_MARKER)) == 1
        assert not call.recorder.errors


@in_real_time
async def test_a_request_that_pipecat_holds_is_the_telling():
    """The answer was announced but has no words yet: the service asks once that one is done."""
    bench = Bench()
    tools = bench.async_tools(clocks=ClockParams(answer_timeout_secs=0.3), delivery=IMPATIENT)
    async with RealtimeServer() as server, RealtimeCall(tools, server) as call:
        server.answers("It is sunny.", when="weather", after_secs=0.8)
        await ask_for_slots(call)
        server.heard.append("How is the weather?")
        call.microphone.speaking = True
        await asyncio.sleep(0.3)
        bench.result.set()
        await asyncio.sleep(0.3)
        call.microphone.speaking = False
        await call.until(call.spoken)
        await asyncio.sleep(0.5)

        assert not server.errors()
        (telling,) = call.delivery.tellings
        assert (telling.outcome, telling.heard) == ("completed", UPDATE)
        assert call.heard.endswith(f"It is sunny. {UPDATE}")
        assert call.heard.count(UPDATE) == 1 and len(server.messages(UPDATE_MARKER)) == 1


@in_real_time
async def test_a_request_that_nothing_answers_is_given_up():
    bench = Bench()
    tools = bench.async_tools(
        clocks=ClockParams(response_timeout_secs=0.5),
        delivery=DeliveryPolicy(min_quiet_secs=0.2, max_tellings=2),
    )
    async with RealtimeServer() as server, RealtimeCall(tools, server) as call:
        server.answers(when=UPDATE_MARKER, silent=True)
        await ask_for_slots(call, update="")
        bench.result.set()
        await call.until(lambda: call.deliveries and call.delivery.state == "undeliverable")
        # What takes the last attempt back is on its way to the wire by then.
        await call.until(lambda: len(server.messages(PUT_OFF_MARKER)) == 3)
        wire = len(server.seen)
        await asyncio.sleep(0.5)

        assert [t.outcome for t in call.delivery.tellings] == ["lost"] * 3
        assert len(server.messages(UPDATE_MARKER)) == len(server.messages(PUT_OFF_MARKER)) == 3
        # The service itself waits for the one it asked for.
        assert len(server.of_type("response.create")) == 3 and len(server.seen) == wire
        assert "10:15" not in call.heard and not call.recorder.errors


@in_real_time
async def test_after_a_request_that_nothing_answered_the_next_turn_makes_room():
    bench = Bench()
    tools = bench.async_tools(clocks=ClockParams(response_timeout_secs=0.5), delivery=IMPATIENT)
    async with RealtimeServer() as server, RealtimeCall(tools, server) as call:
        server.answers(when=UPDATE_MARKER, silent=True, times=1)
        server.answers("Still here.", when="hello")
        await ask_for_slots(call)
        bench.result.set()
        await call.until(lambda: call.deliveries and call.delivery.tellings)
        await call.user_says("Hello?")
        await call.until(call.spoken)
        await asyncio.sleep(0.5)
        assert call.heard.endswith(f"Still here. {UPDATE}") and call.heard.count(UPDATE) == 1
