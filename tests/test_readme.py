# SPDX-License-Identifier: BSD-2-Clause
"""The README's code runs."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import LLMService

from pipecat_async_tools.operations.tool import spec_of
from pipecat_async_tools.testing import Caller, ScriptedModel, ScriptedVoice, virtual_time
from pipecat_async_tools.testing.output import PacedOutput
from pipecat_async_tools.wiring import Wiring
from tests.builders import operation
from tests.stores import memory_store

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run_block(number: int, **names: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme", **names}
    exec(compile(BLOCKS[number], f"README.md, block {number}", "exec"), namespace)
    return namespace


def test_every_python_block_is_run_here():
    assert len(BLOCKS) == 5


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


@virtual_time
async def test_a_worker_runs_what_a_bot_left_behind():
    booked = []

    async def answer(date, doctor, note, headers):
        booked.append((date, doctor, headers["Idempotency-Key"]))
        return {"slot": "10:15"}

    book = run_block(2, clinic=SimpleNamespace(book=answer))["book"]
    spec = spec_of(book)
    assert spec.intent_key({"date": "d", "doctor": "w", "note": "a"}) == spec.intent_key(
        {"date": "d", "doctor": "w", "note": "b"}
    )
    store = memory_store()
    left = operation(tool="book", arguments={"date": "2026-12-03", "doctor": "Wu"}, idempotent=True)
    await store.accept([left], owner="a bot that is gone")

    names = run_block(3, book=book, send_message=None)
    names["store_from_url"] = lambda url: store
    working = asyncio.create_task(names["work"]())
    await asyncio.sleep(25)
    working.cancel()
    await asyncio.wait([working])
    assert booked == [("2026-12-03", "Wu", left.idempotency_key)]
    assert (await store.operation(left.operation_id)).result == {"slot": "10:15"}


@virtual_time
async def test_a_phone_line_is_asked_what_it_played():
    names = run_block(1)
    assert names["async_tools"]._clocks.playback.marks is names["serializer"].marks


def test_the_conversation_comes_out_as_it_says():
    run_block(4)["test_the_update_waits_for_the_caller"]()


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
