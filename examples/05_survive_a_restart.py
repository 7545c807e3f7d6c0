# SPDX-License-Identifier: BSD-2-Clause
"""What a call still owed is told in the next one, also by another process. Needs no key."""

import asyncio
import tempfile
from pathlib import Path

from pipecat_async_tools import AsyncTools, OperationContext, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


@async_tool(timeout_secs=60, idempotent=True)
async def book(op: OperationContext, day: str) -> dict:
    """Book a slot.

    Args:
        day: Name of the day.
    """
    await asyncio.sleep(5)  # send op.idempotency_key along: after a restart it may be started again
    return {"booked": day, "slot": "10:00"}


def call_on(store: str) -> tuple[AsyncTools, SimulatedCall]:
    """Everything here is made anew, as after a restart; only the file is the same."""
    async_tools = AsyncTools(session_id="caller-5", tools=[book], store=store)
    call = SimulatedCall(async_tools)
    call.model_says("Thursday at ten is booked.", when="UPDATE DUE")
    call.model_says("One moment.", when="thursday", calls=[Call("book", {"day": "Thursday"})])
    return async_tools, call


async def main() -> Timeline:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'calls.db'}"
        async_tools, call = call_on(store)
        call.user_says(0.5, 1.5, "Book Thursday, please.")
        call.user_hangs_up(at=4.0)  # the work goes on for drain_secs, or is taken up by whoever comes next
        await call.run(until=5)
        await async_tools.stop()

        async_tools, call = call_on(store)
        call.bot_greets("Welcome back.", at=0.3)
        timeline = await call.run(until=8)
        await async_tools.stop()
        return timeline


if __name__ == "__main__":
    run_virtual(main()).print()
