# SPDX-License-Identifier: BSD-2-Clause
"""Test a bot by writing down the conversation: a whole Pipecat call in virtual time.

The pipeline is real (aggregators, service and transport base classes, worker); what is simulated is the world
around it: the caller, the model's answers, the voice's audio, the line and the clock::

    @virtual_time
    async def test_answer_waits_for_the_cough_to_end():
        call = SimulatedCall(async_tools)
        call.user_says(at=0.5, until=1.5, text="Is Thursday free?")
        call.model_says(when="thursday", calls=[Call("check_availability", {"day": "Thursday"})])
        call.tool_finishes("check_availability", at=4.0, result={"slot": "10:00"})
        call.user_speaks(at=3.8, until=5.2)
        timeline = await call.run(until=20)
        assert timeline.tellings == [Telling(pytest.approx(5.9, abs=0.2), "There is a slot at ten.")]

What was heard is read from the audio that was played, not from frames: `Timeline.heard` is what the person at
the far end of the line would say they heard.

- The call: `SimulatedCall`, `Call`, `Reply`, `scripted_tool`, `native_tool`, `NativeTool`.
- Its parts, to choose their options: `Caller`, `ScriptedModel`, `ScriptedVoice` (`VoiceKind`), `OutputKind`.
- What happened: `Timeline`, `Utterance`, `UserSpeech`, `ModelRun`, `ToolRun`, `Telling`, `CallError`,
  `SeenFrame`, `history_problems`.
- The clock: `virtual_time`, `run_virtual`, `VirtualTimeLoop`, `VirtualClock`, `VirtualTimeError`.
"""

from pipecat_async_tools.testing.caller import Caller
from pipecat_async_tools.testing.history import history_problems
from pipecat_async_tools.testing.model import Call, ModelRun, Reply, ScriptedModel
from pipecat_async_tools.testing.output import OutputKind, Utterance
from pipecat_async_tools.testing.simulated_call import SimulatedCall
from pipecat_async_tools.testing.timeline import (
    CallError,
    SeenFrame,
    Telling,
    Timeline,
    ToolRun,
    UserSpeech,
)
from pipecat_async_tools.testing.tools import NativeTool, native_tool, scripted_tool
from pipecat_async_tools.testing.virtual_time import (
    VirtualClock,
    VirtualTimeError,
    VirtualTimeLoop,
    run_virtual,
    virtual_time,
)
from pipecat_async_tools.testing.voice import ScriptedVoice, VoiceKind

__all__ = [
    "Call",
    "CallError",
    "Caller",
    "ModelRun",
    "NativeTool",
    "OutputKind",
    "Reply",
    "ScriptedModel",
    "ScriptedVoice",
    "SeenFrame",
    "SimulatedCall",
    "Telling",
    "Timeline",
    "ToolRun",
    "UserSpeech",
    "Utterance",
    "VirtualClock",
    "VirtualTimeError",
    "VirtualTimeLoop",
    "VoiceKind",
    "history_problems",
    "native_tool",
    "run_virtual",
    "scripted_tool",
    "virtual_time",
]
