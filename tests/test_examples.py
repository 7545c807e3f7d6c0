# SPDX-License-Identifier: BSD-2-Clause
"""Every example runs, is in the index, and shows what it promises."""

import importlib.util
from pathlib import Path

import pytest

from pipecat_async_tools.testing import Timeline, run_virtual

EXAMPLES = Path(__file__).parent.parent / "examples"
# How many updates are told, where it is not one.
TOLD = {"06_urgent_and_stale": 2}
FILES = sorted(EXAMPLES.glob("[0-9]*.py"))


def run_example(path: Path) -> Timeline:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return run_virtual(module.main())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_example_tells_its_updates_once(path: Path):
    timeline = run_example(path)
    assert [t.outcome for t in timeline.tellings] == ["completed"] * TOLD.get(path.stem, 1)
    assert timeline.talked_over() == []
    assert timeline.history_problems() == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_an_example_is_in_the_index(path: Path):
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text()
