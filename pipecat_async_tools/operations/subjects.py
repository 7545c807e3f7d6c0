# SPDX-License-Identifier: BSD-2-Clause
"""Which requests were replaced by a newer one of the same subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.telling_options import TellingOptions


class Subjects:
    """Compares the requests of a session by what their tools say they are about."""

    def __init__(self, *, tools: Mapping[str, TellingOptions], operations: Callable[[], Sequence[Operation]]):
        """Initialize with the requests of a session.

        Args:
            tools: How the outcomes of tools are told, by name.
            operations: Returns the operations of the session, oldest first.
        """
        self._tools = tools
        self._operations = operations

    def is_superseded(self, operation: Operation) -> bool:
        """Return whether a newer request of the same subject was made and not taken back."""
        subject = self._subject_of(operation)
        if subject is None:
            return False
        requests = list(self._operations())
        ids = [other.operation_id for other in requests]
        place = ids.index(operation.operation_id) if operation.operation_id in ids else -1
        # The order they were noted in decides between two of the same instant.
        return any(
            (other.accepted_at, at) > (operation.accepted_at, place)
            for at, other in enumerate(requests)
            if other.operation_id != operation.operation_id
            and other.status is not OperationStatus.CANCELLED
            and self._subject_of(other) == subject
        )

    def _subject_of(self, operation: Operation) -> str | None:
        spec = self._tools.get(operation.tool)
        return spec.subject_of(operation) if spec else None
