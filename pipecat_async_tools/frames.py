# SPDX-License-Identifier: BSD-2-Clause
"""The frames our processors exchange; none of them leaves the gate but the two marks of a telling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pipecat.frames.frames import BotSpeakingFrame, ControlFrame

from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.operations.operation import Operation

ContextUpdated = Callable[[], Awaitable[None]]


@dataclass
class BatchOpenedFrame(ControlFrame):
    """The calls of one response turned out to be slow: they are one batch.

    Parameters:
        batch_id: The batch.
        turn_id: The caller's turn.
        call_ids: Every announced call that can become a member.
        tools: Names of their tools.
        acknowledge: Whether the caller is owed a word that the work has begun.
        held_open: Whether it stays open until a `BatchReleasedFrame`, for calls of later responses.
        urgent: Whether its update is urgent, whatever its members are.
    """

    interruptible: bool = field(default=False, init=False)

    batch_id: str
    turn_id: str
    call_ids: tuple[str, ...]
    tools: tuple[str, ...]
    acknowledge: bool
    held_open: bool = False
    urgent: bool = False


@dataclass
class BatchReleasedFrame(ControlFrame):
    """Nothing joins a batch any more that was held open.

    Parameters:
        batch_id: The batch.
    """

    interruptible: bool = field(default=False, init=False)

    batch_id: str


@dataclass
class OperationAcceptedFrame(ControlFrame):
    """A call of a batch is an operation now.

    Parameters:
        operation: The operation.
    """

    interruptible: bool = field(default=False, init=False)

    operation: Operation


@dataclass
class CallDismissedFrame(ControlFrame):
    """A call of a batch is no operation: somebody else's, or refused.

    Parameters:
        batch_id: The batch.
        call_id: The call.
    """

    interruptible: bool = field(default=False, init=False)

    batch_id: str
    call_id: str


@dataclass
class OperationSettledFrame(ControlFrame):
    """An operation of a batch reached a terminal status.

    Parameters:
        operation: The operation.
        on_context_updated: Runs once the outcome is in the context.
    """

    interruptible: bool = field(default=False, init=False)

    operation: Operation
    on_context_updated: ContextUpdated | None = None


@dataclass
class OperationCorrectedFrame(ControlFrame):
    """An operation that had timed out succeeded after all.

    Parameters:
        operation: The operation.
    """

    interruptible: bool = field(default=False, init=False)

    operation: Operation


@dataclass
class AcknowledgeFrame(ControlFrame):
    """The caller is owed one short line for a batch whose work has begun.

    Parameters:
        batch_id: The batch.
        call_ids: The calls of the response that made it.
        tools: Names of the tools at work.
    """

    interruptible: bool = field(default=False, init=False)

    batch_id: str
    call_ids: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass
class DeliveryReadyFrame(ControlFrame):
    """A closed batch owes the caller an update.

    Parameters:
        envelope: What is to be told.
    """

    interruptible: bool = field(default=False, init=False)

    envelope: Envelope


@dataclass
class TellingStartedFrame(ControlFrame):
    """Goes ahead of everything that is said for a telling.

    Parameters:
        telling_id: The telling.
    """

    telling_id: str


@dataclass
class TellingEndedFrame(ControlFrame):
    """Comes after everything that is said for a telling.

    Parameters:
        telling_id: The telling.
    """

    telling_id: str


@dataclass
class WorkGoesOnFrame(BotSpeakingFrame):
    """Tells the worker's idle timer, which watches for its base class, that the bot is at work.

    It goes from the gate to its neighbour and no further: nobody else takes the bot for speaking.
    """
