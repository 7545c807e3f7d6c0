# SPDX-License-Identifier: BSD-2-Clause
"""How the outcome of a tool is told, as the application declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from loguru import logger

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.operations.operation import Operation

Priority = Literal["normal", "urgent"]
Speak = Literal["always", "on_failure", "never", "skip_if_busy"]


@dataclass(frozen=True, kw_only=True)
class TellingOptions:
    """How the outcome of a tool is told: for ``AsyncTools(adopt={...})``; ``@async_tool`` takes them too.

    Parameters:
        expires_after_secs: Seconds after which the outcome is no longer worth saying; None never.
        priority: "urgent" goes first and may cut off the bot's own speech; or a function of the settled
            operation that returns "urgent" or "normal". Declared in code and never by the model.
        interrupt_caller: Whether an urgent outcome may be spoken over the caller.
        interruptible: Whether the caller may cut off the update.
        proactive: Whether the bot may begin to speak about it; otherwise it joins the next answer.
        speak: When the outcome is spoken.
        summary: Returns a sentence for the caller from a result, or None.
        supersedes: Returns the subject of a request from its arguments; a newer request of one subject
            replaces an older one whose outcome was not yet told.
    """

    expires_after_secs: float | None = None
    priority: Priority | Callable[[Operation], Priority] = "normal"
    interrupt_caller: bool = False
    interruptible: bool = True
    proactive: bool = True
    speak: Speak = "always"
    summary: Callable[[Any], str] | None = None
    supersedes: Callable[[Mapping[str, Any]], str] | None = None

    def __post_init__(self):
        if self.expires_after_secs is not None and self.expires_after_secs <= 0:
            raise ConfigurationError(
                f"expires_after_secs={self.expires_after_secs}: pass seconds above 0, or None"
            )
        if self.priority not in get_args(Priority) and not callable(self.priority):
            raise ConfigurationError(
                f"priority={self.priority!r}: pass 'normal', 'urgent' or a function of the operation"
            )
        for name in ("interrupt_caller", "interruptible", "proactive"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}: pass True or False")
        if self.speak not in get_args(Speak):
            raise ConfigurationError(
                f"speak={self.speak!r}: pass 'always', 'on_failure', 'never' or 'skip_if_busy'"
            )
        self._check_functions()

    def _check_functions(self) -> None:
        if self.summary is not None and not callable(self.summary):
            raise ConfigurationError(f"summary={self.summary!r}: pass a function of the result, or None")
        if self.supersedes is not None and not callable(self.supersedes):
            raise ConfigurationError(
                f"supersedes={self.supersedes!r}: pass a function of the arguments, such as "
                "lambda a: a['date']"
            )

    def priority_of(self, operation: Operation) -> Priority:
        """Return the priority of an outcome."""
        if not callable(self.priority):
            return self.priority
        try:
            return "urgent" if self.priority(operation) == "urgent" else "normal"
        except Exception as e:
            # The outcome must be told all the same.
            logger.error(f"priority of {operation.tool} raised {type(e).__name__}: {e}")
            return "normal"

    def summary_of(self, operation: Operation) -> str | None:
        """Return the sentence that tells a result without the model, if there is one.

        It is what ``summary`` makes of the result, or else the result's own field of that name.
        """
        try:
            made = self.summary(operation.result) if self.summary else own_summary(operation.result)
        except Exception as e:
            logger.error(f"summary of {operation.tool} raised {type(e).__name__}: {e}; the model words it")
            return None
        return made if isinstance(made, str) and made.strip() else None

    def subject_of(self, operation: Operation) -> str | None:
        """Return what a request is about, or None if the tool does not say."""
        if self.supersedes is None:
            return None
        try:
            return f"{operation.tool}:{self.supersedes(operation.arguments)}"
        except Exception as e:
            # The outcome must not be lost for it: then nothing replaces it, and it replaces nothing.
            logger.error(f"supersedes of {operation.tool} raised {type(e).__name__}: {e}")
            return None


def own_summary(result: Any) -> Any:
    """Return the field "summary" of a result, or None."""
    return cast("Mapping[str, Any]", result).get("summary") if isinstance(result, Mapping) else None
