# SPDX-License-Identifier: BSD-2-Clause
"""The three services of a call, and the ones that need no key and no network."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.stt_service import STTService
from pipecat.services.tts_service import TTSService

from bots.offline_ears import PocketsphinxSTTService
from bots.offline_voice import offline_voice
from bots.scripted_llm import ScriptedLLM


@dataclass(frozen=True)
class Services:
    """What a call runs on.

    Parameters:
        stt: Speech to text.
        llm: The model.
        tts: Text to speech.
    """

    stt: STTService
    llm: OpenAILLMService
    tts: TTSService


@asynccontextmanager
async def offline_services(instructions: str, voice: str | None = None) -> AsyncIterator[Services]:
    """Services on this machine, for as long as the context lasts.

    Args:
        instructions: The system prompt.
        voice: ``flite`` or ``tone``; None takes flite where it is installed.

    Yields:
        Ears, model and voice.
    """
    async with ScriptedLLM() as model:
        llm = OpenAILLMService(
            api_key="offline",
            base_url=model.url,
            settings=OpenAILLMService.Settings(model="scripted", system_instruction=instructions),
        )
        yield Services(stt=PocketsphinxSTTService(), llm=llm, tts=offline_voice(voice))
