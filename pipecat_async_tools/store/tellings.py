# SPDX-License-Identifier: BSD-2-Clause
"""Transitions of sessions and their deliveries: held by one, told by one telling at a time, or given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.events import Event
from pipecat_async_tools.store.letters import open_letter
from pipecat_async_tools.store.rows import DeliveryRow, TellingEnd, TellingMode
from pipecat_async_tools.store.settling import is_alive, tell_correction
from pipecat_async_tools.store.transaction import Transaction

_EVENTS = {
    "completed": "on_delivery_spoken",
    "withdrawn": "on_delivery_withdrawn",
    "uncovered": "on_delivery_withdrawn",
}
_OPEN = ("pending", "telling")


def renew(tx: Transaction, owner: str, lease_secs: float) -> None:
    """Keep an owner alive."""
    tx.rows(
        "INSERT INTO owners (owner, lease_until) VALUES (?, ?) "
        "ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until",
        owner,
        tx.now + lease_secs,
    )


def hold(tx: Transaction, session_id: str, owner: str) -> int | None:
    """Take, or keep, a session."""
    tx.lock(session_id)
    if not is_alive(tx, owner):
        raise StoreError(f"{owner} has no living lease: renew it before it holds {session_id}")
    found = tx.row("SELECT owner, fence FROM sessions WHERE session_id = ?", session_id)
    holder, fence = found if found is not None else (None, 0)
    if holder == owner:
        return fence
    if is_alive(tx, holder):
        return None
    tx.rows(
        "INSERT INTO sessions (session_id, owner, fence, first_at, last_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET owner = excluded.owner, fence = excluded.fence, "
        "released_at = NULL",
        session_id,
        owner,
        fence + 1,
        tx.now,
        tx.now,
    )
    tx.log(Event(name="on_session_held", at=tx.now, session_id=session_id, reason=owner))
    return fence + 1


def release(tx: Transaction, session_id: str, owner: str) -> None:
    """Let go of a session."""
    tx.lock(session_id)
    found = tx.row("SELECT owner FROM sessions WHERE session_id = ?", session_id)
    if found is None or found[0] != owner:
        return
    tx.rows("UPDATE sessions SET owner = NULL, released_at = ? WHERE session_id = ?", tx.now, session_id)
    tx.log(Event(name="on_session_released", at=tx.now, session_id=session_id, reason=owner))


def claim(
    tx: Transaction,
    session_id: str,
    delivery_ids: Sequence[str],
    telling_id: str,
    fence: int,
    mode: TellingMode,
) -> tuple[str, ...]:
    """Take deliveries for one telling."""
    tx.lock(session_id)
    if not _is_present(tx, session_id, fence):
        return ()
    granted: list[str] = []
    for delivery_id in dict.fromkeys(delivery_ids):
        row = tx.delivery(delivery_id)
        if row is None or row.session_id != session_id or row.state not in _OPEN:
            continue
        waiting = tx.waiting_corrections(delivery_id)
        being_told = replace(row, state="telling", reason="being told", telling_id=telling_id, mode=mode)
        tx.put_delivery(being_told, waiting)
        tx.log_delivery("on_delivery_started", row, telling=telling_id, mode=mode)
        granted.append(delivery_id)
    return tuple(granted)


def settle(tx: Transaction, telling_id: str, ends: Sequence[TellingEnd]) -> tuple[str, ...]:
    """Write down how a telling ended."""
    if not tx.lock_of("deliveries", "telling_id", telling_id):
        return ()
    return tuple(end.delivery_id for end in ends if _settle_one(tx, telling_id, end))


def suppress(tx: Transaction, session_id: str, delivery_id: str, reason: str, fence: int) -> bool:
    """Give up a pending delivery for good."""
    tx.lock(session_id)
    row = tx.delivery(delivery_id)
    if row is None or row.session_id != session_id or row.state != "pending":
        return False
    if not _is_present(tx, session_id, fence):
        return False
    tx.put_delivery(replace(row, state="suppressed", reason=reason))
    tx.log_delivery("on_delivery_suppressed", row, reason)
    return True


def give_up(tx: Transaction, delivery_id: str, unheld_secs: float) -> DeliveryRow | None:
    """Make a delivery undeliverable, if it is open and nobody has been there for as long."""
    if not tx.lock_of("deliveries", "delivery_id", delivery_id):
        return None
    row, since = tx.delivery(delivery_id), _waiting_since(tx, delivery_id)
    if row is None or row.state not in _OPEN or since > tx.now - unheld_secs:
        return None
    waiting = tx.waiting_corrections(delivery_id)
    lost = _undeliverable(tx, replace(row, reason=f"nobody was there for {unheld_secs:g} s"))
    _tell_corrections(tx, lost, waiting)
    return lost


def _settle_one(tx: Transaction, telling_id: str, end: TellingEnd) -> bool:
    row = tx.delivery(end.delivery_id)
    if row is None or row.state != "telling" or row.telling_id != telling_id:
        return False
    waiting = tx.waiting_corrections(end.delivery_id)
    told = replace(
        row,
        state=end.state,
        reason=end.reason,
        tellings=(*row.tellings, end.record),
        heard=end.heard,
        text=end.text,
    )
    tx.put_delivery(told)
    event = _EVENTS.get(end.record.outcome, "on_delivery_interrupted")
    tx.log_delivery(event, told, end.record.outcome, telling_id)
    if end.state == "undeliverable":
        _undeliverable(tx, told)
    _tell_corrections(tx, told, waiting)
    return True


def _tell_corrections(tx: Transaction, holder: DeliveryRow, operation_ids: Sequence[str]) -> None:
    for operation_id in operation_ids:
        operation = tx.operation(operation_id)
        if operation is not None:
            tell_correction(tx, holder, operation)


def _undeliverable(tx: Transaction, row: DeliveryRow) -> DeliveryRow:
    lost = tx.put_delivery(replace(row, state="undeliverable"))
    tx.log_delivery("on_delivery_undeliverable", lost, lost.reason)
    open_letter(tx, lost, lost.reason)
    return lost


def _is_present(tx: Transaction, session_id: str, fence: int) -> bool:
    found = tx.row("SELECT fence, owner FROM sessions WHERE session_id = ?", session_id)
    return found is not None and found[0] == fence and found[1] is not None


def _waiting_since(tx: Transaction, delivery_id: str) -> float:
    """Return since when a delivery has been ready, and nobody there."""
    found = tx.row(
        "SELECT d.waiting_from, COALESCE(o.lease_until, s.released_at, d.waiting_from) "
        "FROM deliveries d LEFT JOIN sessions s ON s.session_id = d.session_id "
        "LEFT JOIN owners o ON o.owner = s.owner WHERE d.delivery_id = ?",
        delivery_id,
    )
    return tx.now if found is None else max(found)
