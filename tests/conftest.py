# SPDX-License-Identifier: BSD-2-Clause
"""How the suite is run."""

import pytest


# Last: the folders mark their tests first.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One after the other: two calls in real time on two cores would disturb each other.
    for item in items:
        if item.get_closest_marker("realtime"):
            item.add_marker(pytest.mark.xdist_group("realtime"))
