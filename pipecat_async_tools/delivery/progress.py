# SPDX-License-Identifier: BSD-2-Clause
"""When a running operation's progress is spoken: the latest only, seldom, and never after the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipecat_async_tools.delivery.clocks import ChannelState
from pipecat_async_tools.delivery.policy import DeliveryPolicy
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.operations.operation import Operation


class ProgressSpeech:
    """Decides whether there is progress to speak of now."""

    def __init__(
        self, *, policy: DeliveryPolicy, wording: Wording, running: Callable[[], Sequence[Operation]]
    ):
        """Initialize with nothing said.

        Args:
            policy: Says how long the bot must have been silent.
            wording: Words it; an empty line is not spoken.
            running: Returns the operations that have not ended.
        """
        self._gap_secs = policy.progress_gap_secs
        self._wording = wording
        self._running = running
        self._seen: dict[str, str] = {}
        self._latest: Operation | None = None

    def due(self, channel: ChannelState, now: float, *, bot_spoke_at: float) -> str:
        """Return the line to be spoken now; empty if there is none.

        Args:
            channel: What the clocks say.
            now: Seconds.
            bot_spoke_at: Seconds, when the bot was heard last.
        """
        if self._gap_secs is None:
            return ""
        self._look(self._running())
        if self._latest is None or not channel.is_free or now - bot_spoke_at < self._gap_secs:
            return ""
        line, self._latest = self._wording.progress(self._latest), None
        return line

    def _look(self, running: Sequence[Operation]) -> None:
        alive = {operation.operation_id: operation for operation in running}
        if self._latest is not None and self._latest.operation_id not in alive:
            # Its outcome is on the way: what it was at before is no news.
            self._latest = None
        for operation_id, operation in alive.items():
            if operation.progress and self._seen.get(operation_id) != operation.progress:
                self._seen[operation_id] = operation.progress
                self._latest = operation
