# SPDX-License-Identifier: BSD-2-Clause
"""The domain: a clinic's front desk, and the three slow things it does over HTTP."""

import os
from typing import Any

import httpx

from pipecat_async_tools import OperationContext, Retry, async_tool

CLINIC_URL = "CLINIC_URL"
"""The environment variable that names the back office; the mock service sets it for its own process."""

REQUEST_TIMEOUT_SECS = 20.0
DEADLINE_SECS = 60.0
RETRY = Retry(max_attempts=4)

INSTRUCTIONS = (
    "You are the front desk of a clinic, on the phone. Speak in short sentences without markup. "
    "Looking up the diary or a patient's record and booking take a while: say so in one sentence when you "
    "start, go on with the conversation, and never claim that something is done before its result has come."
)


@async_tool(retry=RETRY, timeout_secs=DEADLINE_SECS, expires_after_secs=120.0)
async def check_availability(op: OperationContext, date: str) -> dict[str, Any]:
    """Check which slots are free on a date.

    Args:
        op: The operation.
        date: A weekday such as "thursday".
    """
    return await _request(op, "GET", "/slots", params={"date": date})


@async_tool(retry=RETRY, timeout_secs=DEADLINE_SECS, expires_after_secs=120.0)
async def load_customer(op: OperationContext, name: str) -> dict[str, Any]:
    """Load a patient's record.

    Args:
        op: The operation.
        name: First and last name.
    """
    return await _request(op, "GET", "/customers", params={"name": name})


@async_tool(retry=RETRY, timeout_secs=DEADLINE_SECS)
async def book_appointment(op: OperationContext, date: str, time: str) -> dict[str, Any]:
    """Book a slot that is free.

    Args:
        op: The operation.
        date: A weekday such as "thursday".
        time: The slot's time, such as "10:00".
    """
    return await _request(op, "POST", "/appointments", json={"date": date, "time": time})


TOOLS = (check_availability, load_customer, book_appointment)


async def _request(op: OperationContext, method: str, path: str, **request: Any) -> dict[str, Any]:
    # trust_env=False: the back office is local, and a proxy of the environment is not for it.
    async with httpx.AsyncClient(
        base_url=os.environ[CLINIC_URL], timeout=REQUEST_TIMEOUT_SECS, trust_env=False
    ) as http:
        response = await http.request(
            method, path, headers={"Idempotency-Key": op.idempotency_key}, **request
        )
    response.raise_for_status()
    return response.json()
