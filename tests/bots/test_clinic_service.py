# SPDX-License-Identifier: BSD-2-Clause
import asyncio
import time

import httpx
import pytest

from bots import clinic
from bots.clinic_service import Behaviour, ClinicService, Fault
from bots.native_tools import NativeOperation


def with_service(conversation, *scripts):
    """Run ``conversation(service)`` against a service with scripted endpoints."""

    async def run():
        async with ClinicService() as service:
            for path, behaviour in scripts:
                service.script(path, behaviour)
            return await conversation(service)

    return asyncio.run(run())


async def send(service, method, path, key="k1", **request):
    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as http:
        return await http.request(method, path, headers={"Idempotency-Key": key} if key else {}, **request)


BOOKING = {"date": "thursday", "time": "10:00"}


def test_it_listens_on_loopback_only():
    async def conversation(service):
        assert service.url.startswith("http://127.0.0.1:")

    with_service(conversation)


def test_a_slow_endpoint_answers_late_and_right():
    async def conversation(service):
        began = time.monotonic()
        response = await send(service, "GET", "/slots", params={"date": "Thursday"})
        assert time.monotonic() - began >= 0.2
        assert response.json() == {"date": "Thursday", "slots": ["10:00", "14:30"]}

    with_service(conversation, ("/slots", Behaviour(delay_secs=0.2)))


def test_faults_come_first_one_per_request():
    async def conversation(service):
        answers = [await send(service, "GET", "/customers", params={"name": "Anna Bell"}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [503, 429, 200]
        assert answers[1].headers["Retry-After"] == "1.5"
        assert service.requests("/customers") == {"k1": 3}
        assert service.answered_at("/customers") is not None

    faults = (Fault(503), Fault(429, retry_after_secs=1.5))
    with_service(conversation, ("/customers", Behaviour(faults=faults)))


def test_a_business_error_can_be_scripted_and_can_follow_from_the_request():
    async def conversation(service):
        scripted = await send(service, "POST", "/appointments", json=BOOKING)
        taken = await send(service, "POST", "/appointments", json={**BOOKING, "time": "09:00"})
        assert (scripted.status_code, scripted.json()) == (422, {"error": "closed for holidays"})
        assert taken.status_code == 409
        assert service.bookings == []

    fault = Fault(422, message="closed for holidays")
    with_service(conversation, ("/appointments", Behaviour(faults=(fault,))))


@pytest.mark.parametrize(("key", "bookings"), [("k1", 1), (None, 2)])
def test_an_effect_happens_once_per_idempotency_key(key, bookings):
    async def conversation(service):
        answers = [await send(service, "POST", "/appointments", key=key, json=BOOKING) for _ in range(2)]
        assert [answer.json() for answer in answers] == [{"booked": "Thursday at 10:00"}] * 2
        assert len(service.bookings) == bookings
        assert service.requests("/appointments") == {key: 2}

    with_service(conversation)


def test_the_tools_send_their_key_and_raise_what_went_wrong(monkeypatch):
    async def conversation(service):
        monkeypatch.setenv(clinic.CLINIC_URL, service.url)
        op = NativeOperation("op-1")
        assert (await clinic.check_availability(op, "friday"))["slots"] == []
        assert (await clinic.load_customer(op, "Anna Bell"))["record"] == "1042"
        assert (await clinic.book_appointment(op, "thursday", "14:30")) == {"booked": "Thursday at 14:30"}
        assert service.requests("/appointments") == {"op-1": 1}
        with pytest.raises(httpx.HTTPStatusError):
            await clinic.load_customer(op, "Nobody")

    with_service(conversation)
