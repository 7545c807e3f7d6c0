# SPDX-License-Identifier: BSD-2-Clause
"""One conversation over several processes, any of which may be killed: what each of them does."""

import asyncio
import json
import time
from dataclasses import dataclass

from loguru import logger

from pipecat_async_tools import AsyncTools, Retry, Worker, async_tool, store_from_url
from pipecat_async_tools.testing import Call, SimulatedCall, run_virtual
from tests.kill.killing import DeadlyStore, Killer
from tests.kill.service import Service

SESSION = "caller-17"
LEASE_SECS = 1.0
REQUEST = [Call("book_slot", {"day": "friday"}), Call("pay_deposit", {"amount": 30})]


@dataclass(frozen=True)
class Scene:
    """What a process of the conversation needs to know.

    Parameters:
        store: The store's URL.
        effects: The file in which the service keeps what took effect.
        report: The file into which the process writes what it saw.
        kill_at: The moment at which it is killed; None lets it live.
        skipped_secs: By how much its clock is ahead: a virtual call ends later than it really does.
    """

    store: str
    effects: str
    report: str
    kill_at: str | None = None
    skipped_secs: float = 0.0


class Unavailable(Exception):
    """What an HTTP client raises for a 503."""

    status_code = 503


class NobodyExecutor:
    """Leaves what is accepted to a worker."""

    async def start(self, run):
        pass

    async def submit(self, operation):
        pass

    async def cancel(self, operation_id):
        pass

    async def stop(self, drain_secs):
        pass


def tools_of(service: Service, killer: Killer):
    """The tools: one is unavailable at first and may be repeated, the other may not be."""

    def take_effect(op, what):
        killer.reach(f"{what} before its effect")
        service.request(op.idempotency_key, what)
        killer.reach(f"{what} after its effect")

    @async_tool(
        idempotent=True,
        retry=Retry(max_attempts=5, initial_wait_secs=0.2),
        intent_window_secs=3600,
        timeout_secs=900,
    )
    async def book_slot(op, day: str):
        """Book a slot."""
        await asyncio.sleep(1.0)
        if op.attempt == 1:
            raise Unavailable("try again")
        take_effect(op, "booking")
        await op.progress("booked, waiting for the receipt")
        await asyncio.sleep(0.5)
        return {"slot": "10:15"}

    @async_tool(intent_window_secs=3600, timeout_secs=900)
    async def pay_deposit(op, amount: int):
        """Pay a deposit."""
        await asyncio.sleep(2.5)
        take_effect(op, "payment")
        return {"receipt": "4711"}

    return [book_slot, pay_deposit]


def worded(messages):
    """Say what the update holds, and nothing else."""
    data = json.loads(messages[-1]["content"].split("-----")[1])
    said = {"10:15": "You are booked for ten fifteen.", "4711": "The receipt is 4711."}
    sentences = []
    for result in data["results"]:
        if result["status"] == "succeeded":
            sentences.append(said[next(iter(result["result"].values()))])
        else:
            sentences.append(f"I could not confirm the {result['tool'].split('_')[1]}.")
    return " ".join(sentences)


def first_call(scene: Scene) -> None:
    """The caller asks, waits for the update and hangs up."""
    _play(scene, _talk(scene, greets=False, asks_at=1.0, until=20.0))


def first_call_without_worker(scene: Scene) -> None:
    """The caller asks and hangs up; nobody works on it yet."""
    _play(scene, _talk(scene, greets=False, asks_at=1.0, until=6.0, executor=NobodyExecutor()))


def next_call(scene: Scene) -> None:
    """The caller is back, is told what is owed, and asks for the same again."""
    _play(scene, _talk(scene, greets=True, asks_at=40.0, until=75.0))


def work(scene: Scene) -> None:
    """A worker does what it finds."""
    _play(scene, _work(scene, secs=25.0))


def _play(scene: Scene, part) -> None:
    logger.remove()
    if scene.skipped_secs:
        real = time.time
        time.time = lambda: real() + scene.skipped_secs
    run_virtual(part, real_limit_secs=60)


async def _talk(scene, *, greets, asks_at, until, executor=None):
    killer = Killer(scene.kill_at)
    store = store_from_url(scene.store)
    async_tools = AsyncTools(
        session_id=SESSION,
        tools=tools_of(Service(scene.effects), killer),
        store=DeadlyStore(store, killer),
        executor=executor,
        lease_secs=LEASE_SECS,
        drain_secs=0.0,
    )
    for event, moment in (
        ("on_delivery_started", "telling starts"),
        ("on_delivery_spoken", "playback ended"),
    ):
        async_tools.add_event_handler(event, _reaching(killer, moment))
    call = SimulatedCall(async_tools)
    if greets:
        call.bot_greets("Welcome back.", at=0.5)
    call.user_says(at=asks_at, until=asks_at + 1.0, text="Book Friday and pay the deposit.")
    call.model_says("One moment.", when="book friday", calls=REQUEST)
    call.model_says(worded, when="update due")
    call.model_says("That is all on record.", when="operation_id")
    timeline = await call.run(until=until)
    await async_tools.stop()
    _report(scene, killer, heard=timeline.heard_text, problems=timeline.history_problems())
    await store.close()


def _reaching(killer, moment):
    async def reach(*_):
        killer.reach(moment)

    return reach


async def _work(scene, *, secs):
    killer = Killer(scene.kill_at)
    store = store_from_url(scene.store)
    worker = Worker(
        store=DeadlyStore(store, killer),
        tools=tools_of(Service(scene.effects), killer),
        lease_secs=LEASE_SECS,
    )
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(secs)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    _report(scene, killer, heard="", problems=[])
    await store.close()


def _report(scene, killer, **what):
    with open(scene.report, "w") as file:
        json.dump({"passed": killer.passed, **what}, file)
