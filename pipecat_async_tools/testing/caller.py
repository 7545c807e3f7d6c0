# SPDX-License-Identifier: BSD-2-Clause
"""The caller: an input transport that says what the script tells it to."""

from __future__ import annotations

from pipecat.frames.frames import (
    StartFrame,
    TranscriptionFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.utils.time import time_now_iso8601


class Caller(BaseInputTransport):
    """An input transport with the voice detection and the transcription already done.

    Args:
        start_secs: Seconds of speech before the voice detection reports it.
        stop_secs: Seconds of silence before the voice detection reports it.
        stt_secs: Seconds from the end of the speech to its final transcription.
    """

    def __init__(self, *, start_secs: float = 0.2, stop_secs: float = 0.2, stt_secs: float = 0.3):
        super().__init__(TransportParams(), name="Caller")  # pyright: ignore[reportUnknownMemberType]
        self.start_secs = start_secs
        self.stop_secs = stop_secs
        self.stt_secs = stt_secs

    async def start(self, frame: StartFrame) -> None:
        """Get ready to push frames."""
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def report_voice_started(self) -> None:
        """The voice detection has noticed that the caller speaks."""
        await self.broadcast_frame_instance(VADUserStartedSpeakingFrame(start_secs=self.start_secs))

    async def report_voice_stopped(self) -> None:
        """The voice detection has noticed that the caller is silent."""
        await self.broadcast_frame_instance(VADUserStoppedSpeakingFrame(stop_secs=self.stop_secs))

    async def report_words(self, text: str) -> None:
        """The transcription of what the caller said has arrived."""
        frame = TranscriptionFrame(text, "caller", time_now_iso8601(), finalized=True)
        await self.push_frame(frame)
