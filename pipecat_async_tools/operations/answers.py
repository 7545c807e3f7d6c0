# SPDX-License-Identifier: BSD-2-Clause
"""The one formal answer of a call, in each of its cases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from pipecat_async_tools.operations.functions import Answer
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.rows import Accepted


class AnswerWording(Protocol):
    """Words what the model reads in answer to a call."""

    def acceptance(self, operations: Sequence[Operation]) -> Mapping[str, Any]:
        """Word the answer of a call whose work has begun."""
        ...

    def duplicate(self, operation: Operation, *, rejected: bool) -> Mapping[str, Any]:
        """Word the answer to a request that was made before."""
        ...


class Answers:
    """Puts the answers together."""

    def __init__(self, wording: AnswerWording):
        """Initialize the answers.

        Args:
            wording: Words them.
        """
        self._wording = wording

    def acceptance(
        self, operations: Collection[Operation], duplicates: Sequence[Accepted], run_llm: bool | None
    ) -> Answer:
        """Return the answer of a call whose work has begun."""
        result = dict(self._wording.acceptance(list(operations)))
        if duplicates:
            result["items_requested_before"] = [self._known(d) for d in duplicates]
        return Answer(result=result, run_llm=run_llm)

    def duplicate(self, duplicates: Sequence[Accepted]) -> Answer:
        """Return the answer of a call that asked for nothing new; the model speaks about it."""
        if len(duplicates) == 1:
            return Answer(result=self._known(duplicates[0]))
        return Answer(result={"items_requested_before": [self._known(d) for d in duplicates]})

    def native(self, operations: Collection[Operation], duplicates: Sequence[Accepted]) -> Answer:
        """Return the answer of a call that was quick: its results."""
        first = next(iter(operations))
        if first.item is None:
            return _native(first)
        items = [{"item": o.item, **_outcome(o)} for o in operations]
        return Answer(result={"items": [*items, *(self._known(d) for d in duplicates)]})

    def refusal(self, reason: str) -> Answer:
        """Return the answer of a call that was not accepted."""
        return Answer(result={"status": "refused", "error": reason})

    def _known(self, duplicate: Accepted) -> Mapping[str, Any]:
        return self._wording.duplicate(duplicate.operation, rejected=duplicate.duplicate == "rejected")


def _native(operation: Operation) -> Answer:
    if operation.error is not None:
        return Answer(result=_outcome(operation))
    # Pipecat takes a falsy result for none: no run, and "COMPLETED" in its place.
    return Answer(result=operation.result or {"result": operation.result})


def _outcome(operation: Operation) -> dict[str, Any]:
    if operation.error is not None:
        return {"status": str(operation.status), "error": operation.error}
    return {"status": str(operation.status), "result": operation.result}
