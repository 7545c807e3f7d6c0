# SPDX-License-Identifier: BSD-2-Clause
"""The services of a real call: Deepgram, OpenAI and Cartesia, with keys from the environment."""

import os

from pipecat.services.cartesia.tts import CartesiaTTSService
from pipecat.services.deepgram.stt import DeepgramSTTService
from pipecat.services.openai.llm import OpenAILLMService

from bots.services import Services

DEFAULT_VOICE = "71a7ad14-091c-4e8e-a314-022ece01c121"


def cloud_services(instructions: str) -> Services:
    """The services of a real call.

    Args:
        instructions: The system prompt.

    Returns:
        Ears, model and voice.
    """
    return Services(
        stt=DeepgramSTTService(api_key=os.environ["DEEPGRAM_API_KEY"]),
        llm=OpenAILLMService(
            api_key=os.environ["OPENAI_API_KEY"],
            settings=OpenAILLMService.Settings(
                model=os.getenv("OPENAI_MODEL", "gpt-4.1"), system_instruction=instructions
            ),
        ),
        tts=CartesiaTTSService(
            api_key=os.environ["CARTESIA_API_KEY"],
            settings=CartesiaTTSService.Settings(voice=os.getenv("CARTESIA_VOICE_ID", DEFAULT_VOICE)),
        ),
    )
