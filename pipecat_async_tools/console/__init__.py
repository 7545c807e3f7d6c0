# SPDX-License-Identifier: BSD-2-Clause
"""The command line ``pipecat-async-tools``: what a store remembers, for whoever asks why."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without its extra, say what to install and exit with status 1."""
    try:
        # typer and rich are an extra.
        from pipecat_async_tools.console.app import app  # noqa: PLC0415
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(
            f"error: {e.name} is not installed: pip install 'pipecat-async-tools[console]'", file=sys.stderr
        )
        sys.exit(1)
    app()
