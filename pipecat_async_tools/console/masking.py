# SPDX-License-Identifier: BSD-2-Clause
"""What callers said and tools answered stays covered until somebody asks to see it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, cast

MASK = "••• (--reveal shows it)"

# Errors, progress and intent keys quote arguments and results.
_PRIVATE = frozenset({"arguments", "result", "heard", "text", "error", "progress", "intent_key"})


def shown(value: str, *, reveal: bool) -> str:
    """Return private words, or what stands in for them; nothing stays nothing."""
    return value if reveal or not value else MASK


def document(row: Any, *, reveal: bool) -> Any:
    """Return rows of a store as JSON data, with what is private masked unless ``reveal``."""
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        row = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
        if row.get("name") == "on_operation_refused":
            row["reason"] = shown(row["reason"], reveal=reveal)
    if isinstance(row, Mapping):
        data = cast("Mapping[str, Any]", row)
        return {key: _field(key, value, reveal=reveal) for key, value in data.items()}
    if isinstance(row, (list, tuple)):
        return [document(each, reveal=reveal) for each in cast("list[Any]", row)]
    return row


def without_secrets(message: str) -> str:
    """Return a message with the passwords of the URLs in it covered."""
    message = re.sub(r"(://)[^\s'\"]*@", r"\1•••@", message)
    return re.sub(r"(?i)(password=)[^\s&'\"]+", r"\1•••", message)


def _field(key: str, value: Any, *, reveal: bool) -> Any:
    if key not in _PRIVATE:
        return document(value, reveal=reveal)
    # Of arguments and results even "empty" is an answer; of words it is none.
    if reveal or value is None or (value in ("", {}) and key != "result"):
        return value
    return MASK
