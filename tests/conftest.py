# SPDX-License-Identifier: BSD-2-Clause
"""How the suite is run."""

import pytest

from pipecat_async_tools.store.url import STORE_VARIABLE


@pytest.fixture(autouse=True)
def _a_store_of_its_own(monkeypatch):
    # The default is a file in the working directory, which tests would share and leave behind.
    monkeypatch.setenv(STORE_VARIABLE, "sqlite:///:memory:")


# Last: the folders mark their tests first.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One after the other: two calls in real time on two cores would disturb each other.
    for item in items:
        if item.get_closest_marker("realtime"):
            item.add_marker(pytest.mark.xdist_group("realtime"))
