# SPDX-License-Identifier: BSD-2-Clause
"""A store of its own for each kill, and the table of all of them."""

import pytest

from tests.kill.test_kill import ALL
from tests.servers import postgres_url, redis_url


@pytest.fixture
def url_of(tmp_path, request):
    """The URL of a fresh store of a kind."""

    def url(kind):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/calls.db"
        return request.getfixturevalue("postgres_url" if kind == "postgres" else "redis_url")

    return url


__all__ = ["postgres_url", "redis_url"]


def pytest_terminal_summary(terminalreporter):
    reports = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    rows = [dict(report.user_properties).get("kill") for report in reports if report.when == "call"]
    rows = sorted(row for row in rows if row)
    if rows and ALL:
        terminalreporter.section("killed")
        for row in rows:
            terminalreporter.line(" | ".join(row))
        terminalreporter.line(f"{len(rows)} processes killed")
