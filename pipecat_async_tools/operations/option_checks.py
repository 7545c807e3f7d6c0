# SPDX-License-Identifier: BSD-2-Clause
"""Refuses options of ``@async_tool`` with values they cannot have, when the module is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.retry import Retry


def check_running(retry: Any, timeout_secs: float) -> None:
    """Check the options of how it is run."""
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(f"retry={retry!r}: pass a Retry, such as Retry(max_attempts=3), or None")
    if timeout_secs <= 0:
        raise ConfigurationError(f"timeout_secs={timeout_secs}: pass the seconds until the deadline, above 0")


def check_flags(**flags: Any) -> None:
    """Check that each is True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name}={value!r}: pass True or False")


def check_intent(intent: Any, on_duplicate: str, intent_window_secs: float) -> None:
    """Check the options of a request that was made before."""
    if not (intent is None or callable(intent) or _is_names(intent)):
        raise ConfigurationError(
            f"intent={intent!r}: pass a list of argument names, a function of the arguments, or None"
        )
    if on_duplicate not in ("join", "reject", "replace"):
        raise ConfigurationError(f"on_duplicate={on_duplicate!r}: pass 'join', 'reject' or 'replace'")
    if intent_window_secs < 0:
        raise ConfigurationError(f"intent_window_secs={intent_window_secs}: pass seconds, 0 or more")


def _is_names(intent: Any) -> bool:
    if isinstance(intent, str) or not isinstance(intent, Sequence):
        return False
    return all(isinstance(name, str) for name in cast("Sequence[Any]", intent))


def check_items(items: Any) -> None:
    """Check the name of the argument that lists items."""
    if items is not None and not isinstance(items, str):
        raise ConfigurationError(f"items={items!r}: pass the name of an argument that is a list, or None")
