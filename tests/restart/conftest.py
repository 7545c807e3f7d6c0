# SPDX-License-Identifier: BSD-2-Clause
"""A house of its own for each story, on each kind of store."""

import pytest

from tests.restart.house import House
from tests.servers import postgres_url

__all__ = ["postgres_url"]


@pytest.fixture(params=["sqlite", "postgres"])
def house(request, tmp_path):
    """A house with a fresh store; no process outlives the test."""
    server = request.param == "postgres"
    url = request.getfixturevalue("postgres_url") if server else f"sqlite:///{tmp_path}/calls.db"
    house = House(url, tmp_path, server=server)
    yield house
    house.close()
