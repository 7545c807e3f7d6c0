# SPDX-License-Identifier: BSD-2-Clause
"""A phone line on which only what the carrier has played counts as heard."""

from pipecat.transports.base_transport import TransportParams
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams

from pipecat_async_tools import CarrierMarks, MarkingSerializer


def ask_carrier(params: TransportParams, stream_id: str) -> CarrierMarks:
    """Have the carrier asked what it has played.

    Args:
        params: Of the line's transport; their serializer is wrapped, before the pipeline starts.
        stream_id: The id of the media stream.

    Returns:
        The marks, for ``AsyncTools``.
    """
    assert isinstance(params, FastAPIWebsocketParams) and params.serializer is not None
    serializer = MarkingSerializer(params.serializer, stream_id=stream_id)
    params.serializer = serializer
    return serializer.marks
