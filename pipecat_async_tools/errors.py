# SPDX-License-Identifier: BSD-2-Clause
"""What this package raises, and nothing else.

A tool that fails never raises into the call: its failure is an outcome, told to the caller.
These are for the programmer::

    AsyncToolsError
    ├── ToolDefinitionError    @async_tool was given something it cannot run
    ├── ConfigurationError     an argument of AsyncTools or of a parameter model is wrong
    ├── IllegalTransitionError an operation was moved to a status it cannot reach
    └── StoreError             the store did not do what it was asked
"""

from __future__ import annotations


class AsyncToolsError(Exception):
    """Base of everything this package raises."""


class ToolDefinitionError(AsyncToolsError, TypeError):
    """A function decorated with ``@async_tool`` cannot be a tool; the message names the argument."""


class ConfigurationError(AsyncToolsError, ValueError):
    """An argument has a value it cannot have; the message names it and says what to pass."""


class IllegalTransitionError(AsyncToolsError):
    """An operation was asked to leave a terminal status, or to skip one."""


class StoreError(AsyncToolsError):
    """The store is unreachable, too slow, or refused to write."""
