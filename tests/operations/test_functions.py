# SPDX-License-Identifier: BSD-2-Clause
"""The doors through which a model calls a tool: what it sees, and what it is answered."""

import inspect
from types import SimpleNamespace

import pytest
from pipecat.adapters.llm.schemas.direct_function import DirectFunctionWrapper
from pipecat.flows import NO_RESPONSE
from pipecat.flows.types import FlowsDirectFunctionWrapper
from pipecat.services.llm_service import LLMService

from pipecat_async_tools import OperationContext, async_tool
from pipecat_async_tools.operations.functions import Answer, direct_function, flow_function
from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.testing import virtual_time
from tests.operations import postponed


@async_tool(timeout_secs=7.0)
async def check(op: OperationContext, day: str, *, hour: int = 9, tags: list[str] | None = None) -> dict:
    """Check which slots are free.

    Args:
        day: ISO date.
        hour: Hour of the day.
        tags: What else.
    """


SPEC = spec_of(check)


class Desk:
    """Answers calls as told, and notes them."""

    def __init__(self, answer):
        self.given = answer
        self.calls = []

    async def answer(self, spec, arguments, call_id):
        self.calls.append((spec, arguments, call_id))
        return self.given


async def refuse(*_):
    raise AssertionError("nobody asked")


@pytest.fixture(params=["direct", "flow"])
def wrapped(request):
    """The tool as each door shows it to the model."""
    if request.param == "direct":
        return DirectFunctionWrapper(direct_function(SPEC, refuse))
    return FlowsDirectFunctionWrapper(flow_function(SPEC, refuse))


class TestSchema:
    def test_name_and_description_are_those_of_the_handler(self, wrapped):
        assert wrapped.name == "check"
        assert wrapped.description == "Check which slots are free."

    def test_parameters_are_those_of_the_handler_but_op(self, wrapped):
        properties = wrapped.to_function_schema().properties
        assert list(properties) == ["day", "hour", "tags"]
        assert properties["day"] == {"type": "string", "description": "ISO date."}
        assert properties["hour"]["type"] == "integer"
        assert wrapped.to_function_schema().required == ["day"]

    @pytest.mark.parametrize(
        ("door", "wrapper"),
        [(direct_function, DirectFunctionWrapper), (flow_function, FlowsDirectFunctionWrapper)],
        ids=["direct", "flow"],
    )
    def test_annotations_may_be_postponed(self, door, wrapper):
        schema = wrapper(door(spec_of(async_tool()(postponed.book)), refuse)).to_function_schema()
        assert schema.properties["nights"] == {"type": "integer", "description": "How many nights."}
        assert schema.required == ["day"]

    @pytest.mark.parametrize(
        ("door", "first"),
        [(direct_function, "params"), (flow_function, "flow_manager")],
        ids=["direct", "flow"],
    )
    def test_the_first_parameter_is_the_one_pipecat_asks_for(self, door, first):
        assert list(inspect.signature(door(SPEC, refuse)).parameters) == [first, "day", "hour", "tags"]

    def test_an_interruption_does_not_cancel_it_and_its_deadline_is_its_own(self):
        service = LLMService()
        service.register_direct_function(direct_function(SPEC, refuse))
        registered = service._functions["check"]
        assert registered.cancel_on_interruption is False
        assert registered.timeout_secs is None
        of_flows = FlowsDirectFunctionWrapper(flow_function(SPEC, refuse))
        assert of_flows.cancel_on_interruption is False
        assert of_flows.timeout_secs is None

    def test_the_handler_itself_stays_as_it_was(self, wrapped):
        assert list(inspect.signature(check).parameters) == ["op", "day", "hour", "tags"]
        assert spec_of(check) is SPEC


class TestDirect:
    async def called(self, answer):
        desk, answers = Desk(answer), []

        async def result_callback(result, *, properties=None):
            answers.append((result, properties.run_llm))

        params = SimpleNamespace(tool_call_id="call-7", result_callback=result_callback)
        await direct_function(SPEC, desk.answer)(params, day="friday", hour=0)
        assert desk.calls == [(SPEC, {"day": "friday", "hour": 0}, "call-7")]
        return answers

    @pytest.mark.parametrize("run_llm", [None, False, True])
    @virtual_time
    async def test_the_call_is_answered_once_with_what_was_decided(self, run_llm):
        answer = Answer(result={"status": "accepted"}, run_llm=run_llm)
        assert await self.called(answer) == [({"status": "accepted"}, run_llm)]


class TestFlow:
    @pytest.mark.parametrize(("run_llm", "node"), [(None, None), (False, NO_RESPONSE), (True, None)])
    @virtual_time
    async def test_it_stays_on_its_node_and_says_whether_the_model_runs(self, run_llm, node):
        desk = Desk(Answer(result={"status": "accepted"}, run_llm=run_llm))
        answered = await flow_function(SPEC, desk.answer)(object(), day="friday")
        assert answered == ({"status": "accepted"}, node)
        assert desk.calls == [(SPEC, {"day": "friday"}, None)]
