# SPDX-License-Identifier: BSD-2-Clause
"""What a new turn of the caller means for work that is still running. Users replace it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence

from loguru import logger

from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.operation import Operation


class OperationPolicy:
    """The default: whatever the caller says, work goes on. Override `reconcile_with_new_turn`."""

    def reconcile_with_new_turn(
        self, text: str, operations: Sequence[Operation]
    ) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Decide which running work the caller's new words make pointless; may be a coroutine.

        Args:
            text: What the caller said.
            operations: What is running.

        Returns:
            The ids of operations to cancel; nothing is told of them.
        """
        return ()


class Reconciler:
    """Asks the policy, and cancels what it names; nobody waits for either."""

    def __init__(self, *, policy: OperationPolicy, ledger: OperationLedger):
        """Initialize the reconciler.

        Args:
            policy: Decides.
            ledger: Keeps the operations.
        """
        self._policy = policy
        self._ledger = ledger

    async def caller_said(self, text: str) -> None:
        """Take in a turn of the caller."""
        running = self._ledger.running()
        if not running:
            return
        try:
            decision = self._policy.reconcile_with_new_turn(text, running)
            named = await decision if inspect.isawaitable(decision) else decision
        except Exception as e:
            # Its mistake must not stop what the caller asked for.
            logger.error(f"reconcile_with_new_turn raised {type(e).__name__}: {e}; the work goes on")
            return
        for operation_id in named:
            if not await self._ledger.cancel(operation_id, silent=True):
                logger.warning(f"reconcile_with_new_turn named {operation_id}, which is not running")
