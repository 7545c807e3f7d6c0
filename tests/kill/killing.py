# SPDX-License-Identifier: BSD-2-Clause
"""Kills the process it runs in, at a named moment."""

import inspect
import os
import signal

from pipecat_async_tools.testing import VirtualTimeLoop

# Reading changes nothing, and how often the session is looked at depends on the machine.
_SILENT = {"now", "open", "close", "operation", "operations", "open_deliveries", "deliveries", "overdue"}
_OFTEN = {"renew": 2, "hold_session": 1, "recover": 1, "append": 1}


class Killer:
    """Counts the moments a process passes, and kills it at one of them.

    Args:
        at: The moment, such as "finish before #1"; None passes all.
    """

    def __init__(self, at: str | None):
        self._at = at
        self._counts: dict[str, int] = {}
        self.passed: list[str] = []

    def reach(self, moment: str) -> None:
        """Pass a moment, or die."""
        self._counts[moment] = self._counts.get(moment, 0) + 1
        name = f"{moment} #{self._counts[moment]}"
        self.passed.append(name)
        if name == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStore:
    """A store in whose every transition the process may die: right before it, or right after."""

    def __init__(self, store, killer: Killer):
        self._store = store
        self._killer = killer
        self._calls: dict[str, int] = {}

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args, **kwargs):
            # A server's answer comes over a socket: meanwhile virtual time must not run ahead.
            with VirtualTimeLoop.running().hold():
                return await method(*args, **kwargs)

        async def deadly(*args, **kwargs):
            self._calls[name] = self._calls.get(name, 0) + 1
            if self._calls[name] > _OFTEN.get(name, 1000):
                return await call(*args, **kwargs)
            self._killer.reach(f"{name} before")
            answer = await call(*args, **kwargs)
            self._killer.reach(f"{name} after")
            return answer

        return call if name in _SILENT else deadly
