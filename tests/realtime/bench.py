# SPDX-License-Identifier: BSD-2-Clause
"""One slow tool, and the conversation that needs it."""

from __future__ import annotations

import asyncio
from typing import Any

from pipecat_async_tools import AsyncTools, async_tool
from pipecat_async_tools.delivery.wording import UPDATE_MARKER
from tests.realtime.call import RealtimeCall
from tests.realtime.server import Reply, Rule

ASKED = "Is Thursday free?"
ANSWER = "One moment please."
UPDATE = "There is a slot at 10:15 on Thursday."


class Bench:
    """A tool that ends when the test says so.

    Args:
        result: What it returns.
        **options: Of the tool.
    """

    def __init__(self, result: Any = None, **options: Any):
        self.result = asyncio.Event()
        self.runs = 0
        self.update_rule = Rule(Reply(UPDATE), UPDATE_MARKER, None)

        @async_tool(**options)
        async def check_slots(op, date: str) -> dict:
            """Check which slots are free.

            Args:
                date: The date.
            """
            self.runs += 1
            await self.result.wait()
            return result or {"slot": "10:15"}

        self.tool = check_slots

    def async_tools(self, **options: Any) -> AsyncTools:
        """An `AsyncTools` with the tool."""
        return AsyncTools(session_id="s", tools=[self.tool], **options)


async def ask_for_slots(call: RealtimeCall, update: str = UPDATE) -> None:
    """The bot greets, the caller asks, the tool begins and the caller is told so."""
    server = call.server
    server.answers(when=ASKED, calls=[("check_slots", {"date": "Thursday"})], times=1)
    server.answers(ANSWER, when="accepted", times=1)
    if update:
        server.answers(update, when=UPDATE_MARKER)
    await call.greet()
    await call.until(lambda: call.heard == "Okay.")
    await call.user_says(ASKED)
    await call.until(lambda: call.heard.endswith(ANSWER))
