# SPDX-License-Identifier: BSD-2-Clause
"""How long a service asks to be left alone: the ``Retry-After`` header of RFC 9110, section 10.2.3."""

from __future__ import annotations

import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


def retry_after_secs(error: BaseException) -> float | None:
    """Return the seconds a failed response asks to wait, or None if it does not say.

    Args:
        error: What an HTTP client raised; its headers are found as httpx, requests and openai
            (``error.response.headers``) and aiohttp (``error.headers``) keep them.
    """
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        value = _header(headers)
        if value is not None:
            return parse(value)
    return None


def parse(value: str) -> float | None:
    """Return the seconds a value of the header means, or None if it means nothing.

    Args:
        value: A number of seconds, or an HTTP date; one that has passed asks for no wait.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        # "-0000" means Greenwich as well, of a sender that does not know its own zone.
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _header(headers: Any) -> str | None:
    try:
        items = list(headers.items())
    except Exception:
        return None
    found = (value for name, value in items if str(name).lower() == "retry-after")
    value = next(found, None)
    return value if isinstance(value, str) else None
