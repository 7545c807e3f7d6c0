# SPDX-License-Identifier: BSD-2-Clause
"""What makes two requests the same request."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python


def intent_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the key of a request: the tool and its validated arguments, in canonical JSON.

    The same whatever their order, white space, number form (1, 1.0 and 1.00), Unicode form (NFC), and
    in every process.

    Args:
        tool: The tool.
        arguments: Validated arguments, defaults included.
    """
    return f"{tool}:{_text(_canonical(arguments))}"


def _text(canonical: Any) -> str:
    return json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, Enum):
        return _canonical(value.value)
    if isinstance(value, (float, Decimal)):
        return _number(value)
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFC", value).split())
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, (BaseModel, Mapping)):
        return _object(cast("Mapping[Any, Any]", dict(cast("Any", value))))
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _canonical(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Set):
        # The order of a set differs from process to process.
        return sorted((_canonical(item) for item in cast("Set[Any]", value)), key=_text)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_canonical(item) for item in cast("Sequence[Any]", value)]
    return _canonical(to_jsonable_python(value, fallback=str, bytes_mode="base64"))


def _object(value: Mapping[Any, Any]) -> Any:
    pairs = [[_name(key), _canonical(item)] for key, item in value.items()]
    canonical = dict(pairs)
    # Two names that differ in white space alone: neither may hide the other.
    return canonical if len(canonical) == len(pairs) else sorted(pairs, key=_text)


def _number(value: float | Decimal) -> Any:
    finite = value == value and abs(value) != float("inf")
    if finite and value == int(value):
        return int(value)
    return str(value.normalize()) if isinstance(value, Decimal) else value


def _name(key: Any) -> str:
    canonical = _canonical(key)
    return canonical if isinstance(canonical, str) else _text(canonical)
