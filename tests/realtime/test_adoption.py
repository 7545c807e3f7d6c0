# SPDX-License-Identifier: BSD-2-Clause
"""A native function of a speech-to-speech bot keeps its native answer, and the log says why."""

import asyncio
import json

import pytest
from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema

from pipecat_async_tools import AsyncTools
from tests.realtime.call import RealtimeCall, in_real_time
from tests.realtime.server import RealtimeServer

pytestmark = pytest.mark.realtime


@pytest.fixture
def warnings():
    lines = []
    sink = logger.add(lambda m: lines.append(m.record["message"]), level="WARNING")
    yield lines
    logger.remove(sink)


@in_real_time
async def test_a_native_function_keeps_its_native_answer(warnings):
    async def load_customer(params):
        await asyncio.sleep(0.8)
        await params.result_callback({"name": "Ada"})

    tools = (FunctionSchema("load_customer", "Load the customer.", {}, []),)
    async with RealtimeServer() as server:
        server.answers(when="who am i", calls=[("load_customer", {})])
        server.answers("You are Ada.", when="Ada")
        async_tools = AsyncTools(session_id="s", tools=[])
        native = {"load_customer": load_customer}
        async with RealtimeCall(async_tools, server, tools=tools, native=native) as call:
            await call.greet()
            for nth in (1, 2):
                await call.user_says("Who am I?")
                await call.until(lambda nth=nth: call.heard.count("You are Ada.") == nth)
            assert [json.loads(s.item["output"]) for s in server.outputs()] == [{"name": "Ada"}] * 2
            assert not async_tools.snapshot().operations and not call.deliveries
    (said,) = [line for line in warnings if "load_customer" in line]
    assert "keeps its native answer" in said and "OpenAIRealtimeLLMService" in said and "@async_tool" in said
