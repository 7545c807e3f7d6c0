# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from dataclasses import replace

import pytest

from pipecat_async_tools.console.durations import length, parse_secs, since
from pipecat_async_tools.console.endings import delivery_state, outcome
from pipecat_async_tools.console.masking import MASK, document, without_secrets
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.store.rows import DeliveryRow, TellingRecord
from tests.console.calls import operation

CHECK = operation("op-checkslots", "check", batch="b1")
ROW = DeliveryRow(
    delivery_id="d1", session_id="room-1", batch_id="b1", turn_id="t", operations=(CHECK,), ready_at=100.0
)


def event(name: str, at: float, reason: str = "") -> Event:
    return Event(name=name, at=at, session_id="room-1", delivery_id="d1", reason=reason)


def test_an_update_was_told_when_its_sound_began_not_when_it_ended():
    # Its telling was timed on another clock than its events.
    record = TellingRecord(telling_id="t1", started_at=7.0, ended_at=10.0, heard="Ten.", outcome="completed")
    row = replace(ROW, state="spoken", tellings=(record,))
    assert delivery_state(row, [event("on_delivery_spoken", 107.2)]) == "told once, 4.2 s after it was ready"
    cut_off = replace(record, telling_id="t0", outcome="interrupted")
    again = replace(row, tellings=(cut_off, record))
    assert delivery_state(again, [event("on_delivery_spoken", 107.2)]).startswith("told on try 2, 4.2 s")


def test_what_was_not_told_says_why():
    waits = event("on_delivery_waiting", 101.0, "the caller is speaking")
    assert delivery_state(ROW, [waits]) == "not told yet: the caller is speaking"
    assert delivery_state(replace(ROW, state="suppressed", reason="replayed"), []) == "not told: replayed"


def test_the_outcome_of_an_operation():
    late = replace(
        CHECK, status=OperationStatus.SUCCEEDED, late=True, attempts=2, accepted_at=1.0, settled_at=66.0
    )
    assert outcome(late) == "succeeded after all, 2 attempts, 1 min 5 s"
    assert outcome(CHECK) == "accepted, not started"


@pytest.mark.parametrize(
    ("text", "secs"), [("30s", 30), ("5m", 300), ("1.5h", 5400), ("30d", 2592000), ("2W", 1209600)]
)
def test_lengths_of_time_are_read(text, secs):
    assert parse_secs(text) == secs


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "nan", "1 0d", "9" * 400 + "d"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="such as 30d"):
        parse_secs(text)


def test_times_are_written_for_people():
    assert [since(s) for s in (0, 4.24, 59.97, 3723)] == ["0:00.0", "0:04.2", "1:00.0", "1:02:03"]
    assert [length(s) for s in (0.003, 0.5, 4.0, 4.25, 40.0, 59.97, 60, 7800, 864000)] == [
        "0 s",
        "0.5 s",
        "4 s",
        "4.2 s",
        "40 s",
        "1 min",
        "1 min",
        "2 h 10 min",
        "10 days",
    ]


@pytest.mark.parametrize("result", [0, False, "", [], {}, "ten"])
def test_every_result_is_masked_also_those_that_are_false(result):
    masked = document(replace(CHECK, result=result), reveal=False)
    assert (masked["result"], masked["arguments"], masked["intent_key"]) == (MASK, MASK, MASK)
    assert document(replace(CHECK, result=result), reveal=True)["result"] == result


def test_passwords_in_messages_are_covered():
    assert "hush" not in without_secrets("no postgresql://me:hush@x/y?password=hush&a=1, redis://:hu@sh@h/0")
