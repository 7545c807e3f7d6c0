# SPDX-License-Identifier: BSD-2-Clause
"""The stores that need no server keep the contract in virtual time."""

import inspect

import pytest

from pipecat_async_tools import MemoryStore
from pipecat_async_tools.testing import virtual_time
from tests.store.contract import StoreContract

FACTORIES = {"memory": MemoryStore}


class TestMemoryStore(StoreContract):
    @pytest.fixture(params=FACTORIES.values(), ids=FACTORIES.keys())
    def store(self, request):
        return request.param


# The promises are written for any event loop; these run on a virtual one.
for _name, _promise in inspect.getmembers(StoreContract, inspect.iscoroutinefunction):
    setattr(TestMemoryStore, _name, virtual_time(_promise))
