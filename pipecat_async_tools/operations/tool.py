# SPDX-License-Identifier: BSD-2-Clause
"""``@async_tool``: how a plain coroutine becomes a slow tool."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_type_hints

from loguru import logger
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from pipecat_async_tools.errors import ConfigurationError, ToolDefinitionError

ToolHandler = Callable[..., Awaitable[Any]]
Handler = TypeVar("Handler", bound=ToolHandler)
Priority = Literal["normal", "urgent"]
Speak = Literal["always", "on_failure", "never"]

_SPEC = "__async_tool__"


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often, and how patiently, a failed attempt is repeated.

    Only outcomes that are safe to repeat are retried.

    Parameters:
        max_attempts: Attempts in all, the first included.
        initial_wait_secs: Seconds before the second attempt; doubled for each further one.
        max_wait_secs: Upper bound of one wait, in seconds.
    """

    max_attempts: int = 3
    initial_wait_secs: float = 0.5
    max_wait_secs: float = 30.0

    def __post_init__(self):
        if self.max_attempts < 1:
            raise ConfigurationError(f"Retry(max_attempts={self.max_attempts}): pass 1 or more")
        if self.initial_wait_secs < 0 or self.max_wait_secs < self.initial_wait_secs:
            raise ConfigurationError(
                f"Retry(initial_wait_secs={self.initial_wait_secs}, max_wait_secs={self.max_wait_secs}): "
                "pass waits of 0 or more, the longest last"
            )


@dataclass(kw_only=True)
class OperationContext:
    """What a handler knows about the operation it runs; always its first argument, ``op``.

    Parameters:
        operation_id: The operation.
        session_id: The caller's session.
        turn_id: The caller's turn the request came from.
        batch_id: The operations it is told with.
        tool_call_id: The provider's id of the call.
        idempotency_key: Stable over attempts and restarts. Side effects are at-least-once by nature:
            send it with every request that changes something.
        attempt: 1 for the first.
        remaining_secs: Returns the seconds left until the deadline.
        progress: ``await op.progress("2 of 3 done")``: optional speech; the latest counts.
    """

    operation_id: str
    session_id: str
    turn_id: str
    batch_id: str
    tool_call_id: str
    idempotency_key: str
    attempt: int
    remaining_secs: Callable[[], float]
    progress: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as its decorator described it.

    Parameters:
        name: What the model calls.
        handler: The coroutine function.
        arguments: Validates what the model passes.
        retry: How failed attempts are repeated.
        timeout_secs: Seconds from acceptance to the deadline, over all attempts.
        expires_after_secs: Seconds after which the outcome is no longer worth saying, or None.
        priority: Declared here, in code, and never by the model.
        speak: When the outcome is spoken.
        supersedes: Returns the subject of a request; a newer outcome of one subject replaces an
            older one that was not yet told.
    """

    name: str
    handler: ToolHandler
    arguments: type[BaseModel] = field(repr=False)
    retry: Retry
    timeout_secs: float
    expires_after_secs: float | None
    priority: Priority
    speak: Speak
    supersedes: Callable[[Mapping[str, Any]], str] | None

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the handler takes them.

        Raises:
            ValueError: They do not fit; the message is written for the model.
        """
        try:
            model = self.arguments.model_validate(dict(arguments))
        except ValidationError as e:
            problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in e.errors())
            raise ValueError(f"{self.name} was called with wrong arguments: {problems}") from e
        return {name: getattr(model, name) for name in self.arguments.model_fields}

    def subject_of(self, arguments: Mapping[str, Any]) -> str | None:
        """Return what a request is about, or None if the tool does not say."""
        if self.supersedes is None:
            return None
        try:
            return f"{self.name}:{self.supersedes(arguments)}"
        except Exception as e:
            # The outcome must not be lost for it: then nothing replaces it, and it replaces nothing.
            logger.error(f"supersedes of {self.name} raised {type(e).__name__}: {e}")
            return None


def async_tool(
    *,
    retry: Retry | None = None,
    timeout_secs: float = 120.0,
    expires_after_secs: float | None = None,
    priority: Priority = "normal",
    speak: Speak = "always",
    supersedes: Callable[[Mapping[str, Any]], str] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare a coroutine function as a slow tool; the function itself is returned unchanged.

    Its first parameter is ``op`` (:class:`OperationContext`); the others, with the docstring, are
    what the model sees.

    Args:
        retry: How failed attempts are repeated; None tries once.
        timeout_secs: Seconds from acceptance to the deadline, over all attempts.
        expires_after_secs: Seconds after which the outcome is no longer worth saying; None never.
        priority: "urgent" goes first and may cut off the bot's own speech.
        speak: "always", "on_failure", or "never" (context only).
        supersedes: Returns the subject of a request from its arguments; a newer outcome of one
            subject replaces an older one that was not yet told.

    Raises:
        ToolDefinitionError: The function cannot be a tool.
        ConfigurationError: An option has a value it cannot have.
    """
    _check_options(timeout_secs, expires_after_secs, priority, speak)
    _check_types(retry, supersedes)

    def decorate(handler: Handler) -> Handler:
        spec = ToolSpec(
            name=_name_of(handler),
            handler=handler,
            arguments=_arguments_model(handler),
            retry=retry or Retry(max_attempts=1),
            timeout_secs=timeout_secs,
            expires_after_secs=expires_after_secs,
            priority=priority,
            speak=speak,
            supersedes=supersedes,
        )
        setattr(handler, _SPEC, spec)
        return handler

    return decorate


def spec_of(handler: Any) -> ToolSpec:
    """Return what ``@async_tool`` wrote on a handler.

    Raises:
        ToolDefinitionError: The handler was not decorated.
    """
    spec = getattr(handler, _SPEC, None)
    if not isinstance(spec, ToolSpec):
        name = getattr(handler, "__name__", repr(handler))
        raise ToolDefinitionError(
            f"tools: {name} is not decorated with @async_tool(); a native Pipecat function needs no entry, "
            "it is adopted when it is registered with cancel_on_interruption=False"
        )
    return spec


def _check_options(timeout_secs: float, expires_after_secs: float | None, priority: str, speak: str) -> None:
    if timeout_secs <= 0:
        raise ConfigurationError(f"timeout_secs={timeout_secs}: pass the seconds until the deadline, above 0")
    if expires_after_secs is not None and expires_after_secs <= 0:
        raise ConfigurationError(f"expires_after_secs={expires_after_secs}: pass seconds above 0, or None")
    if priority not in ("normal", "urgent"):
        raise ConfigurationError(f"priority={priority!r}: pass 'normal' or 'urgent'")
    if speak not in ("always", "on_failure", "never"):
        raise ConfigurationError(f"speak={speak!r}: pass 'always', 'on_failure' or 'never'")


def _check_types(retry: Any, supersedes: Any) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(f"retry={retry!r}: pass a Retry, such as Retry(max_attempts=3), or None")
    if supersedes is not None and not callable(supersedes):
        raise ConfigurationError(
            f"supersedes={supersedes!r}: pass a function of the arguments, such as lambda a: a['date']"
        )


def _name_of(handler: Any) -> str:
    if not inspect.isfunction(handler) or not inspect.iscoroutinefunction(handler):
        name = getattr(handler, "__name__", repr(handler))
        raise ToolDefinitionError(
            f"@async_tool: {name} is not a coroutine function; write `async def {name}(op, ...)` "
            "(and decorate with @async_tool(), with parentheses)"
        )
    return handler.__name__


def _arguments_model(handler: ToolHandler) -> type[BaseModel]:
    name = handler.__name__
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or parameters[0].name != "op":
        raise ToolDefinitionError(
            f"@async_tool: the first parameter of {name} must be `op` (an OperationContext)"
        )
    try:
        hints = get_type_hints(handler)
    except NameError as e:
        raise ToolDefinitionError(f"@async_tool: an annotation of {name} cannot be read: {e}") from e
    fields: dict[str, Any] = {}
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"@async_tool: parameter `{parameter}` of {name} has no schema; name each argument"
            )
        if parameter.name.startswith("_"):
            raise ToolDefinitionError(
                f"@async_tool: parameter `{parameter.name}` of {name} must not begin with an underscore"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, validate_default=False)
    return create_model(f"{name}_arguments", __config__=config, **fields)
