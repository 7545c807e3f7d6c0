# SPDX-License-Identifier: BSD-2-Clause
"""A slow tool of a speech-to-speech bot: answered at once, told once, and known to be heard."""

import asyncio
import json

import pytest

from pipecat_async_tools.delivery.wording import PUT_OFF_MARKER, RECORD_MARKER, UPDATE_MARKER
from tests.realtime.bench import ANSWER, ASKED, UPDATE, Bench, ask_for_slots
from tests.realtime.call import RealtimeCall, in_real_time
from tests.realtime.server import RealtimeServer, Seen

pytestmark = pytest.mark.realtime


@in_real_time
async def test_a_slow_call_is_answered_at_once_and_told_once():
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        await ask_for_slots(call)
        asked_at = next(s.at for s in server.sent if s.type == "response.function_call_arguments.done")
        (output,) = server.outputs()
        assert output.at - asked_at < 0.5
        assert json.loads(output.item["output"])["status"] == "accepted"
        assert call.async_tools.snapshot().operations[0].status == "running"

        bench.result.set()
        await call.until(call.spoken)
        await asyncio.sleep(1.0)

        (update,) = server.messages(UPDATE_MARKER)
        assert update.item["role"] == "system" and "10:15" in update.item["content"][0]["text"]
        assert server.seen.index(update) + 1 == server.seen.index(server.of_type("response.create")[-1])
        # The greeting, the word that work has begun, the update: nothing else was asked for.
        assert len(server.of_type("response.create")) == 3
        assert server.outputs() == [output] and not server.messages(PUT_OFF_MARKER)
        (telling,) = call.delivery.tellings
        told = call.utterances[-1]
        assert told.text == telling.heard == UPDATE
        assert telling.outcome == "completed"
        assert call.at(telling.started_at) == pytest.approx(told.started_at, abs=0.1)
        assert call.at(telling.ended_at) >= told.ended_at - 0.01
        assert bench.runs == 1 and not call.recorder.errors


@in_real_time
async def test_the_context_is_kept_for_a_new_connection():
    """What the provider has of the conversation is lost with the connection; this is what replaces it."""
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        await ask_for_slots(call)
        bench.result.set()
        await call.until(call.spoken)
        await call.until(lambda: any(RECORD_MARKER in text for text in call.texts))
        assert not any(UPDATE_MARKER in text for text in call.texts)
        record = next(i for i, text in enumerate(call.texts) if RECORD_MARKER in text)
        await call.until(lambda: call.texts[record + 1 :] == [UPDATE])


@in_real_time
async def test_it_waits_while_the_caller_speaks():
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        server.answers("You are welcome.", when="thank you")
        await ask_for_slots(call)
        server.heard.append("Well, thank you.")
        call.microphone.speaking = True
        await asyncio.sleep(0.3)
        bench.result.set()
        await asyncio.sleep(1.2)
        assert not server.messages(UPDATE_MARKER)
        assert call.delivery.reason == "the caller is speaking"
        call.microphone.speaking = False
        silent_at = call.now
        await call.until(call.spoken)

        answer, told = call.utterances[-2:]
        assert answer.text == "You are welcome." and told.text == UPDATE
        assert answer.started_at > silent_at
        assert told.started_at - answer.ended_at >= 0.65
        assert len(server.messages(UPDATE_MARKER)) == 1 and not server.errors()


@in_real_time
async def test_an_answer_that_is_slow_to_come_is_waited_for():
    """The turn's end is all there is to know it by: the words are written down once it has begun."""
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        server.answers("It is sunny.", when="weather", announced_after_secs=1.2)
        await ask_for_slots(call)
        bench.result.set()
        await call.user_says("How is the weather?")
        await call.until(call.spoken)
        assert call.heard.endswith(f"It is sunny. {UPDATE}")
        assert len(server.messages(UPDATE_MARKER)) == 1 and not server.errors()


@in_real_time
async def test_a_reply_that_is_already_a_word_needs_no_other():
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        server.answers("Let me look that up.", when=ASKED, calls=[("check_slots", {"date": "Thursday"})])
        await call.greet()
        await call.user_says(ASKED)
        await call.until(server.outputs)
        await asyncio.sleep(1.0)
        assert len(server.of_type("response.create")) == 1  # the greeting
        bench.result.set()
        server.rules.insert(0, bench.update_rule)
        await call.until(call.spoken)
        assert call.heard.endswith(f"Let me look that up. {UPDATE}")


@in_real_time
async def test_two_calls_get_one_word_and_are_told_together():
    bench = Bench()
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        calls = [("check_slots", {"date": day}) for day in ("Thursday", "Friday")]
        server.answers(when=ASKED, calls=calls, times=1)
        server.answers(ANSWER, when="accepted")
        server.answers(UPDATE, when=UPDATE_MARKER)
        await call.greet()
        await call.user_says(ASKED)
        await call.until(lambda: ANSWER in call.heard)
        bench.result.set()
        await call.until(call.spoken)
        await asyncio.sleep(1.0)
        assert len(server.outputs()) == 2 and bench.runs == 2
        assert call.heard.count(ANSWER) == 1 and call.heard.count(UPDATE) == 1
        assert len(server.messages(UPDATE_MARKER)) == 1
        assert not server.errors()


@in_real_time
async def test_what_is_not_to_be_spoken_goes_in_without_a_request():
    bench = Bench(speak="never")
    async with RealtimeServer() as server, RealtimeCall(bench.async_tools(), server) as call:
        await ask_for_slots(call)
        requests = len(server.of_type("response.create"))
        bench.result.set()
        (note,) = await call.until(lambda: server.messages("[RESULT ON RECORD]"))
        await asyncio.sleep(1.0)
        assert isinstance(note, Seen) and "10:15" in note.item["content"][0]["text"]
        assert len(server.of_type("response.create")) == requests
        assert call.delivery.state == "suppressed"
