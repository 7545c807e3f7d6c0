# SPDX-License-Identifier: BSD-2-Clause
"""What a process of the story has at hand: the store, the clinic, a call, and its own violent end."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger
from pipecat.services.llm_service import FunctionCallParams

from pipecat_async_tools import AsyncTools, Event, Worker, async_tool, store_from_url
from pipecat_async_tools.delivery.wording import UPDATE_MARKER
from pipecat_async_tools.events import EVENT_NAMES, LOGGED_ONLY
from pipecat_async_tools.testing import Call, SimulatedCall, VirtualTimeLoop, history_problems, run_virtual
from pipecat_async_tools.testing.model import snapshot
from pipecat_async_tools.testing.tools import NativeHandler, ToolScript, native_tool, running_script
from tests.conversations.mind import Fact, Mind
from tests.kill.service import Service

SESSION = "caller-17"
LEASE_SECS = 1.0
GREETING = "Hello and welcome back to the practice."
_REAL_LIMIT_SECS = 50


@dataclass(frozen=True)
class Place:
    """Where a process finds what is there, and leaves what it saw.

    Parameters:
        store: The store's URL.
        folder: What the clinic keeps, and the signs the processes give each other.
        report: The file into which the process writes what it saw.
        server: Whether the store has a server's clock.
        skipped_secs: By how much its own clock is ahead.
    """

    store: str
    folder: str
    report: str
    server: bool
    skipped_secs: float


class NobodyExecutor:
    """Leaves what is accepted to a worker."""

    async def start(self, run: Any) -> None:
        """Nothing to start."""

    async def submit(self, operation: Any) -> None:
        """Leave it."""

    async def cancel(self, operation_id: str) -> None:
        """Nothing to cancel."""

    async def stop(self, drain_secs: float) -> None:
        """Nothing to stop."""


class PatientStore:
    """A store during whose answers virtual time stands still, and that remembers some of them."""

    def __init__(self, store: Any, *, server: bool):
        self._store = store
        self._server = server
        self.held: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            if name == "give_up_deliveries" and self._server and kwargs:
                # The time that the call waited went by only here, not on the server's clock.
                await asyncio.to_thread(time.sleep, args[0] + 0.1)
            with VirtualTimeLoop.running().hold():
                answer = await method(*args, **kwargs)
            if name == "hold_session":
                self.held.append(answer is not None)
            return answer

        return call


class RestartCall(SimulatedCall):
    """A simulated call whose model tells what its context says it owes, and whose bot may greet."""

    def __init__(self, async_tools: AsyncTools, mind: Mind, **options: Any):
        super().__init__(async_tools, **options)
        self.async_tools = async_tools
        self._mind = mind

    def user_asks(
        self, text: str, *, at: float, until: float, answer: str = "Okay.", calls: Sequence[str] = ()
    ) -> None:
        """The caller says something the model answers, perhaps by calling tools."""
        self.user_says(at=at, until=until, text=text)
        self._mind.answers[text] = answer
        made = [Call(name, {"asked": text}) for name in calls]
        self.model_says(self._mind.reply, when=text, calls=made, times=1)

    def model_tells_what_it_owes(self) -> None:
        """Whatever else the model is asked, it tells what its context says is owed."""
        self.model_says(self._mind.reply)


class Process:
    """One process of the story.

    Args:
        place: Where it finds what is there.
    """

    def __init__(self, place: Place):
        self._place = place
        self.store: Any = PatientStore(store_from_url(place.store), server=place.server)
        self.notes: dict[str, Any] = {}
        self._events: list[tuple[str, float, str]] = []
        self._call: RestartCall | None = None

    def tool(
        self,
        name: str = "check_slots",
        *,
        before: Callable[[], Awaitable[None]] | None = None,
        after: Callable[[], None] | None = None,
        stubborn: bool = False,
        **options: Any,
    ) -> Any:
        """A tool that ends when the script says so, and then takes effect at the clinic.

        Args:
            name: Its name.
            before: Waited for at the beginning.
            after: Called right after it took effect.
            stubborn: Whether its work goes on after it was cancelled.
            **options: Of ``@async_tool``.
        """

        async def handler(op, asked: str):
            self._clinic("runs").request(uuid.uuid4().hex, name)
            if before:
                await before()
            work = asyncio.ensure_future(running_script.get().run(name, {"asked": asked}))
            result = await (_insisting(work) if stubborn else work)
            self._clinic("effects").request(op.idempotency_key, name)
            if after:
                after()
            return result

        handler.__name__ = name
        handler.__doc__ = f"Run {name}."
        return async_tool(**options)(handler)

    def native_tool(self, name: str, *, reports: int) -> NativeHandler:
        """A native function that ends when the script says so, and reports so often."""
        handler = native_tool(name, reports=reports)

        async def run(params: FunctionCallParams) -> None:
            self._clinic("runs").request(uuid.uuid4().hex, name)
            await handler(params)

        return run

    def call(
        self,
        *tools: Any,
        facts: Sequence[Fact] = (),
        lease_secs: float = LEASE_SECS,
        call_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> RestartCall:
        """A call of the session in this process; its model knows how to tell ``facts``."""
        options = {"drain_secs": 0.0, **options}
        async_tools = AsyncTools(
            session_id=SESSION, tools=tools, store=self.store, lease_secs=lease_secs, **options
        )
        for name in set(EVENT_NAMES) - LOGGED_ONLY:
            async_tools.add_event_handler(name, self._note)
        self._call = RestartCall(async_tools, Mind(facts), **(call_options or {}))
        return self._call

    async def plays(self, call: RestartCall, *, until: float) -> None:
        """Play a call to its end, and let what still runs wind up."""
        call.model_tells_what_it_owes()
        await call.run(until=until)
        await call.async_tools.stop()

    async def works(self, worker: Worker, script: Callable[[ToolScript], None], *, secs: float) -> None:
        """Let a worker do what it finds for some time."""
        tools = ToolScript(lambda: asyncio.get_running_loop().time())
        script(tools)
        token = running_script.set(tools)
        running = asyncio.create_task(worker.run())
        running_script.reset(token)
        await asyncio.sleep(secs)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not tools.missing()

    async def waits(self, secs: float) -> None:
        """Live on after the call."""
        await asyncio.sleep(secs)

    def dies(self) -> None:
        """Be killed, here and now; only what was seen is saved."""
        self.reports()
        os.kill(os.getpid(), signal.SIGKILL)

    def announces(self, sign: str) -> None:
        """Give the other processes a sign."""
        self._sign(sign).touch()

    async def lets_pass(self, secs: float) -> None:
        """Let time go by on the store's clock, for what virtual time does not move: really, at a server."""
        if self._place.server:
            await asyncio.to_thread(time.sleep, secs)
        else:
            await asyncio.sleep(secs)

    async def waits_for(self, sign: str) -> None:
        """Wait for a sign of another process, while the time of this one stands still."""
        await asyncio.to_thread(self._wait, sign)

    def reports(self) -> None:
        """Write down what was seen so far."""
        call = self._call
        heard = call.line.output.far_end.utterances(_now()) if call else []
        runs = call.line.model.runs if call else []
        asked = [run.last_message for run in runs]
        seen = {
            "heard": [u.text for u in heard],
            "heard_at": [(u.started_at, u.ended_at) for u in heard],
            "updates": [m["content"] for m in asked if m["content"].startswith(UPDATE_MARKER)],
            "events": self._events,
            "problems": history_problems(snapshot(call.line.context)) if call else [],
            "notes": {"held": self.store.held, **self.notes},
        }
        Path(self._place.report).write_text(json.dumps(seen))

    async def _note(self, _: AsyncTools, event: Event) -> None:
        self._events.append((event.name, event.at, event.reason))

    def _clinic(self, what: str) -> Service:
        return Service(str(Path(self._place.folder) / what))

    def _sign(self, sign: str) -> Path:
        return Path(self._place.folder) / f"sign {sign}"

    def _wait(self, sign: str) -> None:
        until = time.monotonic() + _REAL_LIMIT_SECS
        while not self._sign(sign).exists():
            assert time.monotonic() < until, f"nobody gave the sign {sign!r}"
            time.sleep(0.01)


def run(part: Callable[[Process], Awaitable[None]], place: Place) -> None:
    """Play a part: the main function of a process."""
    logger.remove()
    real = time.time
    time.time = lambda: real() + place.skipped_secs
    run_virtual(_play(part, place), real_limit_secs=_REAL_LIMIT_SECS)


async def _play(part: Callable[[Process], Awaitable[None]], place: Place) -> None:
    process = Process(place)
    await part(process)
    process.reports()
    await process.store.close()


async def _insisting(work: asyncio.Future[Any]) -> Any:
    while True:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled():
                raise


def _now() -> float:
    return asyncio.get_running_loop().time()
