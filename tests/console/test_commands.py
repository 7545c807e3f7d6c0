# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="the extra `console` is not installed")
pytest.importorskip("pipecat_async_tools.store.sqlite")

from typer.testing import CliRunner

from pipecat_async_tools.console.app import app
from tests.console.calls import HEARD, SECRET, write_call

LETTER = "dead-op-bookvisit"


@pytest.fixture
def url(tmp_path) -> str:
    return write_call(tmp_path / "calls.db")


def run(*arguments: str, url: str | None = None):
    env = {"PIPECAT_ASYNC_TOOLS_STORE": url, "COLUMNS": "80"}
    return CliRunner().invoke(app, arguments, env=env)


def words(text: str) -> str:
    return " ".join(text.split())


def test_sessions_are_listed_with_what_is_owed_and_dead(url):
    result = run("sessions", url=url)
    header, row = result.stdout.splitlines()
    assert header.split() == ["session", "last", "seen", "held", "operations", "running", "owed", "dead"]
    assert row.split()[0] == "room-1" and row.split()[-5:] == ["yes", "2", "0", "1", "1"]
    [data] = json.loads(run("sessions", "--json", url=url).stdout)
    assert (data["session_id"], data["open_deliveries"], data["dead_letters"]) == ("room-1", 1, 1)


def test_a_call_is_explained_in_its_order(url):
    result = run("explain", "room-1", url=url)
    story = words(result.stdout)
    told = [
        "check_availability (op-checks) was asked for: accepted, and started at once",
        "attempt 1: 503 unavailable, trying again in 0.5 s",
        "check_availability (op-checks) succeeded on attempt 2",
        "the update on check_availability (op-checks) is ready to be told",
        "waits: the caller is speaking",
        "the bot begins to tell the update on check_availability (op-checks)",
        "the caller cut it off",
        "was told",
        "book (op-bookvi) failed after",
        "a person has to look at this: dead-op-bookvisit",
        "book op-bookvisit failed",
        "told on try 2",
    ]
    places = [story.find(line) for line in told]
    assert -1 not in places and places == sorted(places), story
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    "command", [("explain", "room-1"), ("show", "op-checkslots"), ("dead", "list"), ("dead", "show", LETTER)]
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_is_private_is_shown_only_when_asked_for(url, command, form):
    covered = run(*command, *form, url=url)
    assert covered.exit_code == 0
    assert SECRET not in covered.stdout and HEARD not in covered.stdout
    if command != ("dead", "list") or form:
        assert "--reveal shows it" in covered.stdout
        revealed = words(run(*command, *form, "--reveal", url=url).stdout)
        assert SECRET in revealed or HEARD in revealed


def test_an_operation_is_shown_with_attempts_batch_and_tellings(url):
    text = words(run("show", "op-checkslots", url=url).stdout)
    for part in ("attempt 1: 503 unavailable", "Batch b1: closed", "telling 1: interrupted"):
        assert part in text
    data = json.loads(run("show", "op-checkslots", "--json", url=url).stdout)
    assert data["operation"]["attempts"] == 2
    assert [t["outcome"] for t in data["deliveries"][0]["tellings"]] == ["interrupted", "completed"]
    assert {e["operation_id"] for e in data["events"]} == {"op-checkslots"}


def test_a_dead_letter_is_closed_with_a_note(url):
    assert run("dead", "close", LETTER, url=url).exit_code == 2
    assert run("dead", "close", LETTER, "--note", "called back", url=url).exit_code == 0
    assert words(run("dead", "list", url=url).stdout) == "There are no dead letters."
    [closed] = json.loads(run("dead", "list", "--all", "--json", url=url).stdout)
    assert closed["note"] == "called back"
    again = run("dead", "close", LETTER, "--note", "x", url=url)
    assert again.exit_code == 1 and "is closed" in again.stderr and not again.stdout


def test_a_dead_letter_is_replayed(url):
    assert words(run("dead", "replay", LETTER, url=url).stdout) == f"{LETTER} was replayed."
    data = json.loads(run("show", "op-bookvisit", "--json", url=url).stdout)
    assert (data["operation"]["status"], data["operation"]["replays"]) == ("accepted", 1)
    assert json.loads(run("dead", "list", "--session", "room-1", "--json", url=url).stdout) == []


def test_what_was_pruned_is_said(url):
    assert words(run("prune", "--older-than", "1w", url=url).stdout) == "Deleted: nothing."
    assert set(json.loads(run("prune", "--older-than", "30d", "--json", url=url).stdout)) >= {"operations"}
    assert words(run("prune", "--older-than", "0s", url=url).stdout).startswith("Deleted: 1 operations")
    wrong = run("prune", "--older-than", "soon", url=url)
    assert wrong.exit_code == 2 and "30d" in wrong.stderr


@pytest.mark.parametrize(
    "command",
    [("explain", "nobody"), ("show", "nothing"), ("dead", "show", "none"), ("dead", "replay", "none")],
)
def test_what_is_not_there_is_an_error_on_stderr(url, command):
    result = run(*command, "--json", url=url)
    assert result.exit_code == 1 and command[-1] in result.stderr and result.stdout == ""


def test_a_missing_file_is_named_and_not_created(tmp_path):
    result = run("sessions", "--store", f"sqlite:///{tmp_path}/none.db")
    assert result.exit_code == 1 and "none.db" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush%40@127.0.0.1:1/x?connect_timeout=1&password=hush",
        "redis://me:hush%40@127.0.0.1:1/0",
        "mysql://me:hush@127.0.0.1:1/x",
        "sqlite://me:hush@127.0.0.1/x",
    ],
)
def test_the_password_of_a_store_is_never_printed(url):
    result = run("sessions", url=url)
    assert result.exit_code == 1 and "error:" in result.stderr
    assert "hush" not in result.output


def test_the_command_runs_as_a_process(url):
    code = "from pipecat_async_tools.console import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "sessions", "--json", "--store", url],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and json.loads(done.stdout)[0]["session_id"] == "room-1"


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from pipecat_async_tools.console import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'pipecat-async-tools[console]'" in done.stderr and "Traceback" not in done.stderr
