# SPDX-License-Identifier: BSD-2-Clause
"""How often a failed attempt is repeated, as a tool declares it."""

from __future__ import annotations

from dataclasses import dataclass

from pipecat_async_tools.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often, and how patiently, a failed attempt is repeated.

    Only outcomes that are safe to repeat are retried.

    Parameters:
        max_attempts: Attempts in all, the first included.
        initial_wait_secs: Seconds before the second attempt; doubled for each further one.
        max_wait_secs: Upper bound of one wait, in seconds.
    """

    max_attempts: int = 3
    initial_wait_secs: float = 0.5
    max_wait_secs: float = 30.0

    def __post_init__(self):
        if self.max_attempts < 1:
            raise ConfigurationError(f"Retry(max_attempts={self.max_attempts}): pass 1 or more")
        if self.initial_wait_secs < 0 or self.max_wait_secs < self.initial_wait_secs:
            raise ConfigurationError(
                f"Retry(initial_wait_secs={self.initial_wait_secs}, max_wait_secs={self.max_wait_secs}): "
                "pass waits of 0 or more, the longest last"
            )
