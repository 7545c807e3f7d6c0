# SPDX-License-Identifier: BSD-2-Clause
"""A phone line on a real websocket, with a carrier that buffers what the bot believes was heard."""

import asyncio

import pytest
from pipecat.frames.frames import TTSSpeakFrame

from bots.call import build_call
from bots.clinic import INSTRUCTIONS
from bots.inprocess import Line, utterances
from bots.services import offline_services
from tests.rigs.carrier import Carrier
from tests.rigs.conversation import talk
from tests.rigs.phone import phone_rig, phone_talk

pytestmark = [pytest.mark.realtime, pytest.mark.xdist_group("rigs")]

HIDDEN_SECS = 2.0


async def call_up(**options):
    line = Line()
    async with offline_services(INSTRUCTIONS, "tone") as services:
        return await phone_talk(
            line, lambda call: talk(call.transport, services, line, marks=call.marks), **options
        )


def test_with_marks_nothing_counts_as_heard_that_a_carrier_threw_away():
    figures = asyncio.run(call_up(buffer_secs=HIDDEN_SECS, jitter_secs=0.015))
    assert figures.outcomes == ("interrupted", "completed") and figures.states == ("spoken",)
    # The word that was cut off is a tone too.
    assert figures.words_on_record <= figures.words_heard - 1
    assert figures.words_in_history <= figures.words_heard
    assert figures.barge_in_to_silence_secs <= 0.8 and figures.quiet_secs >= 0.65


def test_without_marks_the_same_bot_believes_that_they_were_heard():
    figures = asyncio.run(call_up(buffer_secs=HIDDEN_SECS, asks=False))
    assert figures.words_on_record > figures.words_heard
    assert figures.words_in_history > figures.words_heard


def test_a_carrier_that_returns_no_marks_is_believed_by_the_clock():
    figures = asyncio.run(call_up(returns_marks=False))
    assert figures.outcomes == ("interrupted", "completed") and figures.states == ("spoken",)


def test_the_farewell_is_heard_before_the_hang_up():
    farewell = "Goodbye and thank you for calling us today."

    async def say_goodbye(phone):
        call = build_call(
            phone.transport, services, session_id="bye", store="sqlite:///:memory:", marks=phone.marks
        )
        running = asyncio.create_task(call.run())
        await call.greet()
        await asyncio.sleep(7.0)
        await call.worker.queue_frame(TTSSpeakFrame(farewell))
        await call.worker.stop_when_done()
        await running

    async def run():
        nonlocal services
        async with (
            offline_services(INSTRUCTIONS, "tone") as services,
            phone_rig(carrier, say_goodbye) as result,
        ):
            await asyncio.wait_for(result, 60)

    services = None
    line = Line()
    carrier = Carrier(line, buffer_secs=HIDDEN_SECS)
    asyncio.run(run())
    begun, ended = utterances(bytes(line.bot))[-1]
    whole = sum(len(word) * 0.055 + 0.13 for word in farewell.split())
    assert ended - begun == pytest.approx(whole, abs=0.2)
    assert carrier.hung_up_at is not None and carrier.hung_up_at >= ended - 0.05
