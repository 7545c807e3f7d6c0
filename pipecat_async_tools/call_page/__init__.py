# SPDX-License-Identifier: BSD-2-Clause
"""The call page for people: static files for any web server, built from ``bots/web``."""

from pathlib import Path


def directory() -> Path:
    """Return the directory that holds ``index.html``, ``app.js`` and ``app.css``."""
    return Path(__file__).parent
