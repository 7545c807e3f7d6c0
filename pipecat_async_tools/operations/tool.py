# SPDX-License-Identifier: BSD-2-Clause
"""``@async_tool``: how a plain coroutine becomes a slow tool."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from loguru import logger
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from pipecat_async_tools.errors import ConfigurationError, ToolDefinitionError
from pipecat_async_tools.operations.intent import intent_key
from pipecat_async_tools.operations.operation import Operation
from pipecat_async_tools.operations.option_checks import (
    check_flags,
    check_intent,
    check_items,
    check_running,
)
from pipecat_async_tools.operations.retry import Retry
from pipecat_async_tools.operations.telling_options import Priority, Speak, TellingOptions
from pipecat_async_tools.store.base import OnDuplicate

ToolHandler = Callable[..., Awaitable[Any]]
Handler = TypeVar("Handler", bound=ToolHandler)
Intent = Sequence[str] | Callable[[Mapping[str, Any]], str]

_SPEC = "__async_tool__"


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
class ToolSpec(TellingOptions):
    """A tool as its decorator described it, with how its outcome is told.

    Parameters:
        name: What the model calls.
        handler: The coroutine function.
        arguments: Validates what the model passes.
        retry: How failed attempts are repeated.
        timeout_secs: Seconds from acceptance to the deadline, over all attempts.
        intent: What makes two requests one: names of arguments, a function of them, or None for all.
        on_duplicate: What a request that was made before leads to.
        intent_window_secs: Seconds after its success in which a repeat gets the stored result.
        idempotent: Whether it may be started again when nobody knows how far it got.
        items: The argument that lists what becomes one operation each, or None.
        cancellable: Whether the model may stop it.
        confirm_after_turn: Whether it starts only once the caller's turn stands.
    """

    name: str
    handler: ToolHandler
    arguments: type[BaseModel] = field(repr=False)
    retry: Retry
    timeout_secs: float
    intent: Intent | None
    on_duplicate: OnDuplicate
    intent_window_secs: float
    idempotent: bool
    items: str | None
    cancellable: bool
    confirm_after_turn: bool

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
        except Exception as e:
            # A validator of the application's own: the call must be answered all the same.
            raise ValueError(f"{self.name} was called with arguments that cannot be read: {e}") from e
        return {name: getattr(model, name) for name in self.arguments.model_fields}

    def jsonable(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated arguments as JSON data, which :meth:`validate` reads back."""
        model = self.arguments.model_construct(**arguments)
        return model.model_dump(mode="json", round_trip=True, by_alias=True, warnings=False)

    def split(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the validated arguments of each operation a call becomes: one, or one for each item.

        Raises:
            ValueError: There are no items; the message is written for the model.
        """
        if self.items is None:
            return [dict(arguments)]
        items = list(arguments[self.items])
        if not items:
            raise ValueError(f"{self.name} was called without any {self.items}: name at least one")
        return [{**arguments, self.items: [item]} for item in items]

    def intent_key(self, arguments: Mapping[str, Any]) -> str:
        """Return the key of a request, from its validated arguments."""
        if self.intent is None:
            return intent_key(self.name, arguments)
        if not callable(self.intent):
            return intent_key(self.name, {name: arguments[name] for name in self.intent})
        try:
            return f"{self.name}:{self.intent(arguments)}"
        except Exception as e:
            # The request must not be lost for it.
            logger.error(f"intent of {self.name} raised {type(e).__name__}; all arguments make the key")
            return intent_key(self.name, arguments)


def async_tool(
    *,
    retry: Retry | None = None,
    timeout_secs: float = 120.0,
    expires_after_secs: float | None = None,
    priority: Priority | Callable[[Operation], Priority] = "normal",
    interrupt_caller: bool = False,
    interruptible: bool = True,
    proactive: bool = True,
    speak: Speak = "always",
    summary: Callable[[Any], str] | None = None,
    supersedes: Callable[[Mapping[str, Any]], str] | None = None,
    intent: Intent | None = None,
    on_duplicate: OnDuplicate = "join",
    intent_window_secs: float = 300.0,
    idempotent: bool = False,
    items: str | None = None,
    cancellable: bool = False,
    confirm_after_turn: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare a coroutine function as a slow tool; the function itself is returned unchanged.

    Its first parameter is ``op`` (:class:`OperationContext`); the others, with the docstring, are
    what the model sees.

    Args:
        retry: How failed attempts are repeated; None tries once.
        timeout_secs: Seconds from acceptance to the deadline, over all attempts.
        expires_after_secs: Seconds after which the outcome is no longer worth saying; None never.
        priority: "urgent" goes first and may cut off the bot's own speech; or a function of the settled
            operation that returns "urgent" or "normal".
        interrupt_caller: Whether an urgent outcome may be spoken over the caller; it otherwise waits
            until they are silent.
        interruptible: False lets the update be heard to its end whatever the caller says; it is then
            worded by a summary or a template.
        proactive: False lets the bot never begin to speak about it: it joins the next answer.
        speak: "always", "on_failure", "never" (context only), or "skip_if_busy" (context only, unless
            nobody speaks when it is ready).
        summary: Returns a sentence for the caller from the result, for ``speech="auto"`` and for
            templates; None takes the result's own field "summary", if it has one.
        supersedes: Returns the subject of a request from its arguments; a newer request of one
            subject replaces an older one whose outcome was not yet told.
        intent: What makes two requests one intent, within a session: names of arguments, a function
            of them, or None for all arguments, whatever their spelling.
        on_duplicate: What a request leads to that was made before: "join" answers it with the
            operation that runs or with the stored result, "reject" refuses it, "replace" cancels the
            one that runs.
        intent_window_secs: Seconds after its success in which a repeat gets the stored result.
        idempotent: Whether it may be started again when nobody knows how far it got: its effect is
            taken once for one ``op.idempotency_key``. Otherwise such an outcome is unknown.
        items: Name of an argument that is a list: each item becomes an operation of its own, whose
            handler gets a list with that item alone; they are told as one total.
        cancellable: Whether the model may stop it when the caller says so, with the tool
            ``cancel_operation`` that is then among ``AsyncTools.functions``.
        confirm_after_turn: Whether it starts only once the caller's turn stands: after a second in
            which they say nothing more. A caller who goes on speaking before that gets nothing started.

    Raises:
        ToolDefinitionError: The function cannot be a tool.
        ConfigurationError: An option has a value it cannot have.
    """
    telling = TellingOptions(
        expires_after_secs=expires_after_secs,
        priority=priority,
        interrupt_caller=interrupt_caller,
        interruptible=interruptible,
        proactive=proactive,
        speak=speak,
        summary=summary,
        supersedes=supersedes,
    )
    check_running(retry, timeout_secs)
    check_flags(idempotent=idempotent, cancellable=cancellable, confirm_after_turn=confirm_after_turn)
    check_intent(intent, on_duplicate, intent_window_secs)
    check_items(items)

    def decorate(handler: Handler) -> Handler:
        spec = ToolSpec(
            **vars(telling),
            name=_name_of(handler),
            handler=handler,
            arguments=_arguments_model(handler),
            retry=retry or Retry(max_attempts=1),
            timeout_secs=timeout_secs,
            intent=intent if intent is None or callable(intent) else tuple(intent),
            on_duplicate=on_duplicate,
            intent_window_secs=intent_window_secs,
            idempotent=idempotent,
            items=items,
            cancellable=cancellable,
            confirm_after_turn=confirm_after_turn,
        )
        _check_names(spec)
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


def specs_by_name(tools: Sequence[ToolHandler]) -> Mapping[str, ToolSpec]:
    """Return what ``@async_tool`` wrote on handlers, by the name of the tool.

    Raises:
        ConfigurationError: Two have one name.
        ToolDefinitionError: One was not decorated.
    """
    if callable(tools):
        raise ConfigurationError(f"tools={tools!r}: pass a list of functions")
    specs: dict[str, ToolSpec] = {}
    for spec in map(spec_of, tools):
        if spec.name in specs:
            raise ConfigurationError(f"tools: two functions are named {spec.name}; rename one")
        specs[spec.name] = spec
    return specs


def _check_names(spec: ToolSpec) -> None:
    fields = spec.arguments.model_fields
    for name in () if spec.intent is None or callable(spec.intent) else spec.intent:
        if name not in fields:
            raise ToolDefinitionError(
                f"@async_tool: intent names {name!r}, which is no parameter of {spec.name}; "
                f"name some of: {', '.join(fields) or 'it has none'}"
            )
    if spec.items is None:
        return
    if spec.items not in fields:
        raise ToolDefinitionError(
            f"@async_tool: items={spec.items!r} is no parameter of {spec.name}; name one that is a list"
        )
    if spec.intent is not None and not callable(spec.intent) and spec.items not in spec.intent:
        raise ToolDefinitionError(
            f"@async_tool: intent of {spec.name} must name {spec.items!r} too: without it all items are one "
            "intent, and only the first is done"
        )
    annotation: Any = fields[spec.items].annotation
    is_fixed = get_origin(annotation) is tuple and get_args(annotation)[-1] is not Ellipsis
    if is_fixed or get_origin(annotation) not in (list, tuple, Sequence):
        raise ToolDefinitionError(
            f"@async_tool: items={spec.items!r}: annotate that parameter of {spec.name} as a list, "
            "such as list[str]"
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
