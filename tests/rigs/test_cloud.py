# SPDX-License-Identifier: BSD-2-Clause
"""The real clients of Deepgram and Cartesia in a call: when all is well, and when they fail in the middle."""

import asyncio
import functools
from dataclasses import dataclass

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bots.demo import CUSTOMER_SECS, QUIET_SECS, SLOTS_SECS, UPDATE, _facts, converse
from bots.verdict import judge
from pipecat_async_tools.delivery.envelope import Envelope
from tests.rigs.cartesia_server import CartesiaServer, Drop, Refusal, Silence, Trouble
from tests.rigs.cloud import KEY, CloudCall, cloud_call, tone_secs
from tests.rigs.deepgram_server import DeepgramServer

pytestmark = [pytest.mark.realtime, pytest.mark.xdist_group("rigs")]

TROUBLES: dict[str, Trouble] = {
    "drops in the first sentence": Drop(after_secs=1.0),
    "drops in the second sentence": Drop(after_secs=3.6),
    "is silent": Silence(),
    "never answers": Silence(words=False, done=False),
    "refuses the key": Refusal(after_secs=1.0),
}
HOW_FAR, HOW_FAR_ANSWER = "How far are you?", "I am still waiting for an answer."
AFTER_SECS = 4.0
"""How long the bot must be quiet after the trouble before the caller asks; Pipecat waits 3 s for sound."""

TOLD_SECS = 10.0
"""How long after the answer the update may still be told."""


@dataclass(frozen=True)
class Played:
    """What came of a call in which the voice failed while it told the update.

    Parameters:
        delivery: The update.
        said: All the words that the voice sent to the end.
        sounds: For how long the line had sound in each telling that began.
        errors: What the services reported.
    """

    delivery: Envelope
    said: str
    sounds: list[float]
    errors: list[str]


@functools.cache
def played(name: str) -> Played:
    """Play a call with one of the troubles, once."""
    return asyncio.run(play(TROUBLES[name]))


async def play(trouble: Trouble) -> Played:
    async with cloud_call(slots_secs=SLOTS_SECS, customer_secs=CUSTOMER_SECS) as rig:
        rig.voice.script(UPDATE[0], trouble)
        await rig.ask_for_both()
        await rig.until(lambda: any(context.trouble for context in rig.voice.spoken))
        if isinstance(trouble, Refusal):
            await rig.until(lambda: rig.voice.refusals)
            await rig.revive_voice()
        await asyncio.sleep(AFTER_SECS)
        await rig.until(lambda: rig.line.bot_quiet_secs >= AFTER_SECS)
        await rig.say("how_far", HOW_FAR)
        if rig.delivery.is_open:
            await rig.until(lambda: not rig.delivery.is_open, TOLD_SECS)
        await rig.until(lambda: rig.line.bot_quiet_secs >= QUIET_SECS)
        sounds = [sound_of(rig, t.started_at, t.ended_at) for t in rig.delivery.tellings]
        return Played(rig.delivery, rig.voice.said, sounds, rig.errors)


def sound_of(rig: CloudCall, started_at: float | None, ended_at: float) -> float:
    if started_at is None:
        return 0.0
    return rig.sound_secs(rig.line.secs(started_at), rig.line.secs(ended_at))


def test_a_whole_call_comes_out_right():
    async def play_demo() -> None:
        async with cloud_call(slots_secs=SLOTS_SECS, customer_secs=CUSTOMER_SECS) as rig:
            await converse(rig.caller, rig.clinic)
            facts = await _facts(rig.call, rig.line, rig.timeline, rig.clinic)
            assert not [check for check in judge(facts) if not check.passed]
            assert not rig.errors
            assert len(rig.ears.transcripts()) == 3 and "Finalize" in rig.ears.received
            assert any(message["is_final"] is False for message in rig.ears.sent)
            assert rig.ears.connections == rig.voice.connections == 1

    asyncio.run(play_demo())


@pytest.mark.parametrize("name", TROUBLES)
def test_the_call_goes_on_when_the_voice(name):
    assert HOW_FAR_ANSWER in played(name).said


@pytest.mark.parametrize("name", TROUBLES)
def test_nothing_counts_as_heard_that_was_not_when_the_voice(name):
    call = played(name)
    for telling, sound in zip(call.delivery.tellings, call.sounds, strict=True):
        # A word that was cut off may count, and frames between two words are silent.
        assert sound >= 0.85 * tone_secs(telling.heard) - 0.5, telling


@pytest.mark.parametrize("name", TROUBLES)
def test_the_update_is_told_once_in_the_end_when_the_voice(name):
    call = played(name)
    assert call.delivery.state == "spoken"
    assert [call.said.count(sentence) for sentence in UPDATE] == [1, 1]


def test_the_call_goes_on_when_the_ears_drop_in_the_middle_of_a_word():
    async def lose_ears() -> None:
        async with cloud_call(slots_secs=SLOTS_SECS, customer_secs=CUSTOMER_SECS) as rig:
            await rig.ask_for_both()
            asyncio.get_running_loop().call_later(0.4, rig.ears.drop)
            await rig.caller.say("how_far", HOW_FAR)
            await rig.until(lambda: rig.ears.connections == 2)
            await rig.until(lambda: rig.delivery.state == "spoken", 30.0)
            await rig.say("how_far", HOW_FAR)
            assert HOW_FAR_ANSWER in rig.voice.said
            assert [rig.voice.said.count(sentence) for sentence in UPDATE] == [1, 1]
            assert rig.errors

    asyncio.run(lose_ears())


def test_a_wrong_key_is_refused():
    async def refused(url: str, headers: dict[str, str]) -> int:
        with pytest.raises(InvalidStatus) as refusal:
            await connect(url, additional_headers=headers)
        return refusal.value.response.status_code

    async def knock() -> None:
        async with DeepgramServer(KEY) as ears, CartesiaServer(KEY) as voice:
            token = {"Authorization": f"Token {KEY}"}
            key = {"X-API-Key": "other", "Cartesia-Version": "2026-03-01"}
            assert await refused(voice.url, key) == 401
            assert await refused(f"{ears.url}/v1/listen", {"Authorization": "Token other"}) == 401
            async with connect(f"{ears.url}/v1/listen", additional_headers=token):
                pass
            ears.key = None
            assert await refused(f"{ears.url}/v1/listen", token) == 401

    asyncio.run(knock())
