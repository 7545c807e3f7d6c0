# SPDX-License-Identifier: BSD-2-Clause
"""Pipecat's own turn machinery around an update: each with the moment that is awkward for it."""

import pytest
from pipecat.audio.turn.base_turn_analyzer import BaseTurnAnalyzer, BaseTurnParams, EndOfTurnState
from pipecat.frames.frames import (
    EagerEndOfTurnCancelFrame,
    EagerTranscriptionFrame,
    ManuallySwitchServiceFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.llm_switcher import LLMSwitcher
from pipecat.pipeline.service_switcher import ServiceSwitcherStrategyManual
from pipecat.processors.aggregators.llm_response_universal import (
    LLMAssistantAggregatorParams,
    LLMUserAggregatorParams,
)
from pipecat.turns.empty_user_turn import EmptyUserTurnConfig
from pipecat.turns.user_mute import FunctionCallUserMuteStrategy
from pipecat.turns.user_start import MinWordsUserTurnStartStrategy, VADUserTurnStartStrategy
from pipecat.turns.user_stop import (
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
)
from pipecat.turns.user_turn_strategies import (
    EagerUserTurnStrategies,
    ExternalUserTurnStrategies,
    FilterIncompleteUserTurnStrategies,
    UserTurnStrategies,
)
from pipecat.utils.context.llm_context_summarization import (
    LLMAutoContextSummarizationConfig,
    LLMContextSummaryConfig,
)
from pipecat.utils.time import time_now_iso8601

from pipecat_async_tools.testing import Call, Reply, ScriptedModel, virtual_time
from tests.conversations.facts import SLOT
from tests.conversations.judging import times_heard
from tests.policy.talk import bot, both_doors, delivery_about, heard_out, said

RESULT = {"slot": "10:00"}


def with_turns(door, strategies=None, **options):
    """A bot with a slow tool, and the turn machinery of the test."""
    params = LLMUserAggregatorParams(**options.pop("user", {}))
    if strategies is not None:
        params.user_turn_strategies = strategies
    call = {"user_params": params, **options.pop("call", {})}
    return bot(door, {"check_slots": {}}, [SLOT], call=call, **options)


def by_voice():
    return UserTurnStrategies(
        start=[VADUserTurnStartStrategy()], stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.4)]
    )


def came_out_right(timeline, runs=1):
    assert times_heard(timeline, SLOT) == 1, f"\n{timeline}"
    assert timeline.talked_over() == [] and timeline.history_problems() == [], f"\n{timeline}"
    assert len(timeline.tool_runs) == runs
    assert [d.state for d in timeline.deliveries] == ["spoken"], f"\n{timeline}"


class HesitantAnalyzer(BaseTurnAnalyzer):
    """Says of the first end of speech after a moment that the caller has not finished."""

    def __init__(self, verdicts):
        super().__init__()
        self._verdicts = verdicts

    @property
    def speech_triggered(self):
        return False

    @property
    def params(self):
        return BaseTurnParams()

    def append_audio(self, buffer, is_speech):
        return EndOfTurnState.INCOMPLETE

    async def analyze_end_of_turn(self):
        return self._verdicts.pop(0), None

    def clear(self):
        pass


@both_doors
@virtual_time
async def test_smart_turn_a_pause_in_mid_sentence_is_not_the_end_of_the_turn(door):
    """The analyzer is scripted: the real one listens to real audio, which is the far edge here."""
    done, not_yet = EndOfTurnState.COMPLETE, EndOfTurnState.INCOMPLETE
    stop = TurnAnalyzerUserTurnStopStrategy(turn_analyzer=HesitantAnalyzer([done, not_yet, done]))
    call = with_turns(door, UserTurnStrategies(start=[VADUserTurnStartStrategy()], stop=[stop]))
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.user_says(at=5.0, until=6.0, text="And how do I")
    call.tool_finishes("check_slots", at=6.5, result=RESULT)
    call.user_says(at=7.5, until=8.3, text="get there?")
    call.model_says(call.mind.reply, when="get there")
    timeline = await heard_out(call, 20)
    came_out_right(timeline)
    # It was ready in the pause, and nothing was said in it.
    assert not any(6.0 < u.started_at < 8.3 for u in timeline.heard)
    assert delivery_about(timeline, "check_slots").mode == "next_turn"


@both_doors
@virtual_time
async def test_external_turns_come_from_a_service_that_proposes_them(door):
    call = with_turns(door, ExternalUserTurnStrategies())
    caller = call.line.caller

    def turn(at, until, text, **answers):
        call.mind.answers[text] = answers["answer"]
        made = [Call(name, {"asked": text}) for name in answers.get("calls", ())]
        call.model_says(call.mind.reply, when=text, calls=made, times=1)
        call.at(at, lambda: caller.broadcast_frame(ProposedUserStartedSpeakingFrame))
        call.at(until, lambda: caller.report_words(text))
        call.at(until + 0.1, lambda: caller.broadcast_frame(ProposedUserStoppedSpeakingFrame))

    turn(0.5, 1.5, "Is Thursday free?", answer="One moment.", calls=["check_slots"])
    turn(5.0, 7.0, "And how do I get there?", answer="Take the bus.")
    call.tool_finishes("check_slots", at=6.0, result=RESULT)
    timeline = await heard_out(call, 20)
    came_out_right(timeline)
    assert not any(5.0 < u.started_at < 7.0 for u in timeline.heard)


@both_doors
@virtual_time
async def test_turn_completion_a_marker_without_words_is_no_answer(door):
    call = with_turns(
        door,
        FilterIncompleteUserTurnStrategies(
            start=[VADUserTurnStartStrategy()],
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.4)],
        ),
    )
    calls = [Call("check_slots", {"asked": "x"})]
    call.model_says("● One moment.", when="is thursday free", calls=calls, times=1)
    call.model_says("◐", when="and how do i", times=1)
    call.model_says(lambda messages: f"● {call.mind.reply(messages)}")
    call.mind.answers["get there"] = "Take the bus."
    call.user_says(at=0.5, until=1.5, text="Is Thursday free?")
    call.user_says(at=5.0, until=6.0, text="And how do I")
    call.tool_finishes("check_slots", at=5.5, result=RESULT)
    call.user_says(at=8.5, until=9.5, text="get there?")
    timeline = await heard_out(call, 25)
    marker_only = [run for run in timeline.model_runs if run.text.strip() == "◐"]
    assert len(marker_only) == 1 and marker_only[0].at < 8.5
    came_out_right(timeline)
    # The update was in the context of the marker too, and was not taken for told by it.
    assert said(timeline, SLOT.sentence).started_at > 9.5


@both_doors
@virtual_time
async def test_eager_turns_a_withdrawn_speculation_tells_nothing(door):
    call = with_turns(door, EagerUserTurnStrategies())
    caller = call.line.caller

    def heard(at, kind, text):
        call.at(at, lambda: caller.push_frame(kind(text, "caller", time_now_iso8601())))

    call.model_says(
        "One moment.", when="is thursday free", calls=[Call("check_slots", {"asked": "x"})], times=1
    )
    call.mind.answers["get there"] = "Take the bus."
    call.mind.answers["there by bus"] = "Take line four."
    call.at(0.5, lambda: caller.broadcast_frame(ProposedUserStartedSpeakingFrame))
    heard(1.5, TranscriptionFrame, "Is Thursday free?")
    call.at(1.6, lambda: caller.broadcast_frame(ProposedUserStoppedSpeakingFrame))
    call.at(5.0, lambda: caller.broadcast_frame(ProposedUserStartedSpeakingFrame))
    call.tool_finishes("check_slots", at=5.5, result=RESULT)
    heard(6.0, EagerTranscriptionFrame, "And how do I get there")
    call.at(6.8, lambda: caller.broadcast_frame(EagerEndOfTurnCancelFrame))
    heard(8.0, TranscriptionFrame, "And how do I get there by bus?")
    call.at(8.1, lambda: caller.broadcast_frame(ProposedUserStoppedSpeakingFrame))
    timeline = await heard_out(call, 20)
    speculated = [run for run in timeline.model_runs if 5.9 < run.at < 8.0]
    assert speculated, f"\n{timeline}"
    assert "Take the bus." not in timeline.heard_text
    came_out_right(timeline)
    assert said(timeline, SLOT.sentence).started_at > 8.0


@both_doors
@virtual_time
async def test_eager_turns_a_speculation_that_wants_a_tool_starts_nothing(door):
    call = with_turns(door, EagerUserTurnStrategies())
    caller = call.line.caller
    call.model_says("One moment.", when="thursday", calls=[Call("check_slots", {"asked": "x"})])
    call.at(0.5, lambda: caller.broadcast_frame(ProposedUserStartedSpeakingFrame))
    eager = EagerTranscriptionFrame("Is Thursday", "caller", time_now_iso8601())
    call.at(1.0, lambda: caller.push_frame(eager))
    call.at(3.0, lambda: caller.report_words("Is Thursday free?"))
    call.at(3.1, lambda: caller.broadcast_frame(ProposedUserStoppedSpeakingFrame))
    call.tool_finishes("check_slots", at=6.0, result=RESULT)
    timeline = await heard_out(call, 15)
    assert [run for run in timeline.model_runs if 0.9 < run.at < 3.0], f"\n{timeline}"
    assert [run.started_at > 3.0 for run in timeline.tool_runs] == [True]
    came_out_right(timeline)


@both_doors
@pytest.mark.parametrize(("text", "cuts"), [("Hm.", False), ("Hold on a second please.", True)])
@virtual_time
async def test_minimum_words_a_word_over_the_update_neither_cuts_nor_unsettles_it(door, text, cuts):
    strategies = UserTurnStrategies(
        start=[MinWordsUserTurnStartStrategy(min_words=3)],
        stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.4)],
    )
    call = with_turns(door, strategies)
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.tool_finishes("check_slots", at=6.0, result=RESULT)
    call.user_asks(text, at=6.7, until=7.2, answer="Sure.")
    timeline = await heard_out(call, 20)
    came_out_right(timeline)
    outcomes = [t.outcome for t in delivery_about(timeline, "check_slots").tellings]
    assert outcomes == (["interrupted", "completed"] if cuts else ["completed"])


@both_doors
@virtual_time
async def test_user_mute_a_caller_is_not_muted_for_the_length_of_an_operation(door):
    mute = FunctionCallUserMuteStrategy()
    call = with_turns(door, by_voice(), user={"user_mute_strategies": [mute]})
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.user_asks("And how do I get there?", at=5.0, until=6.0, answer="Take the bus.")
    call.tool_finishes("check_slots", at=12.0, result=RESULT)
    timeline = await heard_out(call, 20)
    assert said(timeline, "Take the bus.").ended_at < 12.0
    came_out_right(timeline)


@both_doors
@pytest.mark.parametrize("ready", [4.0, 5.0, 5.6, 7.0, 8.5, 10.3, 10.6, 12.0])
@virtual_time
async def test_the_empty_turn_prompt_and_the_update_do_not_answer_one_silence_twice(door, ready):
    empty = EmptyUserTurnConfig(interrupted_prompt="Ask them to repeat.", idle_prompt="Ask them to repeat.")
    call = with_turns(door, by_voice(), user={"empty_user_turn": empty})
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.user_says(at=5.0, until=5.5, text=None)
    call.model_says("Pardon?", when="ask them to repeat")
    call.tool_finishes("check_slots", at=ready, result=RESULT)
    timeline = await heard_out(call, 25)
    came_out_right(timeline)
    assert "Ask them to repeat." in str(timeline.context)
    if ready < 10.7:
        assert "Pardon?" not in timeline.heard_text and "Pardon?" not in str(timeline.context)
    else:
        assert said(timeline, "Pardon?").ended_at < ready < said(timeline, SLOT.sentence).started_at


class OtherModel(ScriptedModel):
    """The model that is switched to."""


@both_doors
@virtual_time
async def test_an_llm_switcher_changes_the_model_while_the_work_runs(door):
    other = OtherModel()

    def arrange(parts):
        place = next(i for i, part in enumerate(parts) if isinstance(part, ScriptedModel))
        switcher = LLMSwitcher([parts[place], other], ServiceSwitcherStrategyManual)
        return [*parts[:place], switcher, *parts[place + 1 :]]

    call = with_turns(door, by_voice(), call={"arrange": arrange})
    if door != "async_tool":
        for name, item in call.line.model._functions.items():
            other.register_function(name, item.handler, cancel_on_interruption=False)
    other.answers(Reply(text=call.mind.reply))
    call.user_asks("Is Thursday free?", at=0.5, until=1.5, answer="One moment.", calls=["check_slots"])
    call.at(4.0, lambda: call.line.worker.queue_frame(ManuallySwitchServiceFrame(service=other)))
    call.tool_finishes("check_slots", at=7.0, result=RESULT)
    timeline = await heard_out(call, 15)
    came_out_right(timeline)
    assert len(other.runs) == 1


class Summariser(ScriptedModel):
    """A model that can also sum up."""

    summaries = 0

    async def run_inference(self, context, **options):
        self.summaries += 1
        return "They spoke about Thursday."


@both_doors
@pytest.mark.parametrize("ready", [5.5, 8.0, 9.2, 10.0, 14.0])
@virtual_time
async def test_summarisation_in_the_middle_of_an_operation_loses_nothing(door, ready):
    model = Summariser()
    config = LLMAutoContextSummarizationConfig(
        max_context_tokens=None,
        max_unsummarized_messages=4,
        summary_config=LLMContextSummaryConfig(min_messages_after_summary=2),
    )
    assistant = LLMAssistantAggregatorParams(
        enable_auto_context_summarization=True, auto_context_summarization_config=config
    )
    call = with_turns(door, by_voice(), call={"model": model, "assistant_params": assistant})
    call.user_asks("Good morning.", at=0.3, until=0.8, answer="Hello.")
    call.user_asks("Is Thursday free?", at=2.5, until=3.5, answer="One moment.", calls=["check_slots"])
    call.user_asks("And how do I get there?", at=6.5, until=7.5, answer="Take the bus.")
    call.user_asks("And where is the car park?", at=12.0, until=13.0, answer="Behind the house.")
    call.tool_finishes("check_slots", at=ready, result=RESULT)
    timeline = await heard_out(call, 25)
    assert model.summaries >= 1
    came_out_right(timeline)
