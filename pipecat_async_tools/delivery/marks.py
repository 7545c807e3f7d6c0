# SPDX-License-Identifier: BSD-2-Clause
"""What a phone carrier has really played, from the marks it returns.

A carrier buffers what it is sent, and drops it on a ``clear``: that audio left the output is no proof that
anybody heard it. A mark sent behind audio comes back when the audio before it was played, or when a ``clear``
threw it away. Sources: Twilio Media Streams, "WebSocket messages" (mark, clear); Telnyx, "Stream call media
over WebSocket" (mark, clear); Exotel AgentStream, "WebSocket protocol" (mark, clear).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from loguru import logger
from pipecat.frames.frames import EndFrame, Frame, InterruptionFrame
from pipecat.processors.frame_processor import FrameProcessorSetup
from pipecat.serializers.base_serializer import FrameSerializer

from pipecat_async_tools.errors import ConfigurationError

# An output runs ahead of real time by so much at most, and clocks differ a little.
_EARLY_SECS = 0.3
# What comes back later than this says nothing about what the caller hears now.
_LATE_SECS = 10.0
# A carrier's buffer is not waited for any longer.
_PATIENCE_SECS = 3.0
# A mark behind the last words is on its way to the wire when the end of the call reaches it.
_IN_TRANSIT_SECS = 0.1
_POLL_SECS = 0.02

_STREAM_ID_KEYS = {
    "TwilioFrameSerializer": "streamSid",
    "ExotelFrameSerializer": "stream_sid",
    "TelnyxFrameSerializer": None,
}
"""Under which key a mark names its stream, for each serializer whose carrier returns marks."""


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class _Mark:
    audible_until: float
    played: Callable[[], None]


class CarrierMarks:
    """The marks of one phone call: those on their way, and what their return proves."""

    def __init__(self, *, stream: Mapping[str, str] | None = None, now: Callable[[], float] = _now):
        """Initialize with no mark on its way.

        Args:
            stream: What names the media stream in every message, as the carrier wants it.
            now: Returns the time in seconds, on the clock of ``audible_until``.
        """
        self._stream = stream or {}
        self._now = now
        self._generation = 0
        self._number = 0
        self._sent: dict[str, _Mark] = {}
        self.is_working = False
        """Whether the carrier has returned a mark: one that never does is not waited for."""
        self.on_return: Callable[[], None] = lambda: None

    def place(self, audible_until: float, played: Callable[[], None]) -> str:
        """Return the name of a mark to be sent behind what has been sent.

        Args:
            audible_until: Seconds, when the audio before it has faded if nothing holds it up.
            played: Called when it is known that this audio was played.
        """
        self._number += 1
        name = f"pat-{self._generation}-{self._number}"
        self._sent[name] = _Mark(audible_until, played)
        return name

    def message(self, name: str) -> dict[str, Any]:
        """Return the message that asks the carrier for a mark."""
        return {"event": "mark", "mark": {"name": name}, **self._stream}

    def cleared(self) -> None:
        """A ``clear`` was sent: the carrier returns every mark of what it throws away."""
        self._generation += 1
        self._sent.clear()

    def returned(self, name: str) -> None:
        """A mark came back; one that is unknown, void, repeated or cannot be true proves nothing."""
        mark = self._sent.pop(name, None)
        if mark is None:
            return
        late_secs = self._now() - mark.audible_until
        if not -_EARLY_SECS <= late_secs <= _LATE_SECS:
            logger.debug(f"mark {name} came {late_secs:.2f} s after its audio can have been played; ignored")
            return
        self.is_working = True
        mark.played()
        self.on_return()

    @property
    def are_awaited(self) -> bool:
        """Whether audio is in the carrier's buffer, as far as a carrier that returns marks tells."""
        waiting = [mark.audible_until for mark in self._sent.values()]
        return self.is_working and bool(waiting) and self._now() < max(waiting) + _PATIENCE_SECS

    async def played_out(self) -> None:
        """Wait until everything was played, or for as long as a carrier's buffer can take."""
        await asyncio.sleep(_IN_TRANSIT_SECS)
        while self.are_awaited:
            await asyncio.sleep(_POLL_SECS)


class MarkingSerializer(FrameSerializer):
    """A telephony serializer whose carrier is asked what it has played.

    It wraps Pipecat's own serializer for Twilio, Telnyx or Exotel::

        serializer = MarkingSerializer(TwilioFrameSerializer(stream_sid=..., ...))
        params = FastAPIWebsocketParams(serializer=serializer, ...)
        async_tools = AsyncTools(..., marks=serializer.marks)

    The hang-up at the end of a call waits until the last words were played, 3 s at most.
    """

    def __init__(self, serializer: FrameSerializer, *, stream_id: str = ""):
        """Wrap a serializer.

        Args:
            serializer: A ``TwilioFrameSerializer``, ``TelnyxFrameSerializer`` or ``ExotelFrameSerializer``.
            stream_id: The id of the media stream, which Twilio and Exotel want in every message.

        Raises:
            ConfigurationError: The carrier returns no marks, or ``stream_id`` is missing.
        """
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        kinds = [kind.__name__ for kind in type(serializer).__mro__ if kind.__name__ in _STREAM_ID_KEYS]
        if not kinds:
            raise ConfigurationError(
                f"MarkingSerializer(serializer={type(serializer).__name__}): it needs a carrier that returns "
                f"marks; pass one of {', '.join(_STREAM_ID_KEYS)}, or use the serializer as it is"
            )
        stream_key = _STREAM_ID_KEYS[kinds[0]]
        if stream_key and not stream_id:
            raise ConfigurationError(
                "MarkingSerializer(stream_id=''): pass the id of the media stream, the one the serializer got"
            )
        self._serializer = serializer
        self.marks = CarrierMarks(stream={stream_key: stream_id} if stream_key else None)

    async def setup(self, setup: FrameProcessorSetup) -> None:
        """Set up the serializer inside."""
        await self._serializer.setup(setup)

    async def serialize(self, frame: Frame) -> str | bytes | None:
        """Serialize a frame; note a clear, and let the last words be played before the hang-up."""
        if isinstance(frame, InterruptionFrame):
            self.marks.cleared()
        elif isinstance(frame, EndFrame):
            await self.marks.played_out()
        return await self._serializer.serialize(frame)

    async def deserialize(self, data: str | bytes) -> Frame | None:
        """Deserialize what the carrier sent; take out the marks that are ours."""
        name = _mark_in(data)
        if name is not None:
            self.marks.returned(name)
        return await self._serializer.deserialize(data)


def _mark_in(data: str | bytes) -> str | None:
    # By far the most messages are audio: they are not parsed twice.
    text = data.decode(errors="ignore") if isinstance(data, bytes) else data
    if '"mark"' not in text:
        return None
    try:
        message = json.loads(text)
    except json.JSONDecodeError:
        return None
    return cast("dict[str, Any]", message.get("mark") or {}).get("name")
