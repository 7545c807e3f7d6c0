# SPDX-License-Identifier: BSD-2-Clause
"""The clinic's tools as Pipecat runs them without the plug-in, for ``--plain`` and the benchmarks."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from pipecat.adapters.llm.schemas.direct_function import tool_options
from pipecat.services.llm_service import FunctionCallParams


@dataclass(frozen=True)
class NativeOperation:
    """What a tool gets in place of the plug-in's context.

    Parameters:
        idempotency_key: The tool call's id.
    """

    idempotency_key: str


def native(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Make a direct function of a tool.

    Args:
        tool: A coroutine function whose first parameter is the operation.

    Returns:
        A function for ``LLMContext(tools=...)`` that outlives an interruption; a failure is its result.
    """

    @tool_options(cancel_on_interruption=False)
    async def call(params: FunctionCallParams, **arguments: Any) -> None:
        try:
            result = await tool(NativeOperation(params.tool_call_id), **arguments)
        except httpx.HTTPError as error:
            result = {"error": str(error)}
        await params.result_callback(result)

    _, *rest = inspect.signature(tool).parameters.values()
    params = inspect.Parameter("params", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    call.__name__, call.__doc__ = tool.__name__, tool.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in rest}
    call.__signature__ = inspect.Signature([params, *rest])  # pyright: ignore[reportFunctionMemberAccess]
    return call
