# SPDX-License-Identifier: BSD-2-Clause
"""One call: the pipeline around a transport, with the clinic's tools."""

from dataclasses import dataclass

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import LLMMessagesAppendFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext, LLMStandardMessage
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.transports.base_transport import BaseTransport
from pipecat.workers.runner import WorkerRunner

from bots.clinic import TOOLS
from bots.native_tools import native
from bots.services import Services
from pipecat_async_tools import AsyncTools, CarrierMarks

GREETING: LLMStandardMessage = {"role": "developer", "content": "Greet the caller."}


@dataclass(frozen=True)
class Call:
    """A call's pipeline and what is worth watching in it.

    Parameters:
        worker: Runs the pipeline.
        services: Ears, model and voice.
        context: The conversation.
        aggregators: The caller's and the bot's side of the conversation.
        async_tools: The plug-in; None in a plain call.
    """

    worker: PipelineWorker
    services: Services
    context: LLMContext
    aggregators: LLMContextAggregatorPair
    async_tools: AsyncTools | None = None

    async def greet(self) -> None:
        """Let the model say hello."""
        await self.worker.queue_frame(LLMMessagesAppendFrame([GREETING], run_llm=True))

    async def run(self) -> None:
        """Run the call until it ends."""
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self.worker)
        try:
            await runner.run()
        finally:
            if self.async_tools:
                await self.async_tools.stop()


def build_call(
    transport: BaseTransport,
    services: Services,
    *,
    session_id: str,
    store: str | None = None,
    plain: bool = False,
    marks: CarrierMarks | None = None,
    idle_timeout_secs: float | None = 300,
) -> Call:
    """Build the pipeline of a call.

    Args:
        transport: Where the caller is.
        services: Ears, model and voice.
        session_id: What the call's operations and deliveries are filed under.
        store: The URL of the store they are kept in; None leaves it to the plug-in.
        plain: Whether Pipecat runs the tools by itself, without the plug-in.
        marks: Of a phone line, what its carrier has played.
        idle_timeout_secs: Seconds without speech until the call is ended.

    Returns:
        The call, ready to run.
    """
    async_tools = None if plain else AsyncTools(session_id=session_id, tools=TOOLS, store=store, marks=marks)
    context = LLMContext(tools=[*async_tools.functions] if async_tools else [native(tool) for tool in TOOLS])
    aggregators = LLMContextAggregatorPair(
        context, user_params=LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer())
    )
    pipeline = Pipeline(
        [
            transport.input(),
            services.stt,
            aggregators.user(),
            services.llm,
            *(async_tools.processors() if async_tools else []),
            services.tts,
            transport.output(),
            *([async_tools.playback()] if async_tools else []),
            aggregators.assistant(),
        ]
    )
    worker = PipelineWorker(pipeline, idle_timeout_secs=idle_timeout_secs)
    return Call(worker, services, context, aggregators, async_tools)
