# SPDX-License-Identifier: BSD-2-Clause
"""Tools whose end is decided by the script of the running call."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools.testing.timeline import ToolRun

NativeHandler = Callable[[FunctionCallParams], Awaitable[None]]

running_script: ContextVar[ToolScript] = ContextVar("running_script")
"""The tool script of the running call; tasks inherit it."""


@dataclass(frozen=True)
class NativeTool:
    """A handler registered with the model the way Pipecat alone would do it.

    Parameters:
        handler: A Pipecat function call handler.
        cancel_on_interruption: As in `LLMService.register_function`.
        timeout_secs: As in `LLMService.register_function`.
    """

    handler: NativeHandler
    cancel_on_interruption: bool = False
    timeout_secs: float | None = None


@dataclass(frozen=True)
class _End:
    at: float
    result: Any
    error: Exception | None


class ToolScript:
    """When and how the tools of one call end, and the record of their runs.

    Args:
        now: Tells the time, in seconds of the call.
    """

    def __init__(self, now: Callable[[], float]):
        self.runs: list[ToolRun] = []
        self._now = now
        self._ends: dict[tuple[str, int], _End] = {}
        self._hanging: set[str] = set()
        self._changed = asyncio.Event()

    def finishes(self, name: str, nth: int, at: float, result: Any, error: Exception | None) -> None:
        """Let the nth run of a tool, counted from 0, end at a time, or at once if that has passed."""
        self._ends[name, nth] = _End(at, result, error)
        self._changed.set()

    def hangs(self, name: str) -> None:
        """Let the runs of a tool that have no end go on for ever."""
        self._hanging.add(name)

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a tool as the script wants it."""
        nth = sum(run.name == name for run in self.runs)
        run = ToolRun(name, dict(arguments), self._now())
        self.runs.append(run)
        try:
            result = await self._result(name, nth)
        except asyncio.CancelledError:
            run.outcome = "cancelled"
            raise
        except Exception:
            run.outcome = "raised"
            raise
        else:
            run.outcome = "returned"
            return result
        finally:
            run.ended_at = self._now()

    def missing(self) -> list[str]:
        """The tools that ran more often than the script knows."""
        runs = Counter(run.name for run in self.runs if run.name not in self._hanging)
        return [
            f"run {nth} of the tool {name!r} (counted from 0) has no end: call tool_finishes or tool_hangs"
            for name, count in runs.items()
            for nth in range(count)
            if (name, nth) not in self._ends
        ]

    async def _result(self, name: str, nth: int) -> Any:
        while (end := self._ends.get((name, nth))) is None:
            self._changed.clear()
            await self._changed.wait()
        if (delay := end.at - self._now()) > 0:
            await asyncio.sleep(delay)
        if end.error:
            raise end.error
        return end.result


def scripted_tool(
    name: str, *, parameters: Mapping[str, type] | None = None, **async_tool_options: Any
) -> Any:
    """An `@async_tool` handler that ends when the running call's script says so.

    Args:
        name: The tool's name, as the model calls it.
        parameters: Its parameters with their types; each is optional and defaults to the empty value.
        **async_tool_options: Passed to `async_tool`.

    Returns:
        What `async_tool` makes of the handler.
    """
    from pipecat_async_tools.operations.tool import async_tool  # noqa: PLC0415 - native calls do without

    async def handler(op: Any, **arguments: Any) -> Any:
        return await running_script.get().run(name, arguments)

    return async_tool(**async_tool_options)(_named(handler, name, parameters or {}))


def native_tool(name: str, *, reports: int = 1) -> NativeHandler:
    """A Pipecat function call handler that ends when the running call's script says so.

    An end that lies in the past makes it report without waiting for anything.

    Args:
        name: The tool's name, as the model calls it.
        reports: How often it reports its result; 0 returns without reporting.
    """

    async def handler(params: FunctionCallParams) -> None:
        result = await running_script.get().run(name, params.arguments)
        for _ in range(reports):
            await params.result_callback(result)

    return handler


def _named(
    handler: Callable[..., Awaitable[Any]], name: str, parameters: Mapping[str, type]
) -> Callable[..., Awaitable[Any]]:
    """Give a handler the name, the signature and the docstring that a schema is made from."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [
        inspect.Parameter(parameter, kind, default=type_(), annotation=type_)
        for parameter, type_ in parameters.items()
    ]
    signature = inspect.Signature([inspect.Parameter("op", kind), *arguments])
    described = "".join(f"\n    {parameter}: The {parameter}." for parameter in parameters)
    handler.__name__ = handler.__qualname__ = name
    handler.__doc__ = f"Run {name}." + (f"\n\nArgs:{described}\n" if described else "")
    handler.__annotations__ = dict(parameters)
    vars(handler)["__signature__"] = signature
    return handler
