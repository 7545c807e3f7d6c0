# SPDX-License-Identifier: BSD-2-Clause
"""A list of things to do becomes one operation each, with a key, attempts and an outcome of its own."""

import asyncio

import pytest

from pipecat_async_tools import AsyncTools, Retry, ToolDefinitionError, ToolError, async_tool
from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.testing import Call, SimulatedCall, virtual_time
from tests.stores import memory_store


def grant_tool(ran, secs=2.0):
    @async_tool(items="accesses", retry=Retry(max_attempts=3, initial_wait_secs=0.1))
    async def grant(op, accesses: list[str], reason: str = ""):
        """Grant accesses."""
        (access,) = accesses
        ran.append((access, op.attempt, op.idempotency_key))
        await asyncio.sleep(secs)
        if access == "vault":
            raise ToolError("the vault needs a second signature")
        if access == "wiki" and op.attempt == 1:
            raise Unavailable("try again")
        return {"granted": access}

    return grant


class Unavailable(Exception):
    status_code = 503


class TestSplitting:
    def test_each_item_gets_the_other_arguments(self):
        spec = spec_of(grant_tool([]))
        parts = spec.split(spec.validate({"accesses": ["mail", "wiki"], "reason": "new here"}))
        assert parts == [
            {"accesses": ["mail"], "reason": "new here"},
            {"accesses": ["wiki"], "reason": "new here"},
        ]
        assert len({spec.intent_key(part) for part in parts}) == 2

    def test_no_items_are_refused_in_words_for_the_model(self):
        with pytest.raises(ValueError, match="without any accesses: name at least one"):
            spec_of(grant_tool([])).split({"accesses": [], "reason": ""})

    @pytest.mark.parametrize(
        ("items", "problem"),
        [("nothing", "is no parameter of grant"), ("reason", "annotate that parameter of grant as a list")],
    )
    def test_what_is_no_list_is_refused_when_it_is_declared(self, items, problem):
        with pytest.raises(ToolDefinitionError, match=problem):

            @async_tool(items=items)
            async def grant(op, accesses: list[str], reason: str = ""):
                """Grant."""


async def conversation(ran, *, secs=2.0, accesses=("mail", "wiki", "vault"), again=()):
    store = memory_store()
    async_tools = AsyncTools(session_id="desk", tools=[grant_tool(ran, secs)], store=store)
    call = SimulatedCall(async_tools)
    call.user_says(at=0.5, until=1.5, text="Grant all of them.")
    call.model_says("One moment.", when="grant all", calls=[Call("grant", {"accesses": list(accesses)})])
    call.model_says("Two of three.", when="UPDATE DUE")
    if again:
        call.user_says(at=12.0, until=13.0, text="And once more.")
        call.model_says(when="once more", calls=[Call("grant", {"accesses": list(again)})])
        call.model_says("Right.", when="operation_id")
    timeline = await call.run(until=25)
    return timeline, store


@virtual_time
async def test_each_item_has_its_own_attempts_and_outcome_and_there_is_one_total():
    ran = []
    timeline, store = await conversation(ran)
    operations = {o.arguments["accesses"][0]: o for o in await store.operations("desk")}
    assert {name: (str(o.status), o.attempts, o.item) for name, o in operations.items()} == {
        "mail": ("succeeded", 1, 0),
        "wiki": ("succeeded", 2, 1),
        "vault": ("failed", 1, 2),
    }
    assert len({o.tool_call_id for o in operations.values()}) == 1
    assert len({key for _, _, key in ran}) == 3
    # One telling, after the last of them, of all three.
    assert [t.heard for t in timeline.tellings] == ["Two of three."]
    (delivery,) = await store.deliveries("desk")
    assert {o.operation_id for o in delivery.operations} == {o.operation_id for o in operations.values()}
    update = next(
        run.last_message for run in timeline.model_runs if "UPDATE DUE" in run.last_message["content"]
    )
    assert "one total" in update["content"]
    assert timeline.history_problems() == []


@virtual_time
async def test_an_item_that_was_asked_for_before_is_not_done_again():
    ran = []
    timeline, _ = await conversation(ran, again=("mail", "printer"))
    assert [name for name, attempt, _ in ran if attempt == 1] == ["mail", "wiki", "vault", "printer"]
    answer = next(
        m["content"]
        for m in timeline.model_runs[-1].messages
        if "items_requested_before" in str(m.get("content"))
    )
    assert '"result": {"granted": "mail"}' in answer
    assert [t.outcome for t in timeline.tellings] == ["completed", "completed"]


@virtual_time
async def test_items_that_are_all_quick_are_answered_at_once():
    ran = []
    timeline, store = await conversation(ran, secs=0.01, accesses=("mail", "printer"))
    assert timeline.tellings == []
    assert [d.state for d in await store.deliveries("desk")] in ([], ["suppressed"])
    assert await store.open_deliveries("desk") == []
    answer = timeline.model_runs[-1].last_message["content"]
    assert '"granted": "mail"' in answer and '"granted": "printer"' in answer
