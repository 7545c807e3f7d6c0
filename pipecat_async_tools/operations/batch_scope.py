# SPDX-License-Identifier: BSD-2-Clause
"""Batches that reach over several responses: which one a new call joins, and when it may close."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.calls import CallGroup
from pipecat_async_tools.operations.operation import new_id

Scope = Literal["group", "session"]

_LATCH = "latch-"


def is_latch(call_id: str) -> bool:
    """Return whether a call that a batch waits for is no call, but keeps it open for later ones."""
    return call_id.startswith(_LATCH)


@dataclass(eq=False)
class SharedBatch:
    """A batch that several responses can contribute to.

    Parameters:
        batch_id: The batch.
        named: Whether the application opened it, and closes it.
        urgent: Whether its update is urgent, whatever its members are.
        groups: The responses that contributed.
        closing: Whether the application wants it to close.
    """

    batch_id: str
    named: bool = False
    urgent: bool = False
    groups: list[CallGroup] = field(default_factory=list[CallGroup])
    closing: bool = False

    @property
    def latch(self) -> str:
        """A call that never comes: it keeps the batch open, in the store too, until it is taken off."""
        return f"{_LATCH}{self.batch_id}"

    @property
    def is_over(self) -> bool:
        """Whether it may close: every call of it is a member and settled, and nobody holds it open."""
        if self.named and not self.closing:
            return False
        return all(group.verdict is not None and group.is_settled for group in self.groups)


class BatchScope:
    """Keeps the batch that is open, if batches reach over several responses."""

    def __init__(self, scope: Scope):
        """Initialize with no batch open.

        Args:
            scope: "group" makes a batch of each response, unless the application opens one; "session"
                lets calls of later responses join the batch that is still open.
        """
        self._scope = scope
        self._open: SharedBatch | None = None
        self._shared: dict[CallGroup, SharedBatch] = {}

    def open(self, name: str, *, urgent: bool) -> str:
        """Open a batch for the application and return its id.

        Raises:
            ConfigurationError: Another one is open.
        """
        if self._open is not None and self._open.named:
            raise ConfigurationError(
                f"open_batch({name!r}): {self._open.batch_id} is open; call close_batch() first"
            )
        self._open = SharedBatch(new_id(name), named=True, urgent=urgent)
        return self._open.batch_id

    def close(self) -> SharedBatch:
        """Let no further calls join the batch that the application opened, and return it.

        Raises:
            ConfigurationError: None is open.
        """
        if self._open is None or not self._open.named:
            raise ConfigurationError("close_batch(): no batch is open; call open_batch() first")
        shared, self._open = self._open, None
        shared.closing = True
        return shared

    def take(self, group: CallGroup) -> bool:
        """Put a new response into the batch that is open, or into one of its own.

        Returns:
            Whether it joins one that was announced: then it is announced too, however quick it is.
        """
        shared = self._still_open()
        joins = shared is not None
        if shared is None and self._scope == "session":
            shared = self._open = SharedBatch(group.batch_id)
        if shared is not None:
            shared.groups.append(group)
            self._shared[group] = shared
            group.share(shared.batch_id)
        return joins

    def of(self, group: CallGroup) -> SharedBatch | None:
        """Return the batch that a response shares with others."""
        return self._shared.get(group)

    def expected_of(self, group: CallGroup) -> tuple[str, ...]:
        """Return the calls that the batch of a response waits for."""
        shared = self._shared.get(group)
        return (*group.candidate_ids, shared.latch) if shared else group.candidate_ids

    def end(self, shared: SharedBatch) -> None:
        """Let nothing join a batch any more."""
        if self._open is shared:
            self._open = None
        for group in shared.groups:
            self._shared.pop(group, None)

    def _still_open(self) -> SharedBatch | None:
        shared = self._open
        if shared is None or shared.named:
            return shared
        for earlier in shared.groups:
            # The conversation went on: what was still within its grace is announced now.
            earlier.hurry()
        # A first response that was answered natively has ended its batch.
        return self._open
