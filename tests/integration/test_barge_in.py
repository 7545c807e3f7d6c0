# SPDX-License-Identifier: BSD-2-Clause
"""Barge-in: from the interruption to silence at the far end, side by side with the same bot without us."""

import pytest

from pipecat_async_tools import AsyncTools
from pipecat_async_tools.testing import Call, SimulatedCall, native_tool, virtual_time

LONG = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen."
CHUNK_SECS = 0.04
"""What Pipecat's output writes at a time."""


def pending_work(call):
    """Two batches: one is still running at the barge-in, of the other the result waits to be told."""
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")], times=1)
    call.user_says(at=4.0, until=4.6, text="And weigh it, and count.")
    call.model_says(LONG, when="weigh", calls=[Call("weigh")], times=1)
    call.tool_finishes("look_up", at=6.5, result={"found": 7})
    call.tool_hangs("weigh")


def nothing_pending(call):
    call.user_says(at=4.0, until=4.6, text="Count.")
    call.model_says(LONG, when="count", times=1)


@virtual_time
async def silent_after(script, with_package, barge_in, *, output="paced", until=11.0):
    """Seconds from the interruption to the last sound of what it cut off, and the timeline."""
    call = SimulatedCall(
        AsyncTools(session_id="s") if with_package else None,
        tools={name: native_tool(name) for name in ("look_up", "weigh")},
        output=output,
    )
    script(call)
    call.user_speaks(at=barge_in, until=barge_in + 1.5)
    call.model_says("Okay.")
    timeline = await call.run(until=until)
    interrupted = timeline.interruptions[-1]
    assert interrupted == pytest.approx(barge_in + call.line.caller.start_secs)
    (cut,) = [u for u in timeline.heard if u.started_at < interrupted <= u.ended_at + CHUNK_SECS]
    assert cut.text and not cut.text.endswith("fifteen.")
    return cut.ended_at - interrupted, timeline


@pytest.mark.parametrize("barge_in", [6.8, 6.81, 6.83, 7.512])
@pytest.mark.parametrize("output", ["paced", "unpaced"])
@pytest.mark.parametrize("script", [nothing_pending, pending_work])
def test_silence_comes_as_soon_as_without_the_package(script, output, barge_in):
    bare, _ = silent_after(script, False, barge_in, output=output)
    ours, timeline = silent_after(script, True, barge_in, output=output)
    assert ours <= bare + CHUNK_SECS
    assert ours == pytest.approx(bare), "it is not even a chunk later"
    if script is pending_work:
        assert [o.tool for o in timeline.operations] == ["look_up", "weigh"]
        assert [d.ready_at for d in timeline.deliveries] == [pytest.approx(6.5)]


def telling(call):
    """The same words, as our telling of a slow result."""
    call.user_says(at=0.2, until=0.8, text="Look it up.")
    call.model_says("One moment.", when="look it up", calls=[Call("look_up")], times=1)
    call.tool_finishes("look_up", at=4.0, result={"found": 7})
    call.model_says(LONG, when="found")


@pytest.mark.parametrize("barge_in", [4.7, 5.0, 5.013, 6.0])
@pytest.mark.parametrize("output", ["paced", "unpaced"])
def test_one_of_our_tellings_falls_silent_as_soon(output, barge_in):
    """Pipecat alone says the late result in the same words at the same time."""
    bare, bare_timeline = silent_after(telling, False, barge_in, output=output, until=6.6)
    ours, timeline = silent_after(telling, True, barge_in, output=output, until=6.6)
    assert timeline.heard[-1].started_at == pytest.approx(bare_timeline.heard[-1].started_at, abs=0.1)
    assert ours <= bare + CHUNK_SECS
    assert [t.outcome for t in timeline.tellings] == ["interrupted"]
    assert timeline.tellings[0].heard == timeline.heard[-1].text
