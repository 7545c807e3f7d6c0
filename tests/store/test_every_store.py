# SPDX-License-Identifier: BSD-2-Clause
"""The one contract, on every store: a file, memory, PostgreSQL and Redis."""

import asyncio
import importlib
from pathlib import Path

import pytest

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.store.url import store_from_url
from tests.builders import operation

_NAMES = sorted(path.stem for path in Path(__file__).parent.glob("contract_*.py"))

pytest.register_assert_rewrite(*(f"tests.store.{name}" for name in _NAMES))


def _tests_of(name: str) -> dict[str, object]:
    module = importlib.import_module(f"tests.store.{name}")
    return {key: value for key, value in vars(module).items() if key.startswith("test_")}


_THEMES = {name: _tests_of(name) for name in _NAMES}
for _tests in _THEMES.values():
    globals().update(_tests)


def test_no_theme_hides_a_test_of_another():
    names = [name for tests in _THEMES.values() for name in tests]
    assert len(names) == len(set(names))
    assert len(_THEMES) >= 8


@pytest.mark.parametrize(
    "url",
    ["postgresql://user:s3cret@127.0.0.1:1/calls", "redis://user:s3cret@127.0.0.1:1/0"],
    ids=["postgres", "redis"],
)
def test_a_server_that_is_not_there_is_named_without_its_password(url):
    async def use() -> None:
        store = store_from_url(url)
        try:
            with pytest.raises(StoreError, match=r"127\.0\.0\.1:1") as refused:
                await store.accept([operation()], owner="call")
        finally:
            await store.close()
        assert "s3cret" not in str(refused.value)
        assert "s3cret" not in repr(store)

    asyncio.run(asyncio.wait_for(use(), 20.0))
