# SPDX-License-Identifier: BSD-2-Clause
"""When and how something is told is yours to decide. Needs no key."""

from pipecat_async_tools import (
    AsyncTools,
    AttachToNextResponse,
    ChannelState,
    DeliveryDecision,
    DeliveryPolicy,
    Envelope,
    Phrases,
    Wording,
)
from pipecat_async_tools.testing import Call, SimulatedCall, Timeline, run_virtual, scripted_tool


class ClinicPolicy(DeliveryPolicy):
    """Nobody is told a price out of the blue: it waits for something the caller says."""

    def choose(
        self, envelope: Envelope, channel: ChannelState, now: float, *, superseded: bool = False
    ) -> DeliveryDecision:
        decision = super().choose(envelope, channel, now, superseded=superseded)
        if "find_price" in envelope.tools and not superseded:
            return AttachToNextResponse(reason="a price waits for the caller's next turn")
        return decision


def quiet_secs(envelope: Envelope, channel: ChannelState) -> float:
    """Bad news needs a longer pause, and so does a phone line."""
    return (1.2 if envelope.kind == "failure" else 0.65) + (0.25 if channel.name == "twilio" else 0.0)


async def main() -> Timeline:
    async_tools = AsyncTools(
        session_id="example-04",
        tools=[scripted_tool("find_price")],
        store="sqlite:///:memory:",
        channel="twilio",
        delivery=ClinicPolicy(min_quiet_secs=quiet_secs),
        wording=Wording(phrases=Phrases(one_moment="I'll find out.")),
    )
    call = SimulatedCall(async_tools)
    call.model_says("Until six. And the crown costs 40 euros.", when="open")
    call.model_says(when="crown", calls=[Call("find_price")])

    call.user_says(0.5, 1.5, "What does a crown cost?")
    call.tool_finishes("find_price", at=4.0, result={"price_eur": 40})  # ready, and not told
    call.user_says(9.0, 10.0, "How long are you open?")  # the answer tells it
    return await call.run(until=16)


if __name__ == "__main__":
    run_virtual(main()).print()
