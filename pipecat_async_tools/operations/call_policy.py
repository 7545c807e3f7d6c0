# SPDX-License-Identifier: BSD-2-Clause
"""How calls are answered, and which native functions are adopted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import cast

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


def declared(adopt: Adopt) -> Mapping[str, TellingOptions]:
    """Return how the outcomes of adopted functions are told, as far as the application says so."""
    return cast("Mapping[str, TellingOptions]", adopt) if isinstance(adopt, Mapping) else {}
