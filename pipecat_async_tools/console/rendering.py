# SPDX-License-Identifier: BSD-2-Clause
"""Draws on a terminal, or into a pipe, what the commands show."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pipecat_async_tools.console.durations import clock, length, since
from pipecat_async_tools.console.endings import delivery_state, outcome
from pipecat_async_tools.console.masking import document
from pipecat_async_tools.console.names import Names
from pipecat_async_tools.console.reading import Call
from pipecat_async_tools.console.story import Line, tell
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.store.rows import DeadLetter, DeliveryRow, SessionRow

_STYLES = {"plain": "", "good": "green", "bad": "red", "waiting": "yellow"}


def draw_json(data: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def draw_sessions(rows: Sequence[SessionRow], now: float) -> None:
    """Print the sessions as a table."""
    table = _table("session", "last seen", "held", "operations", "running", "owed", "dead", right_from=3)
    for row in rows:
        counts = (row.operations, row.running, row.open_deliveries, row.dead_letters)
        held = "yes" if row.owner else "no"
        _add(table, row.session_id, f"{length(now - row.last_at)} ago", held, *map(str, counts))
    _print(table if rows else "There are no sessions.")


def draw_operation(operation: Operation, call: Call, *, reveal: bool) -> None:
    """Print an operation, its attempts, its batch and what was told of it."""
    _print(_heading(f"{operation.tool} {operation.operation_id}: {outcome(operation)}"))
    _print(_pairs(_record(operation, reveal=reveal)))
    name = operation.operation_id
    mine = [e for e in call.events if e.operation_id == name]
    # A replay moves the acceptance behind what happened before it.
    began_at = min((e.at for e in mine), default=operation.accepted_at)
    _print(_heading(f"\nWhat happened, from {clock(began_at)}"))
    _print(_timeline(tell(mine, call.operations, (), reveal=reveal), began_at))
    for batch in (b for b in call.batches if b.batch_id == operation.batch_id):
        state = "open" if batch.closed_at is None else f"closed {clock(batch.closed_at)}"
        _print(_heading(f"\nBatch {batch.batch_id}: {state}"))
        _print(_pairs({"operations": ", ".join(batch.operation_ids), "expected": ", ".join(batch.expected)}))
    for row in call.deliveries:
        if name in {o.operation_id for o in row.operations}:
            draw_delivery(row, call, reveal=reveal)


def draw_delivery(row: DeliveryRow, call: Call, *, reveal: bool) -> None:
    """Print a delivery and its tellings."""
    _print(_heading(f"\nDelivery {row.delivery_id}: {delivery_state(row, call.events)}"))
    for number, telling in enumerate(row.tellings, 1):
        words = document(telling, reveal=reveal)["heard"] or "nothing"
        _print(f"  telling {number}: {telling.outcome}; heard: {words}")


def draw_call(call: Call, lines: Sequence[Line]) -> None:
    """Print the story of a call, and how everything stands."""
    _print(_heading(f"Session {call.session_id}, from {clock(call.started_at)}\n"))
    _print(_timeline(lines, call.started_at))
    if call.operations:
        _print(_heading("\nOperations"))
        _print(_pairs({f"{o.tool} {o.operation_id}": outcome(o) for o in call.operations}))
    if call.deliveries:
        names = Names(call.operations, call.deliveries)
        _print(_heading("\nUpdates to the caller"))
        for row in call.deliveries:
            _print(f"  {names.deliveries([row.delivery_id])}: {delivery_state(row, call.events)}")
    if call.dead_letters:
        _print(_heading("\nA person has to look at"))
        for letter in call.dead_letters:
            _print(f"  {letter.letter_id}: {letter.reason}")


def draw_letters(letters: Sequence[DeadLetter], now: float) -> None:
    """Print dead letters, one after another: their ids are to be copied and are long."""
    for letter in letters:
        about = letter.operation.tool if letter.operation else "an update"
        closed = "" if letter.closed_at is None else f"; closed: {letter.note}"
        _print(_heading(letter.letter_id))
        _print(
            f"  {about} in {letter.session_id}, {length(now - letter.opened_at)} ago: {letter.reason}{closed}"
        )
    if not letters:
        _print("There are no dead letters.")


def draw_letter(letter: DeadLetter, call: Call, *, reveal: bool) -> None:
    """Print a dead letter with what it is about."""
    _print(_heading(f"{letter.letter_id}: {letter.reason}"))
    state = "open" if letter.closed_at is None else f"closed {clock(letter.closed_at)}: {letter.note}"
    _print(_pairs({"session": letter.session_id, "opened": clock(letter.opened_at), "state": state}))
    if letter.operation is not None:
        _print("")
        draw_operation(letter.operation, call, reveal=reveal)
    if letter.delivery is not None:
        draw_delivery(letter.delivery, call, reveal=reveal)


def draw_message(message: str) -> None:
    """Print a sentence."""
    _print(message)


def draw_deleted(deleted: Mapping[str, int]) -> None:
    """Print what was deleted."""
    counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in deleted.items() if count)
    _print(f"Deleted: {counts or 'nothing'}.")


def _record(operation: Operation, *, reveal: bool) -> dict[str, str]:
    data = document(operation, reveal=reveal)
    left_out = {"operation_id", "tool", "batch_id"}
    texts = {key: _text(key, value) for key, value in data.items() if key not in left_out}
    kept = {"arguments", *(("result",) if operation.status == "succeeded" else ())}
    return {key: text for key, text in texts.items() if key in kept or data[key] not in (None, "", False)}


def _text(key: str, value: Any) -> str:
    if key.endswith("_at") and value is not None:
        return clock(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _table(*headers: str, right_from: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, header in enumerate(headers):
        table.add_column(header, justify="right" if index >= right_from else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))


def _pairs(pairs: Mapping[str, str]) -> Text:
    return _columns([(f"  {key}", text, "") for key, text in pairs.items() if text])


def _timeline(lines: Sequence[Line], started_at: float) -> Text:
    rows = [(since(line.at - started_at), line.text, _STYLES[line.tone]) for line in lines]
    widest = max((len(at) for at, _, _ in rows), default=0)
    return _columns([(at.rjust(widest), text, style) for at, text, style in rows])


def _columns(rows: Sequence[tuple[str, str, str]]) -> Text:
    """Put a text next to each name, with lines as long as the terminal is wide.

    Not a table of rich's: that takes longer to draw a long call than the store takes to read it.
    """
    left = max((len(name) for name, _, _ in rows), default=0) + 2
    width = max(_console().width - left, 20)
    drawn = Text()
    for name, text, style in rows:
        paragraphs = [textwrap.wrap(line, width) or [""] for line in text.splitlines() or [""]]
        below = f"\n{' ' * left}"
        drawn.append("\n" if drawn else "").append(name.ljust(left))
        drawn.append(below.join(line for lines in paragraphs for line in lines), style=style)
    return drawn


def _console() -> Console:
    # Names of tools and sessions are data: nothing in them is markup.
    return Console(highlight=False, markup=False, emoji=False)


def _print(what: RenderableType) -> None:
    _console().print(what, soft_wrap=isinstance(what, Text))
