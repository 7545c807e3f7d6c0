# SPDX-License-Identifier: BSD-2-Clause
"""A pipecat.flows bot: its slow function is announced and told, its transitions happen as ever."""

import asyncio

from pipecat.flows import FlowManager, NodeConfig

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual


async def find_slots(flow_manager: FlowManager, day: str):
    """Find free slots: slow, and stays on its node.

    Args:
        day: Name of the day.
    """
    await asyncio.sleep(4)
    return {"free": ["10:00"]}, None


async def choose_slot(flow_manager: FlowManager, slot: str):
    """Choose a slot: quick, and leads on to the goodbye.

    Args:
        slot: The time.
    """
    return {"chosen": slot}, node("goodbye", "Say goodbye.")


def node(name: str, task: str, *functions) -> NodeConfig:
    return NodeConfig(
        name=name, task_messages=[{"role": "developer", "content": task}], functions=list(functions)
    )


async def main() -> Timeline:
    call = SimulatedCall(AsyncTools(session_id="example-03", store="sqlite:///:memory:"))
    manager = FlowManager(
        llm=call.line.model, context_aggregator=call.line.aggregators, worker=call.line.worker
    )
    call.at(0, lambda: manager.initialize(node("booking", "Book a visit.", find_slots, choose_slot)))

    call.model_says("Ten o'clock is free.", when="UPDATE DUE")
    call.model_says("Which day suits you?", when="book a visit")
    call.model_says("Let me see.", when="thursday", calls=[Call("find_slots", {"day": "Thursday"})])
    call.model_says(when="ten it is", calls=[Call("choose_slot", {"slot": "10:00"})])
    call.model_says("See you on Thursday.", when="say goodbye")
    call.user_says(3.0, 4.0, "Thursday, please.")
    call.user_says(14.0, 15.0, "Ten it is.")
    return await call.run(until=20)


if __name__ == "__main__":
    run_virtual(main()).print()
