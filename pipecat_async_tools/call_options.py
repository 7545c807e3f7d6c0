# SPDX-License-Identifier: BSD-2-Clause
"""Refuses options of a call, or of a worker, with values they cannot have, before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.policy import OperationPolicy
from pipecat_async_tools.operations.telling_options import TellingOptions

# What each needs at least, and whether None is a value of it.
_AT_LEAST = {"lease_secs": 1.0}
_ABOVE_0 = frozenset({"adopted_timeout_secs", "undeliverable_after_secs"})
_OPTIONAL = frozenset({"undeliverable_after_secs", "user_idle_timeout_secs"})


def check_call(session_id: str, adopt: Any, acknowledge: str, operations: Any) -> None:
    """Check the options of a call that are no seconds.

    Raises:
        ConfigurationError: One has a value it cannot have.
    """
    if not session_id:
        raise ConfigurationError("session_id='': pass a name for the caller's session")
    if isinstance(adopt, str) or not (callable(adopt) or isinstance(adopt, (bool, Collection))):
        raise ConfigurationError(
            f"adopt={adopt!r}: pass True, False, a list of names or a function of the name"
        )
    for name, options in cast("Mapping[str, Any]", adopt if isinstance(adopt, Mapping) else {}).items():
        if not isinstance(options, TellingOptions):
            raise ConfigurationError(f"adopt[{name!r}]={options!r}: pass TellingOptions()")
    if operations is not None and not isinstance(operations, OperationPolicy):
        raise ConfigurationError(f"operations={operations!r}: pass an OperationPolicy, or None")
    if acknowledge not in ("template", "model"):
        raise ConfigurationError(f"acknowledge={acknowledge!r}: pass 'template' or 'model'")


def check_secs(**options: float | None) -> None:
    """Check options that are seconds, by their names.

    Raises:
        ConfigurationError: One has a value it cannot have.
    """
    for name, secs in options.items():
        or_none = ", or None" if name in _OPTIONAL else ""
        if secs is None and or_none:
            continue
        if name in _ABOVE_0:
            if secs is None or secs <= 0:
                raise ConfigurationError(f"{name}={secs}: pass seconds above 0{or_none}")
            continue
        least = _AT_LEAST.get(name, 0.0)
        if secs is None or secs < least:
            raise ConfigurationError(f"{name}={secs}: pass seconds, {least:g} or more{or_none}")
