# SPDX-License-Identifier: BSD-2-Clause
"""A ledger with all it needs, and what it told whoever listens."""

import asyncio

from pipecat_async_tools import LocalExecutor, async_tool
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.tool import spec_of
from tests.builders import Notebook, operation
from tests.stores import memory_store


def now():
    return asyncio.get_running_loop().time()


class Books:
    """A ledger whose only tool is the handler given."""

    def __init__(self, handler=None, *, store=None, executor=None, idempotent=False):
        async def nothing(op):
            return "done"

        self.handler = handler or nothing
        self.store = store or memory_store()
        self.executor = executor or LocalExecutor()
        self.notebook = Notebook()
        self.settled, self.corrected, self.progressed = [], [], []
        async_tool(idempotent=idempotent)(self.handler)
        self.ledger = OperationLedger(
            store=self.store,
            owner="owner",
            executor=self.executor,
            tools={"tool": spec_of(self.handler)},
            journal=self.notebook.journal,
        )
        self.ledger.listen(self)

    def operation_settled(self, operation):
        self.settled.append((round(now(), 3), operation))

    def operation_corrected(self, operation):
        self.corrected.append((round(now(), 3), operation))

    def operation_progressed(self, operation):
        self.progressed.append(operation.progress)

    async def accept(self, **fields):
        (accepted,) = await self.ledger.accept([operation(tool="tool", **fields)])
        return accepted.operation

    async def last(self, accepted):
        """The ledger's copy; what the store says must be the same."""
        copy = self.ledger.get(accepted.operation_id)
        stored = await self.store.operation(accepted.operation_id)
        assert copy == stored
        return copy

    @property
    def ends(self):
        return [(at, str(operation.status)) for at, operation in self.settled]
