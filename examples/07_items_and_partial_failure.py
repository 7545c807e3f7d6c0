# SPDX-License-Identifier: BSD-2-Clause
"""A list becomes one operation for each item, and one total is told. Needs no key."""

import asyncio

from pipecat_async_tools import AsyncTools, OperationContext, ToolError, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


@async_tool(items="accesses")
async def grant(op: OperationContext, accesses: list[str]) -> str:
    """Grant accesses.

    Args:
        accesses: The systems.
    """
    (system,) = accesses  # each operation has one item, with its own attempts and its own outcome
    await asyncio.sleep(3)
    if system == "payroll":
        raise ToolError("payroll needs your manager's approval")
    return "granted"


async def main() -> Timeline:
    call = SimulatedCall(AsyncTools(session_id="example-07", tools=[grant], store="sqlite:///:memory:"))
    call.model_says("Two of three are granted; payroll needs your manager's approval.", when="UPDATE DUE")
    accesses = ["mail", "wiki", "payroll"]
    call.model_says("Sure.", when="please", calls=[Call("grant", {"accesses": accesses})])

    call.user_says(0.5, 2.0, "Mail, wiki and payroll, please.")
    return await call.run(until=12)


if __name__ == "__main__":
    run_virtual(main()).print()
