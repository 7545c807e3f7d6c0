# SPDX-License-Identifier: BSD-2-Clause
"""How the fuzzed conversations are run."""

import pytest
from loguru import logger


@pytest.fixture(autouse=True, scope="package")
def _quiet():
    # Each conversation logs a few hundred lines that nobody reads; its errors are in its timeline.
    logger.disable("pipecat")
    yield
    logger.enable("pipecat")
