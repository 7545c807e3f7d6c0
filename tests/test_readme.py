# SPDX-License-Identifier: BSD-2-Clause
"""The README's code runs."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_async_tools.testing import Caller, ScriptedModel, ScriptedVoice, virtual_time
from pipecat_async_tools.testing.output import PacedOutput
from pipecat_async_tools.wiring import Wiring

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run_block(number: int) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(BLOCKS[number], f"README.md, block {number}", "exec"), namespace)
    return namespace


def test_every_python_block_is_run_here():
    assert len(BLOCKS) == 2


@virtual_time
async def test_the_twenty_lines_build_a_pipeline_that_is_wired_right():
    voice = ScriptedVoice("words")
    transport = SimpleNamespace(input=Caller, output=lambda: PacedOutput(voice.tape, "paced"))
    build_pipeline = run_block(0)["build_pipeline"]
    pipeline = build_pipeline(transport, FrameProcessor(), ScriptedModel(), voice, "room")

    names = [type(p).__name__ for p in pipeline.processors]
    at = names.index("OperationRegistry")
    assert isinstance(pipeline.processors[at - 1], LLMService)
    assert names[at : at + 6] == [
        "OperationRegistry",
        "BatchAggregator",
        "ActivityGate",
        "ScriptedVoice",
        "PacedOutput",
        "PlaybackTracker",
    ]
    wiring = Wiring()
    wiring.expect(pipeline.processors[at : at + 3], pipeline.processors[at + 5])
    assert wiring.problem_of(pipeline) is None


def test_the_conversation_comes_out_as_it_says():
    run_block(1)["test_the_update_waits_for_the_caller"]()


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
