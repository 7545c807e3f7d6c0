# SPDX-License-Identifier: BSD-2-Clause
"""Functions that a bot already registered are adopted as they are: three lines, no change to them."""

import asyncio

from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


async def load_customer(params: FunctionCallParams) -> None:
    """Look a customer up; written for plain Pipecat, and not changed."""
    await asyncio.sleep(3)
    await params.result_callback({"name": "Kim Larsen", "since": 2019})


async def main() -> Timeline:
    # `tools` of a SimulatedCall are registered with cancel_on_interruption=False: that is what adopts them.
    call = SimulatedCall(
        AsyncTools(session_id="example-01", store="sqlite:///:memory:"),
        tools={"load_customer": load_customer},
    )
    call.model_says("Let me look.", when="record", calls=[Call("load_customer")])
    call.model_says("Thank you. I found you, Kim, a customer since 2019.", when="larsen")

    call.user_says(0.5, 1.5, "Do you have my record?")
    call.user_says(4.5, 6.5, "It may be under Larsen.")  # just when the result arrives: it joins the answer
    return await call.run(until=16)


if __name__ == "__main__":
    run_virtual(main()).print()
