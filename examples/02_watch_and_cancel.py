# SPDX-License-Identifier: BSD-2-Clause
"""The application watches operations and deliveries, and cancels work that is no longer wanted."""

import asyncio

from pipecat_async_tools import AsyncTools, Event, OperationContext, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


@async_tool(timeout_secs=60)
async def book(op: OperationContext, slot: str) -> str:
    """Book a slot.

    Args:
        slot: The time, e.g. 10:00.
    """
    await asyncio.sleep(20)
    return "booked"


@async_tool()
async def send_directions(op: OperationContext) -> str:
    """Send directions by text message."""
    await asyncio.sleep(2)
    return "sent"


async def main() -> Timeline:
    async_tools = AsyncTools(
        session_id="example-02", tools=[book, send_directions], store="sqlite:///:memory:"
    )

    async def print_event(_: AsyncTools, event: Event) -> None:
        print(f"{event.at:8.3f}  {event.name:26}  {event.tool or event.delivery_id}  {event.reason}")

    for name in (
        "on_operation_accepted",
        "on_operation_settled",
        "on_delivery_waiting",
        "on_delivery_spoken",
    ):
        async_tools.add_event_handler(name, print_event)

    async def cancel_the_booking() -> None:
        booking = next(o for o in async_tools.snapshot().operations if o.tool == "book")
        assert await async_tools.cancel(booking.operation_id)

    call = SimulatedCall(async_tools)
    call.model_says("The directions are sent; the booking was cancelled.", when="UPDATE DUE")
    call.model_says(when="book", calls=[Call("book", {"slot": "10:00"}), Call("send_directions")])
    call.user_says(0.5, 1.5, "Book ten and send me directions.")
    call.at(7.0, cancel_the_booking)
    return await call.run(until=16)


if __name__ == "__main__":
    run_virtual(main()).print()
