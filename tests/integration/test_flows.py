# SPDX-License-Identifier: BSD-2-Clause
"""A `pipecat.flows` bot runs unchanged: the same transitions; a slow function is announced and told."""

import asyncio
import inspect
from typing import Literal

import pytest
from pipecat.adapters.llm.schemas.direct_function import DirectFunctionWrapper
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.flows import FlowManager, FlowsFunctionSchema
from pipecat.flows.types import FlowsDirectFunctionWrapper
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools import AsyncTools, OperationContext, async_tool
from pipecat_async_tools.testing import Call, SimulatedCall, virtual_time


class Bot:
    """Three nodes: who is it, which day, goodbye. `choose_day` leads on once the booking is done."""

    def __init__(self, call, *, booking_secs=0.0, hours_secs=0.0, extra=()):
        self.call = call
        self.entered = []
        self.booking_secs = booking_secs
        self.hours_secs = hours_secs
        self.extra = extra
        line = call.line
        self.manager = FlowManager(llm=line.model, context_aggregator=line.aggregators, worker=line.worker)
        call.at(0.0, lambda: self.manager.initialize(self.greeting()))

    def node(self, name, task, functions):
        async def on_entry(action, flow_manager):
            self.entered.append((name, self.call.now))

        return {
            "name": name,
            "task_messages": [{"role": "developer", "content": task}],
            "functions": [*functions, *self.extra],
            "pre_actions": [{"type": f"enter {name}", "handler": on_entry}],
        }

    def greeting(self):
        async def collect_name(args, flow_manager):
            """A quick edge function, as a schema."""
            return {"name": args["name"]}, self.day()

        properties = {"name": {"type": "string"}}
        schema = FlowsFunctionSchema("collect_name", "Take the name.", properties, ["name"], collect_name)
        return self.node("greeting", "Ask for the name.", [schema])

    def day(self):
        async def opening_hours(flow_manager: FlowManager):
            """A node function: tell the opening hours."""
            await asyncio.sleep(self.hours_secs)
            return {"hours": "9 to 5"}, None

        async def choose_day(flow_manager: FlowManager, day: str):
            """Book a day, which leads to the goodbye.

            Args:
                day: The day.
            """
            await asyncio.sleep(self.booking_secs)
            return {"booked": day}, self.goodbye()

        return self.node("day", "Ask for the day.", [opening_hours, choose_day])

    def goodbye(self):
        return self.node("goodbye", "Say goodbye.", [])


def conversation(call):
    call.model_says("Hello, who is it?", when="ask for the name")
    call.user_says(at=2.0, until=2.6, text="Anna.")
    call.model_says(when="anna", calls=[Call("collect_name", {"name": "Anna"})])
    call.model_says("Which day?", when="ask for the day", times=1)
    call.user_says(at=6.0, until=6.6, text="When do you open?")
    call.model_says(when="open", calls=[Call("opening_hours")], times=1)
    call.model_says("From 9 to 5.", when="9 to 5")
    call.user_says(at=14.0, until=14.6, text="Thursday, then.")
    call.model_says(
        "Let me book that.", when="thursday, then", calls=[Call("choose_day", {"day": "Thursday"})]
    )
    call.model_says("Goodbye, Anna.", when="say goodbye")


@virtual_time
async def played(with_package, *, script=conversation, tools=(), **bot):
    async_tools = AsyncTools(session_id="s", tools=tools) if with_package else None
    call = SimulatedCall(async_tools)
    bot = Bot(call, extra=async_tools.flow_functions if async_tools else (), **bot)
    script(call)
    return bot, await call.run(until=40)


def test_quick_functions_are_as_without_the_package():
    bare_bot, bare = played(False)
    bot, timeline = played(True)
    assert [name for name, _ in bot.entered] == ["greeting", "day", "goodbye"]
    assert bot.entered == bare_bot.entered
    assert timeline.heard == bare.heard and timeline.context == bare.context
    assert timeline.heard_text.endswith("Let me book that. Goodbye, Anna.")
    assert not timeline.operations


# While "Let me book that." is being said, just after it, in silence, and while the caller speaks.
def heard(timeline):
    # Up to the noise: what Pipecat makes of an empty turn while a call is open is another matter.
    return [
        (utterance.text, utterance.started_at) for utterance in timeline.heard if utterance.started_at < 24
    ]


@pytest.mark.parametrize("booking_secs", [0.1, 0.5, 1.0, 1.3, 2.0, 8.0])
def test_a_slow_edge_function_leads_on_when_it_is_done(booking_secs):
    def script(call):
        conversation(call)
        call.user_speaks(at=22.5, until=24.0)

    bare_bot, bare = played(False, script=script, booking_secs=booking_secs)
    bot, timeline = played(True, script=script, booking_secs=booking_secs)
    assert [name for name, _ in bot.entered] == ["greeting", "day", "goodbye"]
    assert bot.entered == [(name, pytest.approx(at)) for name, at in bare_bot.entered]
    assert heard(timeline) == [(text, pytest.approx(at)) for text, at in heard(bare)]
    assert [o.tool for o in timeline.operations] == (["choose_day"] if booking_secs > 0.3 else [])
    # The next node speaks for it, and knows how it came out.
    assert '"booked": "Thursday"' in str(timeline.model_runs[-1].messages)
    assert timeline.tellings == [] and timeline.history_problems() == []


def test_a_slow_node_function_is_announced_and_told():
    """The bot says nothing on its own here: a line says that the work has begun."""
    bare_bot, _ = played(False, hours_secs=3.0)
    bot, timeline = played(True, hours_secs=3.0)
    assert bot.entered == bare_bot.entered
    called = next(run.ended_at for run in timeline.model_runs if run.calls == [Call("opening_hours")])
    (acknowledged,) = [u for u in timeline.heard if u.text == "One moment, I'm on it."]
    assert acknowledged.started_at == pytest.approx(called + 0.3, abs=0.1)
    (telling,) = timeline.tellings
    assert (telling.heard, telling.outcome) == ("From 9 to 5.", "completed")
    assert telling.started_at == pytest.approx(called + 3.0 + 0.36, abs=0.1)
    assert [(o.tool, str(o.status)) for o in timeline.operations] == [("opening_hours", "succeeded")]


def test_a_slow_function_that_is_not_adopted_is_none_of_our_business():
    @virtual_time
    async def call_of(adopt):
        call = SimulatedCall(AsyncTools(session_id="s", adopt=adopt))
        bot = Bot(call, hours_secs=3.0, booking_secs=2.0)
        conversation(call)
        return bot, await call.run(until=40)

    bare_bot, bare = played(False, hours_secs=3.0, booking_secs=2.0)
    for adopt in (False, [], lambda name: False):
        bot, timeline = call_of(adopt)
        assert bot.entered == bare_bot.entered
        assert timeline.heard == bare.heard and timeline.context == bare.context


@pytest.mark.parametrize("secs", [0.1, 5.0])
def test_an_async_tool_on_a_node(secs):
    """A quick one is answered with its result, a slow one is announced and told; both stay on their node."""

    @async_tool()
    async def check_parking(op: OperationContext, street: str) -> dict:
        """Check the parking."""
        await asyncio.sleep(secs)
        return {"free": street}

    def script(call):
        call.model_says("Hello, who is it?", when="ask for the name")
        call.user_says(at=2.0, until=2.6, text="Can I park?")
        call.model_says(when="park?", calls=[Call("check_parking", {"street": "Elm"})], times=1)
        call.model_says("Elm is free.", when='"Elm"')
        call.user_says(at=14.0, until=14.6, text="Anna.")
        call.model_says(when="anna", calls=[Call("collect_name", {"name": "Anna"})])
        call.model_says("Which day?", when="ask for the day", times=1)

    bot, timeline = played(True, script=script, tools=[check_parking])
    assert [name for name, _ in bot.entered] == ["greeting", "day"]
    assert bot.entered[1][1] > 14
    assert [str(o.status) for o in timeline.operations] == ["succeeded"]
    acknowledgement = [] if secs < 0.3 else ["One moment, I'm on it."]
    assert [u.text for u in timeline.heard] == [
        "Hello, who is it?",
        *acknowledgement,
        "Elm is free.",
        "Which day?",
    ]
    assert [telling.outcome for telling in timeline.tellings] == ([] if secs < 0.3 else ["completed"])
    assert timeline.history_problems() == []


# Schemas

Days = list[str]


async def book(day: str, room: Literal["a", "b"], nights: int = 2, guests: list[str] | None = None) -> dict:
    """Book a room.

    It takes a while.

    Args:
        day: The day, as an ISO date.
        room: Which room.
        nights: How many nights.
        guests: Who else comes.
    """
    return {}


def with_first(name, annotation, result):
    """`book` as Pipecat, Flows or this package takes it: with a first parameter of its own."""

    async def function(*args, **kwargs):
        return {}

    signature = inspect.signature(book)
    first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    function.__signature__ = signature.replace(parameters=[first, *signature.parameters.values()])
    function.__annotations__ = {**book.__annotations__, name: annotation, "return": result}
    function.__name__, function.__doc__ = book.__name__, book.__doc__
    return function


def schema_of(schema):
    return schema.name, schema.description, schema.properties, schema.required


def test_a_context_takes_the_functions_with_the_schemas_that_pipecat_derives():
    async_tools = AsyncTools(session_id="s", tools=[async_tool()(with_first("op", OperationContext, dict))])
    other = FunctionSchema("other", "Another tool.", {}, [])
    context = LLMContext(tools=[*async_tools.functions, other])
    schemas = {
        tool.name if isinstance(tool, FunctionSchema) else tool.__name__: tool for tool in tools_of(context)
    }
    assert list(schemas) == ["book", "other"]
    ours = DirectFunctionWrapper(async_tools.functions[0]).to_function_schema()
    theirs = DirectFunctionWrapper(with_first("params", FunctionCallParams, None)).to_function_schema()
    assert schema_of(ours) == schema_of(theirs)
    assert async_tools.functions[0]._pipecat_cancel_on_interruption is False
    name, description, properties, required = schema_of(ours)
    assert (name, description, required) == ("book", "Book a room.\n\nIt takes a while.", ["day", "room"])
    assert list(properties) == ["day", "room", "nights", "guests"]
    assert properties["day"] == {"type": "string", "description": "The day, as an ISO date."}
    assert properties["nights"] == {"type": "integer", "description": "How many nights."}
    assert schema_of(schemas["book"]) == schema_of(theirs)


def test_a_node_takes_the_functions_with_the_schemas_that_flows_derives():
    async_tools = AsyncTools(session_id="s", tools=[async_tool()(with_first("op", OperationContext, dict))])
    (function,) = async_tools.flow_functions
    FlowsDirectFunctionWrapper.validate_function(function)
    ours = FlowsDirectFunctionWrapper(function)
    theirs = FlowsDirectFunctionWrapper(with_first("flow_manager", FlowManager, tuple))
    assert schema_of(ours.to_function_schema()) == schema_of(theirs.to_function_schema())
    assert ours.cancel_on_interruption is theirs.cancel_on_interruption is False


def test_string_annotations_are_resolved_where_the_handler_was_written():
    async def strings(op: "OperationContext", days: "Days", late: "bool" = False) -> "dict":
        """Strings."""

    (function,) = AsyncTools(session_id="s", tools=[async_tool()(strings)]).functions
    schema = DirectFunctionWrapper(function).to_function_schema()
    days = {"type": "array", "items": {"type": "string"}}
    assert schema.properties == {"days": days, "late": {"type": "boolean"}}
    assert schema.required == ["days"]


def tools_of(context):
    return context.tools.standard_tools
