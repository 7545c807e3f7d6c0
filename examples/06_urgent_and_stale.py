# SPDX-License-Identifier: BSD-2-Clause
"""What is urgent cuts in; what a newer request replaced is not told. Needs no key."""

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual, scripted_tool


async def main() -> Timeline:
    tools = [
        scripted_tool("watch_alarm", priority="urgent"),
        scripted_tool("check_slots", parameters={"day": str}, supersedes=lambda arguments: "slots"),
    ]
    call = SimulatedCall(AsyncTools(session_id="example-06", tools=tools, store="sqlite:///:memory:"))
    call.model_says("Sorry, there is smoke in the kitchen.", when='"alarm": "smoke"')
    call.model_says("Friday at noon is free.", when='"slot": "12:00"')
    call.model_says("Sure.", when="alarm", calls=[Call("watch_alarm")])
    call.model_says("One moment.", when="thursday", calls=[Call("check_slots", {"day": "Thursday"})])
    call.model_says("Friday then.", when="friday", calls=[Call("check_slots", {"day": "Friday"})])
    call.model_says("We are three doctors in a bright house right behind the station.", when="house")

    call.user_says(0.5, 1.3, "Watch the alarm.")
    call.user_says(3.0, 4.0, "Is Thursday free?")
    call.user_says(6.0, 7.0, "No, Friday.")
    call.tool_finishes("check_slots", nth=0, at=8.5, result={"slot": "10:00"})  # nobody asks any more
    call.user_says(9.5, 10.5, "Tell me about the house.")
    call.tool_finishes("watch_alarm", at=13.0, result={"alarm": "smoke"})  # cuts the bot off
    call.tool_finishes("check_slots", nth=1, at=16.0, result={"slot": "12:00"})
    return await call.run(until=22)


if __name__ == "__main__":
    run_virtual(main()).print()
