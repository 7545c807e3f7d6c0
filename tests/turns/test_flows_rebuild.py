# SPDX-License-Identifier: BSD-2-Clause
"""A Flows node change that rebuilds the context in the middle of an operation."""

import asyncio

import pytest
from pipecat.flows import ContextStrategy, ContextStrategyConfig, FlowManager

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import Call, SimulatedCall, virtual_time
from tests.integration.test_flows import Bot
from tests.policy.talk import texts
from tests.stores import memory_store

HOURS = "We are open from 9 to 5."


class Forgetful(Bot):
    """Its node "day" has a slow function, and leads to a node that begins with an empty context."""

    def day(self):
        async def opening_hours(flow_manager: FlowManager):
            """Tell the opening hours."""
            await asyncio.sleep(self.hours_secs)
            return {"hours": "9 to 5"}, None

        async def choose_day(flow_manager: FlowManager, day: str):
            """Choose a day.

            Args:
                day: The day.
            """
            return {"chosen": day}, self.goodbye()

        return self.node("day", "Ask for the day.", [opening_hours, choose_day])

    def goodbye(self):
        strategy = ContextStrategyConfig(strategy=ContextStrategy.RESET)
        return {**self.node("goodbye", "Say goodbye.", []), "context_strategy": strategy}


@pytest.mark.parametrize("hours_secs", [5.0, 7.0, 7.5, 8.0, 8.3, 9.0, 10.0, 12.0])
@virtual_time
async def test_what_was_asked_for_before_is_told_once_after_it(hours_secs):
    call = SimulatedCall(AsyncTools(session_id="s", store=memory_store()))
    bot = Forgetful(call, hours_secs=hours_secs)
    call.model_says("Hello, who is it?", when="ask for the name")
    call.model_says(when="anna", calls=[Call("collect_name", {"name": "Anna"})])
    call.model_says("Which day?", when="ask for the day", times=1)
    call.model_says(HOURS, when="9 to 5")
    call.model_says("One moment.", when="open", calls=[Call("opening_hours")], times=1)
    call.model_says(when="thursday, then", calls=[Call("choose_day", {"day": "Thursday"})], times=1)
    call.model_says("Goodbye, Anna.", when="say goodbye", times=1)
    call.user_says(at=2.0, until=2.6, text="Anna.")
    call.user_says(at=6.0, until=6.6, text="When do you open?")
    call.user_says(at=13.0, until=13.8, text="Thursday, then.")
    timeline = await call.run(until=35)

    assert [name for name, _ in bot.entered] == ["greeting", "day", "goodbye"]
    asked_at = next(run.ended_at for run in timeline.model_runs if Call("opening_hours") in run.calls)
    rebuilt_at = bot.entered[-1][1]
    assert asked_at < rebuilt_at
    # The context is a new one: what was said before the change is not in it.
    assert "When do you open?" not in str(timeline.context)
    assert sum(HOURS in text for text in texts(timeline)) == 1, f"\n{timeline}"
    assert "Goodbye, Anna." in timeline.heard_text
    assert [d.state for d in timeline.deliveries] == ["spoken"]
    assert timeline.history_problems() == [] and timeline.talked_over() == []
