# SPDX-License-Identifier: BSD-2-Clause
"""The rules of the house, read from its source: who may speak, who may import whom, size and shape."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import pipecat_async_tools

PACKAGE = Path(pipecat_async_tools.__file__).parent
REPOSITORY = PACKAGE.parent
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
HEADED = sorted(
    path.relative_to(REPOSITORY)
    for folder in ("pipecat_async_tools", "tests", "benchmarks", "bots", "examples")
    for path in (REPOSITORY / folder).rglob("*.py")
    if path.read_text()
)
MAX_LINES = 420

CORE = [path for path in FILES if path.parts[0] != "testing"]
SILENT = [path for path in CORE if path.parts[0] != "delivery"]
PLANES = [path for path in FILES if path.parts[0] in ("operations", "batches", "delivery")]
PROCESSORS = {
    "operations/registry.py": "OperationRegistry",
    "batches/aggregator.py": "BatchAggregator",
    "delivery/gate.py": "ActivityGate",
    "delivery/playback.py": "PlaybackTracker",
}
SPEECH = {
    "TTSSpeakFrame",
    "LLMRunFrame",
    "TTSTextFrame",
    "OutputAudioRawFrame",
    "TTSAudioRawFrame",
    "TextFrame",
}


def tree_of(path):
    return ast.parse((PACKAGE / path).read_text())


def names_in(tree):
    """Every name, attribute and imported name of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def imports_of(tree):
    """The modules a module imports, type-checking blocks included, with what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)


def asks_for_a_run(tree):
    """Where something is called, or set, with a literal run_llm=True."""
    for node in ast.walk(tree):
        for keyword in getattr(node, "keywords", ()):
            if keyword.arg == "run_llm" and getattr(keyword.value, "value", None) is True:
                yield node.lineno
        if isinstance(node, ast.Assign) and getattr(node.value, "value", None) is True:
            yield from (t.lineno for t in node.targets if getattr(t, "attr", "") == "run_llm")


@pytest.mark.parametrize("path", SILENT, ids=str)
def test_only_delivery_may_make_a_sound(path):
    tree = tree_of(path)
    assert not SPEECH & set(names_in(tree))
    assert list(asks_for_a_run(tree)) == []


def test_delivery_does_make_a_sound():
    """So that the test above looks for the right thing."""
    trees = [tree_of(path) for path in CORE if path.parts[0] == "delivery"]
    assert "TTSSpeakFrame" in {name for tree in trees for name in names_in(tree)}
    assert any(list(asks_for_a_run(tree)) for tree in trees)


@pytest.mark.parametrize("path", CORE, ids=str)
def test_processors_meet_in_the_frames_only(path):
    imported = {name for _, name in imports_of(tree_of(path))} & set(PROCESSORS.values())
    modules = {module for module, _ in imports_of(tree_of(path))}
    homes = {f"pipecat_async_tools.{home[:-3].replace('/', '.')}" for home in PROCESSORS}
    if str(path) == "async_tools.py":
        assert imported == set(PROCESSORS.values())
    elif str(path) in PROCESSORS:
        own = f"pipecat_async_tools.{str(path)[:-3].replace('/', '.')}"
        assert not imported and not (modules & homes) - {own}
    else:
        assert not imported


@pytest.mark.parametrize("path", PLANES, ids=str)
def test_the_planes_know_the_port_of_the_store_only(path):
    stores = {
        module for module, _ in imports_of(tree_of(path)) if module.startswith("pipecat_async_tools.store")
    }
    assert stores <= {"pipecat_async_tools.store.base", "pipecat_async_tools.store.rows"}
    assert ("pipecat_async_tools", "store") not in set(imports_of(tree_of(path)))


@pytest.mark.parametrize("path", CORE, ids=str)
def test_the_execution_plane_does_not_look_at_the_others(path):
    modules = {module for module, _ in imports_of(tree_of(path))}
    if path.parts[0] == "operations":
        assert not any(m.startswith("pipecat_async_tools.delivery") for m in modules)
        assert not any(m.startswith("pipecat_async_tools.batches") for m in modules)
    if path.parts[0] == "store":
        assert not any(m.startswith(("pipecat.", "pipecat_async_tools.delivery")) for m in modules)
    if path.parts[0] != "testing":
        assert not any(m.startswith("pipecat_async_tools.testing") for m in modules)


# Shape


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_file_is_long(path):
    assert len((PACKAGE / path).read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", HEADED, ids=str)
def test_every_file_has_its_licence(path):
    lines = (REPOSITORY / path).read_text().splitlines()
    first = lines[1] if lines[0].startswith("#!") else lines[0]
    assert first == "# SPDX-License-Identifier: BSD-2-Clause"


@pytest.mark.parametrize("module", ["pipecat_async_tools", "pipecat_async_tools.testing"])
def test_the_list_of_exports_is_complete(module):
    module = importlib.import_module(module)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "version"
    }
    assert public == set(module.__all__) - {"__version__"}
    assert len(set(module.__all__)) == len(module.__all__)


def modules():
    found = pkgutil.walk_packages([str(PACKAGE)], "pipecat_async_tools.")
    return ["pipecat_async_tools", *(module.name for module in found)]


def is_documented(thing):
    # A dataclass without a docstring gets its signature for one.
    return bool(thing.__doc__) and not thing.__doc__.startswith(f"{getattr(thing, '__name__', '')}(")


def members_of(thing):
    """The public functions and properties that a class defines itself."""
    for name, value in vars(thing).items() if inspect.isclass(thing) else ():
        kinds = (property, classmethod, staticmethod)
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds)):
            yield f"{thing.__qualname__}.{name}", value


@pytest.mark.parametrize("name", modules())
def test_every_public_thing_is_documented(name):
    """Every public class, function, method and property that a module defines."""
    module = importlib.import_module(name)
    assert module.__doc__ or not Path(module.__file__).read_text(), name
    things = [
        thing
        for label, thing in vars(module).items()
        if getattr(thing, "__module__", None) == name
        and not label.startswith("_")
        and hasattr(thing, "__qualname__")
    ]
    labelled = [
        *((thing.__qualname__, thing) for thing in things),
        *(m for t in things for m in members_of(t)),
    ]
    assert [label for label, thing in labelled if not is_documented(thing)] == []
