# SPDX-License-Identifier: BSD-2-Clause
"""Short conversations about the rows of the policy, through both doors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pipecat_async_tools import AsyncTools, Store, TellingOptions
from pipecat_async_tools.testing import Timeline, native_tool, scripted_tool
from tests.conversations.mind import Fact, Mind
from tests.conversations.script import OURS, SESSION, Door, StagedCall
from tests.stores import memory_store

both_doors = pytest.mark.parametrize("door", OURS)

PRICE = Fact("It costs forty euros.", data="price_eur")
ALARM = Fact("There is smoke in the kitchen.", data="smoke")
HOUSE = (
    "We are three doctors and two nurses in a bright modern house with a lift and our own car park, and you "
    "find us right behind the station."
)


def bot(
    door: Door,
    tools: Mapping[str, Mapping[str, Any]],
    facts: Sequence[Fact],
    *,
    store: Store | None = None,
    call: Mapping[str, Any] | None = None,
    **options: Any,
) -> StagedCall:
    """Return a call whose bot has slow tools, each with the options of its telling.

    Args:
        door: How the tools come in.
        tools: The options by the name of the tool.
        facts: What the model can tell.
        store: Remembers; None is one in memory.
        call: Options of the simulated call.
        **options: Of `AsyncTools`.
    """
    ours = door is Door.ASYNC_TOOL
    decorated = [scripted_tool(n, parameters={"asked": str}, **o) for n, o in tools.items()]
    native = {name: native_tool(name) for name in tools}
    async_tools = AsyncTools(
        session_id=SESSION,
        tools=options.pop("handlers", decorated if ours else []),
        adopt=True if ours else {name: TellingOptions(**o) for name, o in tools.items()},
        store=store or memory_store(),
        **options,
    )
    return StagedCall(door, async_tools, Mind(facts), tools={} if ours else native, **(call or {}))


async def heard_out(call: StagedCall, until: float) -> Timeline:
    """Play the call; what the script does not say is up to the model's mind."""
    call.model_says(call.mind.reply)
    return await call.run(until=until)


def texts(timeline: Timeline) -> list[str]:
    """What was heard, utterance by utterance."""
    return [utterance.text for utterance in timeline.heard]


def said(timeline: Timeline, part: str) -> Any:
    """The one utterance with these words in it."""
    (found,) = [utterance for utterance in timeline.heard if part in utterance.text]
    return found


def delivery_about(timeline: Timeline, tool: str) -> Any:
    """The one delivery that tells about a tool."""
    (found,) = [d for d in timeline.deliveries if any(o.tool == tool for o in d.operations)]
    return found
