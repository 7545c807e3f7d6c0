# SPDX-License-Identifier: BSD-2-Clause
"""Work is stopped by decision only: the model's, the application's, Pipecat's own tool's."""

import json

import pytest

from pipecat_async_tools import AsyncTools, ConfigurationError, OperationPolicy, OperationStatus
from pipecat_async_tools.operations.cancelling import CANCEL_TOOL, match
from pipecat_async_tools.testing import (
    Call,
    SimulatedCall,
    native_tool,
    scripted_tool,
    virtual_time,
)
from tests.builders import operation
from tests.conversations.facts import SLOT
from tests.conversations.judging import times_heard
from tests.conversations.mind import Mind
from tests.conversations.script import SESSION, Door, StagedCall
from tests.policy.talk import bot, heard_out, texts
from tests.stores import memory_store

THURSDAY = operation("check_slots", operation_id="op-thu", arguments={"day": "Thursday"})
FRIDAY = operation("check_slots", operation_id="op-fri", arguments={"day": "Friday"})
PRICE = operation("find_price", operation_id="op-price", arguments={"item": "crown"})


class TestMatch:
    @pytest.mark.parametrize(
        ("description", "meant"),
        [
            ("the slots on Thursday", THURSDAY),
            ("friday", FRIDAY),
            ("the price of the crown", PRICE),
            ("Please cancel the price", PRICE),
        ],
    )
    def test_a_description_means_the_one_it_shares_most_words_with(self, description, meant):
        found = match([THURSDAY, FRIDAY, PRICE], operation_id="", description=description)
        assert found.operation is meant

    def test_an_id_is_certain(self):
        assert match([THURSDAY, FRIDAY], operation_id="op-fri", description="thursday").operation is FRIDAY

    def test_only_one_is_running_so_no_description_is_needed(self):
        assert match([PRICE], operation_id="", description="").operation is PRICE

    @pytest.mark.parametrize("description", ["", "the slots", "stop it"])
    def test_where_several_fit_none_is_meant(self, description):
        found = match([THURSDAY, FRIDAY], operation_id="", description=description)
        assert found.operation is None and found.choices == (THURSDAY, FRIDAY)

    @pytest.mark.parametrize(("operation_id", "description"), [("op-9", ""), ("", "the weather")])
    def test_where_none_fits_what_is_running_is_listed(self, operation_id, description):
        found = match([THURSDAY], operation_id=operation_id, description=description)
        assert found.operation is None and found.choices == (THURSDAY,)


def cancelling_call(*, cancellable=True, **arguments):
    """Two requests run; at 5 the caller wants one of them stopped."""
    tools = [
        scripted_tool("check_slots", parameters={"asked": str}, cancellable=cancellable),
        scripted_tool("find_price", parameters={"asked": str}, cancellable=True),
    ]
    store = memory_store()
    async_tools = AsyncTools(session_id=SESSION, tools=tools, store=store)
    call = StagedCall(Door.ASYNC_TOOL, async_tools, Mind([SLOT]))
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.user_asks("And the price of a crown?", at=3.0, until=3.8, answer="Sure.", calls=["find_price"])
    call.model_says(when="stop the slots", calls=[Call(CANCEL_TOOL, arguments)], times=1)
    call.user_says(at=6.0, until=7.0, text="Please stop the slots.")
    call.tool_hangs("find_price")
    return call


def answer_to_cancel(timeline):
    (call,) = [
        call
        for m in timeline.context
        for call in m.get("tool_calls", ())
        if call["function"]["name"] == CANCEL_TOOL
    ]
    (answer,) = [m for m in timeline.context if m.get("tool_call_id") == call["id"]]
    return json.loads(answer["content"])


@virtual_time
async def test_c6_the_model_stops_what_the_caller_describes_and_confirms_it_itself():
    call = cancelling_call(description="the slots on Thursday")
    call.model_says("It is stopped.", when='"status": "cancelled"')
    call.tool_hangs("check_slots")
    timeline = await heard_out(call, 20)
    run = next(run for run in timeline.tool_runs if run.name == "check_slots")
    assert run.outcome == "cancelled" and run.ended_at == pytest.approx(7.9, abs=0.3)
    assert answer_to_cancel(timeline)["status"] == "cancelled"
    slots, price = timeline.operations
    assert (slots.status, price.status) == (OperationStatus.CANCELLED, OperationStatus.RUNNING)
    # Nothing is told of it but the model's own confirmation.
    assert texts(timeline)[-1] == "It is stopped."
    assert [d.state for d in timeline.deliveries] == ["suppressed"]
    assert timeline.history_problems() == []


@virtual_time
async def test_where_several_fit_nothing_is_stopped_until_one_is_named():
    call = cancelling_call(description="")
    call.tool_hangs("check_slots")
    timeline = await heard_out(call, 12)
    answer = answer_to_cancel(timeline)
    assert answer["status"] == "refused" and len(answer["running"]) == 2
    assert all(o.status is OperationStatus.RUNNING for o in timeline.operations)


@virtual_time
async def test_what_is_not_cancellable_is_not_stopped():
    call = cancelling_call(cancellable=False, description="the slots")
    call.tool_hangs("check_slots")
    timeline = await heard_out(call, 12)
    answer = answer_to_cancel(timeline)
    assert answer == {"status": "refused", "reason": "check_slots cannot be stopped once it has begun."}
    assert all(o.status is OperationStatus.RUNNING for o in timeline.operations)


@virtual_time
async def test_what_ended_before_is_told_as_usual():
    call = cancelling_call(description="the slots")
    call.tool_finishes("check_slots", at=7.85, result={"slot": "10:00"})
    timeline = await heard_out(call, 20)
    assert answer_to_cancel(timeline)["status"] == "refused"
    assert times_heard(timeline, SLOT) == 1


def test_the_tool_is_there_only_if_something_can_be_cancelled():
    def names(**options):
        tools = [scripted_tool("check_slots", **options)]
        async_tools = AsyncTools(session_id="s", tools=tools, store="sqlite:///:memory:")
        return [f.__name__ for f in async_tools.functions], [f.__name__ for f in async_tools.flow_functions]

    assert names() == (["check_slots"], ["check_slots"])
    assert names(cancellable=True) == (["check_slots", CANCEL_TOOL],) * 2


def test_its_name_is_taken():
    tools = [scripted_tool(CANCEL_TOOL, cancellable=True)]
    with pytest.raises(ConfigurationError, match="rename your own"):
        AsyncTools(session_id="s", tools=tools, store="sqlite:///:memory:")


@virtual_time
async def test_pipecats_own_cancel_tool_stops_an_adopted_function():
    call = SimulatedCall(AsyncTools(session_id=SESSION, store=memory_store()))
    model = call.line.model
    model.register_function(
        "check_slots", native_tool("check_slots"), cancel_on_interruption=False, cancellable_by_llm=True
    )
    call.model_says("Sure.", when="thursday", calls=[Call("check_slots")])
    call.model_says(when="stop", calls=[Call("cancel_check_slots")], times=1)
    call.model_says("It is stopped.", when="cancel")
    call.user_says(at=0.5, until=1.5, text="Is Thursday free?")
    call.user_says(at=5.0, until=6.0, text="Please stop that.")
    call.tool_hangs("check_slots")
    timeline = await call.run(until=20)
    (run,) = timeline.tool_runs
    (slots,) = timeline.operations
    assert run.outcome == "cancelled" and slots.status is OperationStatus.CANCELLED
    assert texts(timeline)[-1] == "It is stopped." and timeline.tellings == []
    assert timeline.history_problems() == []


class Forgetful(OperationPolicy):
    """Whoever says "never mind" wants none of it any more."""

    def __init__(self):
        self.asked = []

    async def reconcile_with_new_turn(self, text, operations):
        self.asked.append((text, [o.tool for o in operations]))
        return [o.operation_id for o in operations] if "never mind" in text.lower() else []


@virtual_time
async def test_the_application_decides_what_a_new_turn_means_for_running_work():
    policy = Forgetful()
    call = bot(Door.ASYNC_TOOL, {"check_slots": {}}, [SLOT], operations=policy)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.user_asks("What is the weather?", at=4.0, until=5.0, answer="Sunny.")
    call.user_asks("Never mind the slot.", at=8.0, until=9.0, answer="As you like.")
    call.tool_finishes("check_slots", at=12.0, result={"slot": "10:00"})
    timeline = await heard_out(call, 20)
    assert policy.asked == [
        ("What is the weather?", ["check_slots"]),
        ("Never mind the slot.", ["check_slots"]),
    ]
    (run,) = timeline.tool_runs
    assert run.outcome == "cancelled" and run.ended_at < 12.0
    assert texts(timeline)[-1] == "As you like." and times_heard(timeline, SLOT) == 0
    assert [d.state for d in timeline.deliveries] == ["suppressed"]


@pytest.mark.parametrize("answer", [ZeroDivisionError(), ["nobody"]])
@virtual_time
async def test_a_policy_that_cannot_say_stops_nothing(answer):
    class Broken(OperationPolicy):
        def reconcile_with_new_turn(self, text, operations):
            if isinstance(answer, Exception):
                raise answer
            return answer

    call = bot(Door.ASYNC_TOOL, {"check_slots": {}}, [SLOT], operations=Broken())
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="Sure.", calls=["check_slots"])
    call.user_asks("What is the weather?", at=4.0, until=5.0, answer="Sunny.")
    call.tool_finishes("check_slots", at=8.0, result={"slot": "10:00"})
    assert times_heard(await heard_out(call, 20), SLOT) == 1


def test_what_is_no_policy_is_refused():
    with pytest.raises(ConfigurationError, match="operations="):
        AsyncTools(session_id="s", operations="never", store="sqlite:///:memory:")


def booking_call(**options):
    tools = [scripted_tool("book", parameters={"asked": str}, confirm_after_turn=True, **options)]
    call = StagedCall(
        Door.ASYNC_TOOL, AsyncTools(session_id=SESSION, tools=tools, store=memory_store()), Mind([SLOT])
    )
    call.user_asks("Book Thursday.", at=0.5, until=1.5, answer="", calls=["book"])
    return call


class TestConfirmAfterTurn:
    @virtual_time
    async def test_it_starts_after_a_second_without_a_word_of_the_caller(self):
        call = booking_call()
        call.tool_finishes("book", at=6.0, result={"slot": "10:00"})
        timeline = await heard_out(call, 15)
        (run,) = timeline.tool_runs
        assert run.started_at == pytest.approx(2.4 + 1.0, abs=0.1)
        assert times_heard(timeline, SLOT) == 1

    @virtual_time
    async def test_a_caller_who_goes_on_speaking_gets_nothing_started(self):
        call = booking_call()
        call.user_asks("No wait, Friday.", at=2.25, until=3.2, answer="Friday then.", calls=["book"])
        call.tool_finishes("book", at=8.0, result={"slot": "10:00"})
        timeline = await heard_out(call, 20)
        first, second = timeline.operations
        assert (first.status, first.attempts) == (OperationStatus.CANCELLED, 0)
        assert second.status is OperationStatus.SUCCEEDED
        assert [run.arguments["asked"] for run in timeline.tool_runs] == ["No wait, Friday."]
        assert "went on speaking before it began" in str(timeline.context)
        assert times_heard(timeline, SLOT) == 1 and timeline.history_problems() == []

    @virtual_time
    async def test_sound_that_never_becomes_a_turn_holds_it_up_for_a_while_only(self):
        call = booking_call()
        guard = call.async_tools._ledger._stands.__self__
        guard._caller_speaking = lambda: True
        call.tool_finishes("book", at=9.0, result={"slot": "10:00"})
        (run,) = (await heard_out(call, 15)).tool_runs
        assert run.started_at == pytest.approx(2.4 + 5.0, abs=0.1)

    @virtual_time
    async def test_without_it_a_tool_starts_at_once(self):
        call = bot(Door.ASYNC_TOOL, {"book": {}}, [SLOT])
        call.user_asks("Book Thursday.", at=0.5, until=1.5, answer="", calls=["book"])
        call.tool_finishes("book", at=6.0, result={"slot": "10:00"})
        (run,) = (await heard_out(call, 15)).tool_runs
        assert run.started_at == pytest.approx(2.4, abs=0.1)
