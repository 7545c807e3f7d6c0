# SPDX-License-Identifier: BSD-2-Clause
"""The caller speaks over the update of a speech-to-speech bot."""

import asyncio

import pytest

from pipecat_async_tools import DeliveryPolicy
from pipecat_async_tools.delivery.wording import CUT_OFF_MARKER, PUT_OFF_MARKER, UPDATE_MARKER
from tests.realtime.bench import Bench, ask_for_slots
from tests.realtime.call import RealtimeCall, in_real_time
from tests.realtime.server import SECS_PER_WORD, RealtimeServer

pytestmark = pytest.mark.realtime

LONG = "There are five free slots on Thursday and the first of them is at 10:15."
REST = "The first is at 10:15."


@in_real_time
async def test_an_update_that_was_cut_off_is_told_again_shorter():
    bench = Bench()
    async with (
        RealtimeServer() as server,
        RealtimeCall(bench.async_tools(delivery=DeliveryPolicy(min_quiet_secs=0.4)), server) as call,
    ):
        server.answers(REST, when="You were cut off the last time")
        server.answers("Sure.", when="hold on")
        await ask_for_slots(call, LONG)
        bench.result.set()
        await call.until(lambda: "There are five free" in call.heard)
        await call.user_says("Hold on.", secs=0.4)
        await call.until(lambda: call.delivery.tellings)

        (cut_off,) = call.delivery.tellings
        (heard,) = [u for u in call.utterances if u.text.startswith("There are")]
        assert call.delivery.state == "pending" and cut_off.outcome == "interrupted"
        assert LONG.startswith(cut_off.heard) and heard.text.startswith(cut_off.heard)
        assert len(heard.text.split()) - len(cut_off.heard.split()) <= 2
        (truncated,) = server.of_type("conversation.item.truncate")
        played_ms = (heard.ended_at - heard.started_at) * 1000
        assert truncated.event["audio_end_ms"] == pytest.approx(played_ms, abs=1000 * SECS_PER_WORD)
        assert [s.type for s in server.sent].count("conversation.item.truncated") == 1
        # Before the server answers the caller, the model knows that the rest is not due.
        (taken_back,) = await call.until(lambda: server.messages(CUT_OFF_MARKER))
        assert cut_off.heard in taken_back.item["content"][0]["text"]
        assert not any(
            s.type == "input_audio_buffer.committed" and s.at > cut_off.ended_at for s in server.sent
        )

        await call.until(call.spoken)
        assert [t.outcome for t in call.delivery.tellings] == ["interrupted", "completed"]
        # In one piece or, where the machine was busy, with a gap in it.
        assert call.heard.endswith(f"Sure. {REST}")
        assert cut_off.heard in server.messages("You were cut off")[0].item["content"][0]["text"]
        assert len(server.messages(UPDATE_MARKER)) == 2 and bench.runs == 1
        assert not server.errors() and not call.recorder.errors


@in_real_time
async def test_a_caller_who_is_first_withdraws_it():
    """Asked for, not begun: it never started, and the model is told before it answers the caller."""
    bench = Bench()
    async with (
        RealtimeServer() as server,
        RealtimeCall(bench.async_tools(delivery=DeliveryPolicy(min_quiet_secs=0.4)), server) as call,
    ):
        server.answers(LONG, when=UPDATE_MARKER, after_secs=2.0, times=1)
        server.answers("Sure.", when="put off")
        await ask_for_slots(call, REST)
        bench.result.set()
        await call.until(lambda: server.messages(UPDATE_MARKER))
        await call.user_says("Hold on.", secs=0.4)
        (put_off,) = await call.until(lambda: server.messages(PUT_OFF_MARKER))
        await call.until(lambda: "Sure." in call.heard or "Okay." in call.heard[6:])
        spoken_at = [s.at for s in server.sent if s.type == "input_audio_buffer.committed"][-1]
        assert put_off.at < spoken_at
        await call.until(call.spoken)
        await asyncio.sleep(0.7)
        assert [t.outcome for t in call.delivery.tellings] == ["withdrawn", "completed"]
        assert call.delivery.attempts == 1
        assert call.heard.count("10:15") == 1 and LONG[:9] not in call.heard


@in_real_time
async def test_turns_found_on_this_side_drive_the_model_the_same_way():
    bench = Bench()
    tools = bench.async_tools(delivery=DeliveryPolicy(min_quiet_secs=0.4))
    async with RealtimeServer() as server, RealtimeCall(tools, server, local_turns=True) as call:
        server.answers(REST, when="You were cut off the last time")
        server.answers("Sure.", when="hold on")
        await ask_for_slots(call, LONG)
        bench.result.set()
        await call.until(lambda: "There are five free" in call.heard)
        await call.user_says("Hold on.", secs=0.4)
        await call.until(call.spoken)

        assert [t.outcome for t in call.delivery.tellings] == ["interrupted", "completed"]
        # In one piece or, where the machine was busy, with a gap in it.
        assert call.heard.endswith(f"Sure. {REST}")
        asked_at = server.messages(UPDATE_MARKER)[0].at
        assert [s.at > asked_at for s in server.of_type("conversation.item.truncate")].count(True) == 1
        assert len(server.messages(UPDATE_MARKER)) == 2 and len(server.messages(CUT_OFF_MARKER)) == 1
        assert set(server.errors()) <= {"response_cancel_not_active"} and not call.recorder.errors
