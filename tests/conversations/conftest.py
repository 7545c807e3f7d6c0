# SPDX-License-Identifier: BSD-2-Clause
"""Some six hundred calls; the tests of one conversation share theirs, in one process."""

import sys
from pathlib import Path

import pytest
from loguru import logger


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            params = getattr(getattr(item, "callspec", None), "params", {})
            conversation = params.get("conversation_id") or getattr(params.get("conversation"), "id", "")
            item.add_marker(pytest.mark.xdist_group(conversation or item.name))


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """The timelines say what happened; the debug log only takes time."""
    logger.remove()
    logger.add(sys.stderr, level="ERROR")
