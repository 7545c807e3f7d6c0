# SPDX-License-Identifier: BSD-2-Clause
"""The commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from pipecat_async_tools.console import documents, rendering
from pipecat_async_tools.console.durations import parse_secs
from pipecat_async_tools.console.masking import document, without_secrets
from pipecat_async_tools.console.reading import opened, read_call, read_letter, read_operation
from pipecat_async_tools.console.story import tell
from pipecat_async_tools.errors import AsyncToolsError
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.url import DEFAULT_STORE, STORE_VARIABLE

T = TypeVar("T")

app = typer.Typer(
    name="pipecat-async-tools",
    help="Look into what a voice bot's slow tools did, and what the caller heard of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
dead = typer.Typer(help="What only a person can settle.", no_args_is_help=True)
app.add_typer(dead, name="dead")

Url = Annotated[
    str,
    typer.Option(
        "--store",
        envvar=STORE_VARIABLE,
        help="The bot's store: sqlite, postgresql or redis URL.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show arguments, results, errors and heard words.")]


@app.command()
def sessions(store: Url = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """List the calls, the latest first."""
    rows, now = _run(store, lambda s: _both(s.sessions(), s.now()))
    rendering.draw_json(document(rows, reveal=False)) if as_json else rendering.draw_sessions(rows, now)


@app.command()
def show(operation: str, store: Url = DEFAULT_STORE, as_json: AsJson = False, reveal: Reveal = False) -> None:
    """Show an operation: its record, attempts, batch and what was told of it."""
    found, call = _run(store, lambda s: read_operation(s, operation))
    if as_json:
        rendering.draw_json(documents.of_operation(found, call, reveal=reveal))
    else:
        rendering.draw_operation(found, call, reveal=reveal)


@app.command()
def explain(
    session: str, store: Url = DEFAULT_STORE, as_json: AsJson = False, reveal: Reveal = False
) -> None:
    """Tell the story of a call: what happened, when, and why."""
    call = _run(store, lambda s: read_call(s, session))
    lines = tell(call.events, call.operations, call.deliveries, reveal=reveal)
    if as_json:
        rendering.draw_json(documents.of_call(call, lines, reveal=reveal))
    else:
        rendering.draw_call(call, lines)


@app.command()
def prune(
    older_than: Annotated[str, typer.Option(help="A number with s, m, h, d or w, such as 30d.")],
    store: Url = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Delete what has been over for long."""
    try:
        secs = parse_secs(older_than)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--older-than") from None
    deleted = _run(store, lambda s: s.prune(secs))
    rendering.draw_json(dict(deleted)) if as_json else rendering.draw_deleted(deleted)


@dead.command("list")
def list_letters(
    session: Annotated[str | None, typer.Option(help="Only those of this call.")] = None,
    include_closed: Annotated[bool, typer.Option("--all", help="Those that are closed as well.")] = False,
    store: Url = DEFAULT_STORE,
    as_json: AsJson = False,
    reveal: Reveal = False,
) -> None:
    """List dead letters, the oldest first."""
    letters, now = _run(
        store, lambda s: _both(s.dead_letters(session_id=session, include_closed=include_closed), s.now())
    )
    if as_json:
        rendering.draw_json(document(letters, reveal=reveal))
    else:
        rendering.draw_letters(letters, now)


@dead.command("show")
def show_letter(
    letter: str, store: Url = DEFAULT_STORE, as_json: AsJson = False, reveal: Reveal = False
) -> None:
    """Show a dead letter with what it is about."""

    async def read(s: Store):
        found = await read_letter(s, letter)
        return found, await read_call(s, found.session_id)

    found, call = _run(store, read)
    if as_json:
        rendering.draw_json(document(found, reveal=reveal))
    else:
        rendering.draw_letter(found, call, reveal=reveal)


@dead.command("replay")
def replay_letter(letter: str, store: Url = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Send what a dead letter is about on its way again."""
    found = _run(store, lambda s: s.replay(letter))
    if as_json:
        rendering.draw_json(document(found, reveal=False))
    else:
        rendering.draw_message(f"{found.letter_id} was replayed.")


@dead.command("close")
def close_letter(
    letter: str,
    note: Annotated[str, typer.Option(help="What was done about it.")],
    store: Url = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Close a dead letter by hand."""
    found = _run(store, lambda s: s.close_dead_letter(letter, note))
    if as_json:
        rendering.draw_json(document(found, reveal=False))
    else:
        rendering.draw_message(f"{found.letter_id} was closed.")


def _run(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with the store; what goes wrong is said on stderr, with exit status 1."""

    async def with_store() -> T:
        async with opened(url) as store:
            return await work(store)

    try:
        return asyncio.run(with_store())
    except AsyncToolsError as e:
        typer.echo(f"error: {without_secrets(str(e))}", err=True)
        raise typer.Exit(1) from None


async def _both(rows: Awaitable[T], now: Awaitable[float]) -> tuple[T, float]:
    return await rows, await now
