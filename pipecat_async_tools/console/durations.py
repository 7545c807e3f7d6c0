# SPDX-License-Identifier: BSD-2-Clause
"""Lengths of time, as people write and read them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_UNIT_SECS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_secs(text: str) -> float:
    """Return the seconds in a text such as "30d" or "1.5h".

    Raises:
        ValueError: It is no number followed by s, m, h, d or w.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip().lower())
    secs = float(found[1]) * _UNIT_SECS[found[2]] if found else math.inf
    if not math.isfinite(secs):
        raise ValueError(f"{text!r}: write a number and its unit (s, m, h, d or w), such as 30d or 12h")
    return secs


def length(secs: float) -> str:
    """Return a length of time in words, such as "4.2 s", "3 min 5 s" or "2 h 10 min"."""
    if round(secs, 1) < 60:
        digits = f"{max(0.0, secs):.{2 if secs < 1 else 1}f}"
        return f"{digits.rstrip('0').rstrip('.')} s"
    minutes, rest = divmod(round(secs), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def since(secs: float) -> str:
    """Return a moment relative to the start of a call, such as "0:04.2" or "1:02:04"."""
    tenths = max(0, round(secs * 10))
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest // 10:02}"
    return f"{minutes}:{rest / 10:04.1f}"


def clock(at: float) -> str:
    """Return a time of the store as a date and a clock time in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
