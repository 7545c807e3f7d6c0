# SPDX-License-Identifier: BSD-2-Clause
"""A slow tool is accepted at once, runs outside the turn, and comes back once. Needs no key."""

import asyncio

from pipecat_async_tools import AsyncTools, OperationContext, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


@async_tool(timeout_secs=30)
async def check_availability(op: OperationContext, day: str) -> dict:
    """Check which slots are free on a day.

    Args:
        day: Name of the day, e.g. Thursday.
    """
    await asyncio.sleep(4)  # a slow service; in a call on a virtual clock nobody waits for it
    return {"day": day, "free": ["10:00", "14:30"]}


async def main() -> Timeline:
    async_tools = AsyncTools(session_id="example-00", tools=[check_availability], store="sqlite:///:memory:")

    call = SimulatedCall(async_tools)
    call.model_says("Thursday is free at ten and at half past two.", when="UPDATE DUE")
    call.model_says(when="thursday", calls=[Call("check_availability", {"day": "Thursday"})])
    call.model_says("From eight to six.", when="open")

    call.user_says(0.5, 1.5, "Is there anything free on Thursday?")
    call.user_says(3.5, 4.5, "And when are you open?")  # the work goes on while the talk does
    return await call.run(until=16)


if __name__ == "__main__":
    run_virtual(main()).print()
