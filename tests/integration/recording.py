# SPDX-License-Identifier: BSD-2-Clause
"""What every processor but ours saw and pushed, in a form in which two calls can be compared."""

import re
from collections import defaultdict
from dataclasses import dataclass

from pipecat.observers.base_observer import BaseObserver
from pipecat.processors.frame_processor import FrameDirection

from pipecat_async_tools.processor import PassingProcessor

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
COUNTER = re.compile(r"#\d+")
VARYING = {"id", "name", "timestamp", "user_id", "segment_id"}


@dataclass(frozen=True)
class Seen:
    """One frame at one processor.

    Parameters:
        processor: The processor's name.
        what: "handles" or "pushes".
        direction: "down" or "up".
        frame: The frame: its type and its content.
        at: When, in nanoseconds of the pipeline's clock.
    """

    processor: str
    what: str
    direction: str
    frame: str
    at: int


class FrameRecorder(BaseObserver):
    """Writes down what reaches and leaves the processors that are none of ours."""

    def __init__(self):
        super().__init__()
        self.seen = []

    async def on_process_frame(self, data):
        self._note(data.processor, "handles", data)

    async def on_push_frame(self, data):
        self._note(data.source, "pushes", data)

    def by_processor(self):
        """The frames of each processor, in its order."""
        return _grouped(self.seen)

    def without(self, frame_type):
        """As `by_processor`, without the frames of a type."""
        return _grouped(seen for seen in self.seen if not _is(seen, frame_type))

    def only(self, frame_type):
        """As `by_processor`, only the frames of a type."""
        return _grouped(seen for seen in self.seen if _is(seen, frame_type))

    def times(self, frame_type, *, processor):
        """When a processor handled frames of a type going down, in seconds."""
        return [
            seen.at / 1e9
            for seen in self.seen
            if _is(seen, frame_type)
            and (seen.processor, seen.what, seen.direction) == (processor, "handles", "down")
        ]

    def _note(self, processor, what, data):
        if isinstance(processor, PassingProcessor):
            return
        direction = "down" if data.direction is FrameDirection.DOWNSTREAM else "up"
        name = COUNTER.sub("", processor.name)
        self.seen.append(Seen(name, what, direction, describe(data.frame), data.timestamp))


def describe(frame):
    """A frame's type and content, without what differs between two runs of one program."""
    fields = {name: value for name, value in sorted(vars(frame).items()) if name not in VARYING}
    fields["broadcast_sibling_id"] = frame.broadcast_sibling_id is not None
    content = ", ".join(f"{name}={_content(value)}" for name, value in fields.items())
    return f"{type(frame).__name__}({content})"


def _grouped(seen):
    lists = defaultdict(list)
    for one in seen:
        lists[one.processor].append(one)
    return dict(lists)


def _is(seen, frame_type):
    return seen.frame.startswith(f"{frame_type.__name__}(")


def _content(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {hash(value)}"
    if isinstance(value, (list, tuple)):
        return [_content(item) for item in value]
    if isinstance(value, dict):
        return {name: _content(item) for name, item in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return COUNTER.sub("#", UUID.sub("<uuid>", value))
    # Of a context, a processor or a callback only the kind can be compared.
    inner = getattr(value, "tool_call_id", "")
    return f"{type(value).__name__} {inner}".strip()
