# SPDX-License-Identifier: BSD-2-Clause
"""How calls are answered, and which native functions are adopted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import cast

from loguru import logger
from pipecat.frames.frames import LLMServiceMetadataFrame

from pipecat_async_tools.operations.telling_options import TellingOptions

Adopt = bool | Collection[str] | Mapping[str, TellingOptions] | Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """How calls are answered.

    Parameters:
        grace_secs: A response whose calls are all over within this time is not announced.
        adopt: Which native functions are adopted: all that survive interruptions, names, or a predicate.
        adopted_timeout_secs: Seconds until an adopted function that never reports is given up.
        model_acknowledges: Whether the model, rather than a template, says that work has begun.
    """

    grace_secs: float
    adopt: Adopt
    adopted_timeout_secs: float
    model_acknowledges: bool

    def adopts(self, tool: str) -> bool:
        """Whether a native function that survives interruptions is adopted."""
        if isinstance(self.adopt, bool):
            return self.adopt
        return self.adopt(tool) if callable(self.adopt) else tool in self.adopt

    def behind(self, service: LLMServiceMetadataFrame) -> CallPolicy:
        """Return how calls are answered behind a service of this kind."""
        if not service.is_realtime_service or isinstance(self.adopt, _NoAdoption):
            return self
        return replace(self, adopt=_NoAdoption(self.adopts, service.service_name))


class _NoAdoption:
    """Adopts nothing, and says so once for each function that would have been."""

    def __init__(self, would: Callable[[str], bool], service: str):
        self._would = would
        self._service = service
        self._said: set[str] = set()

    def __call__(self, tool: str) -> bool:
        if self._would(tool) and tool not in self._said:
            self._said.add(tool)
            logger.warning(
                f"{tool} is not adopted and keeps its native answer: {self._service} is a realtime service, "
                "which takes the answer of a call from its own handler only. Make it an @async_tool to have "
                "it answered at once."
            )
        return False


def declared(adopt: Adopt) -> Mapping[str, TellingOptions]:
    """Return how the outcomes of adopted functions are told, as far as the application says so."""
    return cast("Mapping[str, TellingOptions]", adopt) if isinstance(adopt, Mapping) else {}
