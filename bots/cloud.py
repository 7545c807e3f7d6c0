# SPDX-License-Identifier: BSD-2-Clause
"""The services of a real call: Deepgram, OpenAI and Cartesia, with keys from the environment.

``DEEPGRAM_URL`` (Deepgram's ``base_url``) and ``CARTESIA_URL`` (Cartesia's ``url``) send the clients
somewhere else than to the service: to a proxy, a private deployment, a test's server. OpenAI's client reads
``OPENAI_BASE_URL`` by itself.
"""

import os
from functools import partial

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
    cartesia_url = os.getenv("CARTESIA_URL")
    cartesia = partial(CartesiaTTSService, url=cartesia_url) if cartesia_url else CartesiaTTSService
    return Services(
        stt=DeepgramSTTService(
            api_key=os.environ["DEEPGRAM_API_KEY"], base_url=os.getenv("DEEPGRAM_URL", "")
        ),
        llm=OpenAILLMService(
            api_key=os.environ["OPENAI_API_KEY"],
            settings=OpenAILLMService.Settings(
                model=os.getenv("OPENAI_MODEL", "gpt-4.1"), system_instruction=instructions
            ),
        ),
        tts=cartesia(
            api_key=os.environ["CARTESIA_API_KEY"],
            settings=CartesiaTTSService.Settings(voice=os.getenv("CARTESIA_VOICE_ID", DEFAULT_VOICE)),
        ),
    )
