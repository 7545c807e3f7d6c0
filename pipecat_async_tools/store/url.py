# SPDX-License-Identifier: BSD-2-Clause
"""The store that a URL names."""

from __future__ import annotations

import os

from pipecat_async_tools.errors import ConfigurationError
from pipecat_async_tools.store.base import Store

STORE_VARIABLE = "PIPECAT_ASYNC_TOOLS_STORE"
DEFAULT_STORE = "sqlite:///calls.db"


def open_to(store: Store | str | None) -> tuple[Store, bool]:
    """Return the store that an application named, and whether it is ours to close.

    Args:
        store: A store, its URL, or None for what the environment or else the default names.

    Raises:
        ConfigurationError: See :func:`store_from_url`.
    """
    if store is None:
        store = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    return (store_from_url(store), True) if isinstance(store, str) else (store, False)


def store_from_url(url: str) -> Store:
    """Return the store that a URL names; nothing is opened yet.

    Args:
        url: "sqlite:///calls.db", "postgresql://user:password@host/database" or "redis://host:6379/0".

    Raises:
        ConfigurationError: The URL names no store, or what the store needs is not installed.
    """
    scheme = url.partition(":")[0]
    # Each is imported where it is named: its client library is an extra.
    if scheme == "sqlite":
        from pipecat_async_tools.store.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(url)
    if scheme in ("postgresql", "postgres"):
        from pipecat_async_tools.store.postgres import PostgresStore  # noqa: PLC0415

        return PostgresStore(url)
    if scheme in ("redis", "rediss"):
        from pipecat_async_tools.store.redis import RedisStore  # noqa: PLC0415

        return RedisStore(url)
    raise ConfigurationError(
        f"store={scheme!r}: pass a URL that begins with sqlite:///, postgresql:// or redis://"
    )
