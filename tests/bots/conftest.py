# SPDX-License-Identifier: BSD-2-Clause
"""The bot's tests drive real audio, servers and processes."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.realtime)
