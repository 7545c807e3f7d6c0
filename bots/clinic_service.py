# SPDX-License-Identifier: BSD-2-Clause
"""A mock of the clinic's back office: a real HTTP service on loopback that can be slow or fail.

    service = ClinicService()
    service.script("/slots", Behaviour(delay_secs=4.0, faults=(Fault(503), Fault(429, retry_after_secs=1))))
    async with service:
        ...  # service.url

Each request first meets the faults scripted for its endpoint, one each, in order, and then the answer. A
booking is an effect: it happens once per ``Idempotency-Key``, and every time when there is no key.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from bots.loopback import LoopbackServer

SLOTS = {"thursday": ["10:00", "14:30"], "friday": []}
CUSTOMERS = {"anna bell": {"customer": "Anna Bell", "record": "1042"}}


@dataclass(frozen=True)
class Fault:
    """One answer that is not the wanted one.

    Parameters:
        status: HTTP status, e.g. 503, 429, or 409 and 422 for a business error.
        retry_after_secs: Sent as ``Retry-After`` when given.
        message: The error text in the JSON body.
        delay_secs: Seconds before the answer is sent.
    """

    status: int
    retry_after_secs: float | None = None
    message: str = "not now"
    delay_secs: float = 0.0


@dataclass(frozen=True)
class Behaviour:
    """How one endpoint answers.

    Parameters:
        delay_secs: Seconds before a good answer is sent.
        faults: Answers given first, one per request.
    """

    delay_secs: float = 0.0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, for whoever watches.

    Parameters:
        path: The endpoint.
        key: The request's ``Idempotency-Key``, if it had one.
        status: The answer's HTTP status; None while there is no answer yet.
        at: ``time.monotonic()`` of the request or, once there is a status, of the answer.
    """

    path: str
    key: str | None
    status: int | None
    at: float


class ClinicService(LoopbackServer):
    """The service and what it saw.

    Parameters:
        exchanges: Every request and every answer, in order.
        bookings: The effects, in order.
    """

    def __init__(self, on_exchange: Callable[[Exchange], None] | None = None):
        """Initialize the service; it listens once entered.

        Args:
            on_exchange: Called with each request and each answer as it happens.
        """
        self.exchanges: list[Exchange] = []
        self.bookings: list[dict[str, str]] = []
        self._on_exchange = on_exchange
        self._behaviours: defaultdict[str, Behaviour] = defaultdict(Behaviour)
        self._bookings_by_key: dict[str, dict[str, str]] = {}
        self._served: Counter[str] = Counter()
        app = web.Application()
        app.router.add_get("/slots", self._slots)
        app.router.add_get("/customers", self._customers)
        app.router.add_post("/appointments", self._appointments)
        super().__init__(app)

    def script(self, path: str, behaviour: Behaviour) -> None:
        """Set how an endpoint behaves from now on.

        Args:
            path: ``/slots``, ``/customers`` or ``/appointments``.
            behaviour: Its delay and its faults.
        """
        self._behaviours[path] = behaviour
        self._served[path] = 0

    def requests(self, path: str) -> Counter[str | None]:
        """How many requests an endpoint got, by idempotency key."""
        return Counter(e.key for e in self.exchanges if e.path == path and e.status is None)

    def answered_at(self, path: str) -> float | None:
        """``time.monotonic()`` of the last good answer of an endpoint, or None."""
        return next((e.at for e in reversed(self.exchanges) if e.path == path and e.status == 200), None)

    async def _slots(self, request: web.Request) -> web.Response:
        date = request.query.get("date", "").lower()
        return await self._answer(
            request, lambda: (200, {"date": date.title(), "slots": SLOTS.get(date, [])})
        )

    async def _customers(self, request: web.Request) -> web.Response:
        customer = CUSTOMERS.get(request.query.get("name", "").lower())
        found = (200, customer) if customer else (404, {"error": "no such customer"})
        return await self._answer(request, lambda: found)

    async def _appointments(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        return await self._answer(request, lambda: self._book(request, wanted))

    def _book(self, request: web.Request, wanted: dict[str, str]) -> tuple[int, dict[str, str]]:
        if wanted["time"] not in SLOTS.get(wanted["date"].lower(), []):
            return 409, {"error": "that slot is taken"}
        key = request.headers.get("Idempotency-Key")
        if key in self._bookings_by_key:
            return 200, self._bookings_by_key[key]
        booking = {"booked": f"{wanted['date'].title()} at {wanted['time']}"}
        self.bookings.append(booking)
        if key:
            self._bookings_by_key[key] = booking
        return 200, booking

    async def _answer(self, request: web.Request, effect: Callable[[], tuple[int, dict]]) -> web.Response:
        path, behaviour = request.path, self._behaviours[request.path]
        turn, self._served[path] = self._served[path], self._served[path] + 1
        self._saw(request, None)
        headers: dict[str, str] = {}
        if turn < len(behaviour.faults):
            fault = behaviour.faults[turn]
            await asyncio.sleep(fault.delay_secs)
            status, body = fault.status, {"error": fault.message}
            if fault.retry_after_secs is not None:
                headers["Retry-After"] = f"{fault.retry_after_secs:g}"
        else:
            await asyncio.sleep(behaviour.delay_secs)
            status, body = effect()
        self._saw(request, status)
        return web.json_response(body, status=status, headers=headers)

    def _saw(self, request: web.Request, status: int | None) -> None:
        exchange = Exchange(request.path, request.headers.get("Idempotency-Key"), status, time.monotonic())
        self.exchanges.append(exchange)
        if self._on_exchange:
            self._on_exchange(exchange)
