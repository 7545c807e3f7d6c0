# SPDX-License-Identifier: BSD-2-Clause
"""The sentences that are spoken without the model, in one language."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, fields
from string import Formatter

from pipecat_async_tools.errors import ConfigurationError

_ALLOWED: dict[str, Set[str]] = {
    "success": {"tool", "result"},
    "failure": {"tool", "error"},
    "unknown": {"tool"},
    "cancelled": {"tool"},
    "total": {"tool", "succeeded", "total"},
    "item_failure": {"item", "error"},
    "correction": {"update"},
    "retelling": {"update"},
    "more_to_come": {"update"},
    "offer": {"tools"},
    "progress": {"tool", "progress"},
}


@dataclass(frozen=True, kw_only=True)
class Phrases:
    """Templates for what is spoken without the model; give your own for another language or another tone.

    Fields in braces are filled in. An unknown field is refused when the phrases are made.

    Parameters:
        one_moment: Work on one request has begun.
        one_moment_all: Work on several requests has begun.
        success: Fields: tool, result.
        failure: Fields: tool, error.
        unknown: Whether it worked could not be confirmed. Field: tool.
        cancelled: Field: tool.
        total: How many items of one request worked out. Fields: tool, succeeded, total.
        item_failure: One item that did not. Fields: item, error.
        correction: Around an update that corrects what was told before. Field: update.
        retelling: Around what is left of an update that was cut off. Field: update.
        more_to_come: Around a part of a batch. Field: update.
        offer: Instead of a third attempt to say it all. Field: tools.
        progress: Fields: tool, progress.
        nothing: An empty result.
        yes: The result True.
        no: The result False.
    """

    one_moment: str = "One moment, I'm on it."
    one_moment_all: str = "One moment, I'm looking into all of that."
    success: str = "{tool}: {result}."
    failure: str = "{tool} did not work out. {error}"
    unknown: str = "{tool}: I could not confirm that."
    cancelled: str = "{tool} was cancelled."
    total: str = "{tool}: {succeeded} of {total} worked out."
    item_failure: str = "{item}: {error}"
    correction: str = "I have to correct myself. {update}"
    retelling: str = "As I was saying: {update}"
    more_to_come: str = "{update} The rest is still being worked on."
    offer: str = "I have news about {tools}. Just ask me when you want to hear it."
    progress: str = "{progress}"
    nothing: str = "nothing"
    yes: str = "yes"
    no: str = "no"

    def __post_init__(self):
        for each in fields(self):
            _check(each.name, getattr(self, each.name))


def _check(name: str, phrase: object) -> None:
    if not isinstance(phrase, str) or not phrase.strip():
        raise ConfigurationError(f"Phrases({name}={phrase!r}): pass a sentence")
    allowed = _ALLOWED.get(name, frozenset[str]())
    try:
        used = {field for _, field, _, _ in Formatter().parse(phrase) if field is not None}
    except ValueError as e:
        raise ConfigurationError(f"Phrases({name}={phrase!r}): {e}; write {{{{ for a brace") from e
    if unknown := used - allowed:
        names = ", ".join(f"{{{field}}}" for field in sorted(allowed)) or "none"
        raise ConfigurationError(
            f"Phrases({name}={phrase!r}): {{{unknown.pop()}}} is no field of it; its fields are: {names}"
        )
