# SPDX-License-Identifier: BSD-2-Clause
"""The doors through which a model calls an ``@async_tool``: Pipecat's direct functions and Flows'."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pipecat.adapters.llm.schemas.direct_function import (
    DirectFunction,
    tool_options,  # pyright: ignore[reportUnknownVariableType]
)
from pipecat.flows import NO_RESPONSE
from pipecat.frames.frames import FunctionCallResultProperties
from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools.operations.tool import ToolSpec


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The one formal answer to a call.

    Parameters:
        result: The acceptance, or the result of a tool that was quick.
        run_llm: Whether the model runs on it; None leaves it to Pipecat.
    """

    result: Any
    run_llm: bool | None = None


class AnswerCall(Protocol):
    """Answers a call of a tool; the call's id is None when Pipecat does not pass it on."""

    def __call__(
        self, spec: ToolSpec, arguments: Mapping[str, Any], call_id: str | None
    ) -> Awaitable[Answer]:
        """Answer a call."""
        ...


def direct_function(spec: ToolSpec, answer: AnswerCall) -> DirectFunction:
    """Return the tool as Pipecat takes it in ``LLMContext(tools=[...])``."""

    async def call(params: FunctionCallParams, **arguments: Any) -> None:
        given = await answer(spec, arguments, params.tool_call_id)
        await params.result_callback(
            given.result, properties=FunctionCallResultProperties(run_llm=given.run_llm)
        )

    # The deadline is the operation's own: Pipecat's would run while the call is already answered.
    return _without_cancelling(_dressed(call, spec, "params"))


def flow_function(spec: ToolSpec, answer: AnswerCall) -> Callable[..., Awaitable[Any]]:
    """Return the tool as a node of ``pipecat.flows`` takes it; it stays on its node."""

    async def call(flow_manager: Any, **arguments: Any) -> tuple[Any, Any]:
        given = await answer(spec, arguments, None)
        return given.result, NO_RESPONSE if given.run_llm is False else None

    return _dressed(call, spec, "flow_manager")


def _without_cancelling(call: DirectFunction) -> DirectFunction:
    return cast("Any", tool_options)(cancel_on_interruption=False)(call)


def _dressed(call: Callable[..., Any], spec: ToolSpec, first: str) -> Callable[..., Any]:
    """Give ``call`` the name, docstring and parameters of the handler, behind its own first one."""
    signature = inspect.signature(spec.handler)
    parameters = list(signature.parameters.values())[1:]
    own = inspect.Parameter(first, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    annotations = {k: v for k, v in spec.handler.__annotations__.items() if k not in ("op", "return")}
    for name, value in (
        ("__name__", spec.name),
        ("__qualname__", spec.handler.__qualname__),
        ("__module__", spec.handler.__module__),
        ("__doc__", spec.handler.__doc__),
        ("__wrapped__", spec.handler),
        ("__annotations__", annotations),
        ("__signature__", signature.replace(parameters=[own, *parameters])),
    ):
        setattr(call, name, value)
    return call
