# SPDX-License-Identifier: BSD-2-Clause
"""The caller asks twice for the same: what runs, what is told, and what the model reads."""

import asyncio
import json

import pytest

from pipecat_async_tools import AsyncTools, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, virtual_time
from tests.stores import memory_store


async def asked_twice(on_duplicate, *, again_at=4.0, takes_secs=6.0):
    """A call in which the same is asked for twice, spelt otherwise the second time."""
    runs = []

    @async_tool(on_duplicate=on_duplicate)
    async def book(op, day: str, seats: int = 1):
        """Book."""
        runs.append(op.operation_id)
        await asyncio.sleep(takes_secs)
        return {"slot": "10:15"}

    store = memory_store()
    call = SimulatedCall(AsyncTools(session_id="s", tools=[book], store=store))
    call.user_says(at=0.5, until=1.5, text="Book Friday.")
    call.model_says("One moment.", when="book friday", calls=[Call("book", {"day": "friday"})])
    call.user_says(at=again_at, until=again_at + 1, text="Friday, please.")
    call.model_says(when="friday, please", calls=[Call("book", {"seats": 1, "day": " friday "})])
    call.model_says("As I said.", when="The same request")
    call.model_says("Booked.", when="UPDATE DUE")
    timeline = await call.run(until=22)
    answers = [
        json.loads(m["content"])
        for m in timeline.model_runs[-1].messages
        if m["role"] == "tool" and m["content"].startswith("{")
    ]
    return timeline, runs, answers, await store.operations("s")


@virtual_time
async def test_while_it_runs_the_second_call_joins_it_and_there_is_one_update():
    timeline, runs, (_, second), operations = await asked_twice("join")
    assert len(runs) == len(operations) == 1
    assert (second["status"], second["operation_id"]) == ("already_running", operations[0].operation_id)
    assert timeline.heard_text == "One moment. As I said. Booked."
    assert [t.heard for t in timeline.tellings] == ["Booked."]
    assert timeline.history_problems() == []


@pytest.mark.parametrize("on_duplicate", ["join", "replace"])
@virtual_time
async def test_afterwards_the_second_call_gets_the_stored_result(on_duplicate):
    timeline, runs, (_, second), _ = await asked_twice(on_duplicate, again_at=11.0, takes_secs=3.0)
    assert len(runs) == 1
    assert (second["status"], second["result"]) == ("succeeded", {"slot": "10:15"})
    assert [t.heard for t in timeline.tellings] == ["Booked."]
    assert timeline.heard_text.endswith("As I said.")


@virtual_time
async def test_it_can_be_refused():
    timeline, runs, (_, second), _ = await asked_twice("reject")
    assert len(runs) == 1
    assert second["status"] == "rejected"
    assert [t.heard for t in timeline.tellings] == ["Booked."]


@virtual_time
async def test_it_can_be_replaced_and_only_the_newer_one_is_told():
    timeline, runs, _, operations = await asked_twice("replace")
    assert len(runs) == 2
    assert [str(o.status) for o in operations] == ["cancelled", "succeeded"]
    assert operations[0].settled_at - operations[0].accepted_at < 6.0
    assert [t.heard for t in timeline.tellings] == ["Booked."]
    assert timeline.history_problems() == []
