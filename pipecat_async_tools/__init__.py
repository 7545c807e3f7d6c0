# SPDX-License-Identifier: BSD-2-Clause
"""Slow tools for Pipecat voice bots: accept at once, run outside the turn, come back once.

The house:

- :mod:`~pipecat_async_tools.async_tools` wires one call
- :mod:`~pipecat_async_tools.operations` accepts, runs and settles (the execution plane)
- :mod:`~pipecat_async_tools.batches` gathers what is told together
- :mod:`~pipecat_async_tools.store` remembers (the coordination plane)
- :mod:`~pipecat_async_tools.delivery` decides when an update is heard, and whether it was (the
  interaction plane; the only one that may make a sound)
- :mod:`~pipecat_async_tools.testing` plays whole calls in virtual time
"""

from importlib.metadata import version

from pipecat_async_tools.async_tools import AsyncTools
from pipecat_async_tools.batches.batch import BatchPolicy
from pipecat_async_tools.delivery.clocks import ChannelState, ClockParams
from pipecat_async_tools.delivery.envelope import Envelope
from pipecat_async_tools.delivery.marks import CarrierMarks, MarkingSerializer
from pipecat_async_tools.delivery.phrases import Phrases
from pipecat_async_tools.delivery.policy import (
    AttachToNextResponse,
    DeliverNow,
    DeliveryDecision,
    DeliveryPolicy,
    QueueAfterPlayback,
    QueueUntilQuiet,
    SuppressAndPersist,
)
from pipecat_async_tools.delivery.wording import Wording
from pipecat_async_tools.errors import (
    AsyncToolsError,
    ConfigurationError,
    IllegalTransitionError,
    StoreError,
    ToolDefinitionError,
)
from pipecat_async_tools.events import Event
from pipecat_async_tools.operations.executors.base import Executor
from pipecat_async_tools.operations.executors.local import LocalExecutor
from pipecat_async_tools.operations.operation import Operation, OperationStatus
from pipecat_async_tools.operations.outcome import OutcomeClass, ToolError
from pipecat_async_tools.operations.policy import OperationPolicy
from pipecat_async_tools.operations.retry import Retry
from pipecat_async_tools.operations.telling_options import TellingOptions
from pipecat_async_tools.operations.tool import OperationContext, async_tool
from pipecat_async_tools.operations.worker import Worker
from pipecat_async_tools.snapshot import BatchSnapshot, SessionSnapshot, session_view
from pipecat_async_tools.store.base import Store
from pipecat_async_tools.store.rows import DeadLetter, DeliveryRow, TellingRecord
from pipecat_async_tools.store.url import store_from_url

__version__ = version("pipecat-async-tools")

__all__ = [
    "AsyncTools",
    "AsyncToolsError",
    "AttachToNextResponse",
    "BatchPolicy",
    "BatchSnapshot",
    "CarrierMarks",
    "ChannelState",
    "ClockParams",
    "ConfigurationError",
    "DeadLetter",
    "DeliverNow",
    "DeliveryDecision",
    "DeliveryPolicy",
    "DeliveryRow",
    "Envelope",
    "Event",
    "Executor",
    "IllegalTransitionError",
    "LocalExecutor",
    "MarkingSerializer",
    "Operation",
    "OperationContext",
    "OperationPolicy",
    "OperationStatus",
    "OutcomeClass",
    "Phrases",
    "QueueAfterPlayback",
    "QueueUntilQuiet",
    "Retry",
    "SessionSnapshot",
    "Store",
    "StoreError",
    "SuppressAndPersist",
    "TellingOptions",
    "TellingRecord",
    "ToolDefinitionError",
    "ToolError",
    "Wording",
    "Worker",
    "__version__",
    "async_tool",
    "session_view",
    "store_from_url",
]
