# SPDX-License-Identifier: BSD-2-Clause
"""A ledger with all it needs, and what it told whoever listens."""

import asyncio

from pipecat_async_tools import LocalExecutor, MemoryStore, StoreError, async_tool
from pipecat_async_tools.operations.ledger import OperationLedger
from pipecat_async_tools.operations.tool import spec_of
from tests.builders import Notebook, operation


def now():
    return asyncio.get_running_loop().time()


class Books:
    """A ledger whose only tool is the handler given."""

    def __init__(self, handler=None, *, store=None, executor=None):
        async def nothing(op):
            return "done"

        self.handler = handler or nothing
        self.store = store or MemoryStore()
        self.executor = executor or LocalExecutor()
        self.notebook = Notebook()
        self.settled, self.corrected, self.progressed = [], [], []
        async_tool()(self.handler)
        self.ledger = OperationLedger(
            store=self.store,
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
        return await self.ledger.accept(operation(tool="tool", **fields))

    def last(self, accepted):
        """The ledger's copy; what the store says must be the same."""
        copy = self.ledger.get(accepted.operation_id)
        stored = self.store._operations.get(accepted.operation_id)
        assert copy == stored
        return copy

    @property
    def ends(self):
        return [(at, str(operation.status)) for at, operation in self.settled]


class FailingStore(MemoryStore):
    """A store that raises, or hangs, as often as it is told to."""

    def __init__(self):
        super().__init__()
        self.failures = {}
        self.hangs = {}
        self.delays = {}

    async def _go(self, name):
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            raise StoreError(f"{name}: the disk is full")
        if self.hangs.get(name, 0) > 0:
            self.hangs[name] -= 1
            await asyncio.Event().wait()

    async def accept(self, operation):
        await self._go("accept")
        return await super().accept(operation)

    async def claim(self, operation_id):
        await self._go("claim")
        claim = await super().claim(operation_id)
        await asyncio.sleep(self.delays.get("claim", 0))
        return claim

    async def record_progress(self, operation_id, progress):
        await self._go("record_progress")
        recorded = await super().record_progress(operation_id, progress)
        await asyncio.sleep(self.delays.get("record_progress", 0))
        return recorded

    async def finish(self, operation_id, outcome, *, fence=None):
        await self._go("finish")
        return await super().finish(operation_id, outcome, fence=fence)

    async def correct(self, operation_id, outcome):
        await self._go("correct")
        return await super().correct(operation_id, outcome)
