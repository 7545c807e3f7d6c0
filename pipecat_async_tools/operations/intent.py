# SPDX-License-Identifier: BSD-2-Clause
"""What makes two requests the same request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python


def default_intent_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the key of a request: the tool and its validated arguments, in canonical JSON."""
    canonical = json.dumps(
        to_jsonable_python(arguments), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return f"{tool}:{canonical}"
