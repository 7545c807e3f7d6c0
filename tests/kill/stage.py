# SPDX-License-Identifier: BSD-2-Clause
"""Plays the conversation in processes of their own, and looks at what is left when it is over."""

import asyncio
import json
import multiprocessing
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pipecat_async_tools import store_from_url
from tests.kill.scenario import LEASE_SECS, SESSION, Scene
from tests.kill.service import Service

# The fork server has imported all that a process needs, so that each starts at once.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.kill.scenario", "openai", "openai.types"])

KILLED = -signal.SIGKILL
_LIMIT_SECS = 90


@dataclass(frozen=True)
class Aftermath:
    """What is left when the conversation is over.

    Parameters:
        effects: What took effect at the service, counted.
        statuses: The status of each operation, by tool, oldest first.
        told: How many completed tellings each operation had, by tool.
        pending: Deliveries and operations that are not over.
        heard: What the caller heard in the last call.
        problems: What a provider would say to the history.
    """

    effects: dict[str, int]
    statuses: dict[str, list[str]]
    told: dict[str, list[int]]
    pending: list[str]
    heard: str
    problems: list[str]

    def row(self, store: str, who: str, moment: str) -> list[str]:
        """The line of the table."""
        effects = " ".join(f"{what} {count}" for what, count in sorted(self.effects.items()))
        statuses = " ".join(f"{tool} {'/'.join(found)}" for tool, found in sorted(self.statuses.items()))
        told = " ".join(str(count) for counts in self.told.values() for count in counts)
        return [store, who, moment, effects, statuses, f"told {told}", f"pending {len(self.pending)}"]


class Stage:
    """One conversation on one store.

    Args:
        url: The store's URL.
        folder: Where the processes leave what they saw.
        server: Whether leases run by a server's clock, and so in real time.
    """

    def __init__(self, url: str, folder: Path, *, server: bool):
        self._scene = Scene(url, str(folder / "effects"), str(folder / "report"))
        self._server = server
        self._skipped_secs = 0.0

    def play(self, part, *, kill_at: str | None = None, lasts_secs: float = 80.0) -> list[str]:
        """Run a part in a process of its own, and return the moments it passed; none if it was killed."""
        scene = replace(self._scene, kill_at=kill_at, skipped_secs=self._skipped_secs)
        process = _processes.Process(target=part, args=(scene,))
        process.start()
        process.join(_LIMIT_SECS)
        assert process.exitcode is not None, f"{part.__name__} hangs"
        expected = KILLED if kill_at else 0
        assert process.exitcode == expected, f"{part.__name__} ended with {process.exitcode}, not {expected}"
        if self._server:
            time.sleep(LEASE_SECS + 0.1)
        else:
            self._skipped_secs += lasts_secs
        return [] if kill_at else self.report["passed"]

    @property
    def report(self) -> dict:
        """What the last part that lived saw."""
        return json.loads(Path(self._scene.report).read_text())

    def aftermath(self) -> Aftermath:
        """Look at the service and at the store."""
        return asyncio.run(self._look())

    async def _look(self) -> Aftermath:
        store = store_from_url(self._scene.store)
        operations = await store.operations(SESSION)
        spoken = [d for d in await store.deliveries(SESSION) if d.state == "spoken"]
        completed = Counter(
            o.operation_id
            for d in spoken
            for t in d.tellings
            if t.outcome == "completed"
            for o in d.operations
        )
        events = [logged.event for logged in await store.events(session_id=SESSION)]
        assert sum(e.name == "on_delivery_spoken" for e in events) == len(spoken)
        pending = [d.delivery_id for d in await store.open_deliveries(SESSION)]
        pending += [o.operation_id for o in operations if not o.is_settled]
        await store.close()
        effects = Counter(effect["what"] for effect in Service(self._scene.effects).effects)
        tools = dict.fromkeys(o.tool for o in operations)
        return Aftermath(
            effects=dict(effects),
            statuses={tool: [str(o.status) for o in operations if o.tool == tool] for tool in tools},
            told={tool: [completed[o.operation_id] for o in operations if o.tool == tool] for tool in tools},
            pending=pending,
            heard=self.report["heard"],
            problems=self.report["problems"],
        )

    async def _until_logged(self, store, name: str, times: int) -> None:
        # PostgreSQL shows no event before every transaction that began earlier, in any test, is over.
        for _ in range(100):
            events = [entry.event.name for entry in await store.events(session_id=SESSION)]
            if events.count(name) == times:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name} is in the log {events.count(name)} times, not {times}")
