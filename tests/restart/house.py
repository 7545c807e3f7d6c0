# SPDX-License-Identifier: BSD-2-Clause
"""The house the bots live in: starts each of them as a process of its own, and keeps their one store."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from pipecat_async_tools import Store, store_from_url
from tests.kill.service import Service
from tests.restart.process import SESSION, Place, Process, run

# The fork server has imported all that a process needs, so that each starts at once.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    ["tests.kill.scenario", "tests.restart.process", "openai", "openai.types", "psycopg", "pytest"]
)

KILLED = -signal.SIGKILL
_LIMIT_SECS = 60

Part = Callable[[Process], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """What a process saw of the world, up to its end.

    Parameters:
        heard: What the caller heard, one entry for each utterance.
        heard_at: From when to when each was heard, in seconds of the call.
        updates: The messages by which the model was asked to tell an update.
        events: Name, time in seconds of the call, and reason of each event.
        problems: What a provider would not accept in the history.
        notes: What the part itself wrote down.
    """

    heard: list[str]
    heard_at: list[tuple[float, float]]
    updates: list[str]
    events: list[tuple[str, float, str]]
    problems: list[str]
    notes: dict[str, Any]

    def at(self, event: str, reason: str = "") -> list[float]:
        """When an event happened, with a reason that holds these words."""
        return [at for name, at, why in self.events if name == event and reason in why]


@dataclass(frozen=True)
class Left:
    """What is left in the store and at the clinic.

    Parameters:
        effects: What took effect at the clinic, counted.
        runs: How often each handler was started, in whichever process.
        statuses: The status of each operation, oldest first.
        deliveries: State of each delivery, oldest first, "correction" added to those that are one.
        reasons: The reason of each.
        heard: What was heard of each in tellings that were cut off.
        told: How many completed tellings each had.
        letters: The reasons of the open dead letters.
        pending: What is not over: deliveries and operations.
        events: How often each event is in the log.
    """

    effects: dict[str, int]
    runs: dict[str, int]
    statuses: list[str]
    deliveries: list[str]
    reasons: list[str]
    heard: list[str]
    told: list[int]
    letters: list[str]
    pending: list[str]
    events: Counter[str]


class Running:
    """A process that was started.

    Args:
        process: The process.
        report: Where it leaves what it saw.
    """

    def __init__(self, process: Any, report: Path):
        self._process = process
        self._report = report

    def ends(self, *, killed: bool = False) -> Seen:
        """Wait for its end, which is a kill or none, and return what it saw."""
        self._process.join(_LIMIT_SECS)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
        assert code == (KILLED if killed else 0), f"{self._report.name} ended with {code}"
        seen = Seen(**json.loads(self._report.read_text()))
        assert seen.problems == []
        return seen


class House:
    """One store, one clinic, and the processes that come and go.

    Args:
        url: The store's URL.
        folder: Where the processes leave what they saw.
        server: Whether the store has a server's clock, which runs in real time.
    """

    def __init__(self, url: str, folder: Path, *, server: bool):
        self._url = url
        self._folder = folder
        self._server = server
        self._skipped_secs = 0.0
        self._processes: list[Any] = []

    def play(self, part: Part, *, killed: bool = False) -> Seen:
        """Run a part in a process of its own, to its end."""
        return self.start(part).ends(killed=killed)

    def start(self, part: Part) -> Running:
        """Begin to run a part in a process of its own."""
        report = self._folder / f"process-{len(self._processes)}"
        place = Place(self._url, str(self._folder), str(report), self._server, self._skipped_secs)
        process = _processes.Process(target=run, args=(part, place))
        self._processes.append(process)
        process.start()
        return Running(process, report)

    def passes(self, secs: float) -> None:
        """Let time go by on the store's clock: really where a server keeps it."""
        if self._server:
            time.sleep(secs)
        else:
            # A call's clock stands at its end when it is over, not at its start.
            self._skipped_secs += 60.0 + secs

    def gives_sign(self, sign: str) -> None:
        """Give the processes a sign."""
        (self._folder / f"sign {sign}").touch()

    def ask(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """Ask the store, or change something in it, as an operator would."""

        async def ask() -> T:
            store = store_from_url(self._url)
            try:
                return await question(store)
            finally:
                await store.close()

        real = time.time
        with mock.patch.object(time, "time", lambda: real() + self._skipped_secs):
            return asyncio.run(ask())

    def left(self) -> Left:
        """Look at what is left."""
        return self.ask(self._look)

    def close(self) -> None:
        """See to it that no process is left, whatever failed."""
        for process in self._processes:
            if process.is_alive():
                process.kill()
                process.join(_LIMIT_SECS)

    async def _look(self, store: Store) -> Left:
        operations = await store.operations(SESSION)
        deliveries = await store.deliveries(SESSION)
        letters = await store.dead_letters(session_id=SESSION)
        pending = [d.delivery_id for d in await store.open_deliveries(SESSION)]
        return Left(
            effects=self._count("effects"),
            runs=self._count("runs"),
            statuses=[str(o.status) for o in operations],
            deliveries=[f"{d.state} correction" if d.correction else d.state for d in deliveries],
            reasons=[d.reason for d in deliveries],
            heard=[d.heard for d in deliveries],
            told=[sum(t.outcome == "completed" for t in d.tellings) for d in deliveries],
            letters=[letter.reason for letter in letters],
            pending=pending + [o.operation_id for o in operations if not o.is_settled],
            events=Counter(entry.event.name for entry in await store.events(session_id=SESSION)),
        )

    def _count(self, what: str) -> dict[str, int]:
        return dict(Counter(entry["what"] for entry in Service(str(self._folder / what)).effects))
