# SPDX-License-Identifier: BSD-2-Clause
import asyncio
from types import SimpleNamespace

import httpx
import pytest
from pipecat.adapters.llm.schemas.direct_function import DirectFunctionWrapper

from bots.clinic import TOOLS
from bots.native_tools import native


def called(tool, **arguments):
    """The results that a native tool reports."""
    results = []

    async def report(result):
        results.append(result)

    params = SimpleNamespace(tool_call_id="call-1", result_callback=report)
    asyncio.run(native(tool)(params, **arguments))
    return results


@pytest.mark.parametrize("tool", TOOLS)
def test_the_model_sees_the_tools_own_arguments(tool):
    schema = DirectFunctionWrapper(native(tool)).to_function_schema()
    assert schema.name == tool.__name__
    assert schema.description == tool.__doc__.splitlines()[0]
    assert "op" not in schema.properties
    assert all(
        argument["type"] == "string" and argument["description"] for argument in schema.properties.values()
    )
    assert schema.required == list(schema.properties)


def test_a_tool_gets_the_calls_id_as_its_key_and_its_result_is_reported():
    async def tool(op, date: str):
        return {"key": op.idempotency_key, "date": date}

    assert called(tool, date="friday") == [{"key": "call-1", "date": "friday"}]


def test_a_failed_request_is_a_result():
    async def tool(op):
        raise httpx.ConnectError("nobody is there")

    assert called(tool) == [{"error": "nobody is there"}]
