# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest

from pipecat_async_tools.console.story import tell
from pipecat_async_tools.events import EVENT_NAMES, Event
from pipecat_async_tools.operations.operation import OperationStatus
from pipecat_async_tools.operations.outcome import ABANDONED
from pipecat_async_tools.store.rows import DeliveryRow, TellingRecord
from tests.console.calls import operation

CHECK = operation("op-checkslots", "check", batch="b1")
BOOK = operation("op-bookvisit", "book", batch="b1")


def event(name: str, at: float = 0.0, **fields) -> Event:
    return Event(name=f"on_{name}", at=at, session_id="room-1", **fields)


def about(operation, name: str, at: float = 0.0, reason: str = "", **detail) -> Event:
    return event(
        name, at, operation_id=operation.operation_id, tool=operation.tool, reason=reason, detail=detail
    )


def update(name: str, *operations, **fields) -> DeliveryRow:
    ids = {"session_id": "room-1", "batch_id": "b1", "turn_id": "turn-1"}
    return DeliveryRow(delivery_id=name, operations=operations, ready_at=0.0, **ids, **fields)


def told(*events: Event, operations=(CHECK, BOOK), deliveries=(), reveal=False) -> list[str]:
    return [line.text for line in tell(events, operations, deliveries, reveal=reveal)]


def test_what_started_at_once_is_one_line():
    lines = told(
        about(CHECK, "operation_accepted", 1.0),
        about(CHECK, "operation_started", 1.1, "attempt 1"),
        about(BOOK, "operation_accepted", 1.0),
        about(BOOK, "operation_started", 4.0, "attempt 1"),
    )
    assert lines == [
        "check (op-checks) was asked for: accepted, and started at once",
        "book (op-bookvi) was asked for: accepted",
        "book (op-bookvi) started",
    ]


@pytest.mark.parametrize(
    ("status", "detail", "words"),
    [
        ("succeeded", {"attempt": 1}, "succeeded after 4.2 s"),
        ("succeeded", {"attempt": 3}, "succeeded on attempt 3 after 4.2 s"),
        (
            "failed",
            {"outcome_class": "unavailable", "http_status": 503},
            "failed after 4.2 s: 503 unavailable",
        ),
        ("failed", {"outcome_class": "business_error"}, "failed after 4.2 s: the tool said no"),
        ("timed_out", {}, "timed out after 4.2 s"),
        ("cancelled", {}, "was cancelled after 4.2 s"),
        ("unknown", {}, "ended after 4.2 s: whether it took effect is not known"),
    ],
)
def test_how_an_operation_ended(status, detail, words):
    settled = about(CHECK, "operation_settled", 5.2, status, **detail)
    assert told(about(CHECK, "operation_accepted", 1.0), settled)[1] == f"check (op-checks) {words}"


def test_a_crash_is_named():
    abandoned = operation(
        "op-bookvisit", "book", batch="b1", status=OperationStatus.UNKNOWN, error=ABANDONED.error
    )
    lines = told(
        about(CHECK, "operation_recovered", 9.0, "its process was gone"),
        about(BOOK, "operation_settled", 9.0, "unknown"),
        event("session_held", 10.0, reason="a"),
        event("session_held", 11.0, reason="b"),
        event("session_released", 12.0, reason="b"),
        event("session_held", 13.0, reason="b"),
        operations=(CHECK, abandoned),
    )
    assert lines == [
        "check (op-checks): its process was gone: it is run again",
        "book (op-bookvi) ended: its process was gone: whether it took effect is not known",
        "the call was picked up again by another process",
        "the process let go of the call",
        "the call was picked up again by the same process",
    ]


def test_a_batch_that_closes_is_told_by_its_update():
    lines = told(
        event("batch_opened", batch_id="b1"),
        event("batch_closed", batch_id="b1"),
        event("delivery_ready", batch_id="b1", delivery_id="d1"),
        event("batch_closed", batch_id="b2"),
        deliveries=[update("d1", CHECK, BOOK)],
    )
    assert lines == [
        "all 2 that were asked for together have ended: "
        "the update on check (op-checks) and book (op-bookvi) is ready to be told",
        "everything that was asked for together has ended; there is nothing to tell",
    ]


def test_updates_that_are_told_together_are_one_line():
    record = TellingRecord(telling_id="t1", started_at=0, ended_at=1, heard="Ten.", outcome="completed")
    rows = [update("d1", CHECK, tellings=(record,)), update("d2", BOOK, correction=True, tellings=(record,))]
    both = [
        event(name, telling_id="t1", delivery_id=row.delivery_id)
        for name in ("delivery_started", "delivery_spoken")
        for row in rows
    ]
    names = "the update on check (op-checks) and the correction of book (op-bookvi)"
    assert told(*both, deliveries=rows) == [
        f"the bot begins to tell {names}",
        f"{names} were told; the caller heard: ••• (--reveal shows it)",
    ]
    assert told(*both, deliveries=rows, reveal=True)[1] == f"{names} were told; the caller heard: Ten."


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("waiting", "the caller is speaking", "waits: the caller is speaking"),
        ("withdrawn", "withdrawn", "is held back: the caller began to speak before the first word"),
        ("suppressed", "older than 120 s", "is not told: older than 120 s"),
        ("undeliverable", "gave up after 4 attempts", "could not be told: gave up after 4 attempts"),
    ],
)
def test_why_an_update_is_not_heard(name, reason, words):
    happened = event(f"delivery_{name}", delivery_id="d1", reason=reason)
    assert told(happened, deliveries=[update("d1", CHECK)]) == [f"the update on check (op-checks) {words}"]


@pytest.mark.parametrize(
    ("reason", "words"), [("joined", "nothing new was started"), ("rejected", "turned away")]
)
def test_a_repeated_request_is_named(reason, words):
    [line] = told(about(CHECK, "operation_joined", reason=reason))
    assert "was asked for again" in line and words in line


def test_a_refusal_quotes_arguments_only_when_asked_to():
    refused = event("operation_refused", tool="book", reason="date: 'Ada' is no date")
    assert "Ada" not in told(refused)[0]
    assert "Ada" in told(refused, reveal=True)[0]


def test_the_error_of_an_attempt_is_shown_only_when_asked_for():
    attempted = about(
        CHECK,
        "operation_attempted",
        attempt=1,
        outcome_class="timeout",
        http_status=None,
        wait_secs=0.0,
        error="no Ada",
    )
    assert told(attempted) == ["check (op-checks): attempt 1: timeout, trying again at once"]
    assert told(attempted, reveal=True)[0].endswith("(no Ada)")


def test_every_event_can_be_told_even_when_its_rows_are_gone():
    silent = {"on_batch_opened", "on_session_held"}
    for name in EVENT_NAMES:
        lines = tell([Event(name=name, at=1.0, session_id="room-1")], (), ())
        assert len(lines) == (0 if name in silent else 1), name


def test_names_that_would_be_the_same_are_not_cut():
    twins = (
        operation("op-checkslots-1", "check", batch="b1"),
        operation("op-checkslots-2", "check", batch="b1"),
    )
    lines = told(*(about(twin, "operation_accepted") for twin in twins), operations=twins)
    assert [line.split()[1] for line in lines] == ["(op-checkslots-1)", "(op-checkslots-2)"]


def test_a_replay_is_timed_from_its_own_start():
    lines = told(
        about(CHECK, "operation_accepted", 1.0),
        about(CHECK, "operation_started", 1.0, "attempt 1"),
        about(CHECK, "operation_settled", 2.0, "failed"),
        about(CHECK, "operation_replayed", 900.0),
        about(CHECK, "operation_started", 901.0, "attempt 2"),
        about(CHECK, "operation_settled", 903.0, "succeeded", attempt=2),
    )
    assert lines[2:] == [
        "check (op-checks) was sent on its way again by hand",
        "check (op-checks) started again (attempt 2)",
        "check (op-checks) succeeded on attempt 2 after 3 s",
    ]


def with_telling(outcome: str) -> DeliveryRow:
    telling = TellingRecord(
        telling_id="t1", started_at=1.0, ended_at=2.0, heard="", outcome=outcome, mode="next_turn"
    )
    return update("d1", CHECK, tellings=(telling,))


@pytest.mark.parametrize(
    ("name", "fields", "row", "words"),
    [
        (
            "delivery_started",
            {"detail": {"mode": "next_turn"}},
            update("d1", CHECK),
            "is to be told with the answer to the caller",
        ),
        (
            "delivery_started",
            {"detail": {"mode": "proactive"}},
            update("d1", CHECK),
            "the bot begins to tell",
        ),
        ("delivery_spoken", {}, with_telling("completed"), "told with the answer to the caller"),
        (
            "delivery_withdrawn",
            {"reason": "uncovered"},
            with_telling("uncovered"),
            "was heard, and did not tell",
        ),
        (
            "delivery_withdrawn",
            {"reason": "withdrawn"},
            with_telling("withdrawn"),
            "no answer came that told",
        ),
        (
            "delivery_ready",
            {"reason": "partial"},
            update("d1", CHECK),
            "a part of what was asked for together",
        ),
    ],
)
def test_what_joins_an_answer_and_what_is_a_part_says_so(name, fields, row, words):
    (line,) = told(
        event(name, 1.0, delivery_id="d1", batch_id="b1", telling_id="t1", **fields), deliveries=[row]
    )
    assert words in line
