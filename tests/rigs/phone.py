# SPDX-License-Identifier: BSD-2-Clause
"""The conversation over a phone line: a real websocket, Pipecat's own transport and serializer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport

from bots.inprocess import Line
from bots.phone_line import ask_carrier
from pipecat_async_tools import CarrierMarks
from tests.rigs.carrier import ACCOUNT, CALL, STREAM, TOKEN, Carrier, phone_bot, rest_api


@dataclass
class PhoneCall:
    """A call as the bot sees it.

    Parameters:
        transport: The transport.
        marks: What the carrier has played; None where nobody asks.
    """

    transport: FastAPIWebsocketTransport
    marks: CarrierMarks | None


@asynccontextmanager
async def phone_rig(carrier: Carrier, talk: Callable[[PhoneCall], Awaitable[object]], *, asks: bool = True):
    """A phone call during which the bot talks; yields what `talk` returns, as a future."""
    result: asyncio.Future = asyncio.get_running_loop().create_future()

    async with rest_api(carrier) as api:

        async def answer(websocket) -> None:
            params = FastAPIWebsocketParams(
                audio_in_enabled=True,
                audio_out_enabled=True,
                serializer=TwilioFrameSerializer(
                    STREAM, call_sid=CALL, account_sid=ACCOUNT, auth_token=TOKEN, base_url=api
                ),
            )
            marks = ask_carrier(params, STREAM) if asks else None
            try:
                done = await talk(PhoneCall(FastAPIWebsocketTransport(websocket, params), marks))
                result.set_result(done)
            except Exception as e:
                result.set_exception(e)

        async with phone_bot(answer) as url:
            calling = asyncio.create_task(carrier.run(url))
            try:
                yield result
            finally:
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)


async def phone_talk(
    line: Line, talk: Callable[[PhoneCall], Awaitable[object]], *, asks: bool = True, **options
):
    """Hold a conversation over a phone line, and return what came of it."""
    async with phone_rig(Carrier(line, **options), talk, asks=asks) as result:
        return await asyncio.wait_for(result, 90)
