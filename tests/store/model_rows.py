# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the model of a store: no more of each than decides what happens to it."""

from __future__ import annotations

from dataclasses import dataclass, field

NOT_SETTLED = ("accepted", "running")
OPEN = ("pending", "telling")

Line = tuple[str, str, str]
"""An event: its name, what it is about, and the reason where one is promised."""


@dataclass
class ModelOperation:
    """An operation."""

    name: str
    session: str
    batch: str
    key: str
    window: float
    idempotent: bool
    adopted: bool
    effect: str
    accepted_at: float
    timeout: float
    status: str = "accepted"
    owner: str | None = None
    fence: int = 0
    attempts: int = 0
    replays: int = 0
    settled_at: float | None = None
    held_by: str | None = None
    letters: int = 0

    @property
    def settled(self) -> bool:
        return self.status not in NOT_SETTLED


@dataclass
class ModelBatch:
    """A batch."""

    name: str
    session: str
    owner: str
    expected: set[str]
    closed: bool = False
    native: bool = False


@dataclass
class ModelDelivery:
    """A delivery."""

    name: str
    session: str
    batch: str
    operations: list[str]
    since: float
    state: str = "pending"
    correction: bool = False
    telling: str | None = None
    tellings: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    letters: int = 0


@dataclass
class ModelSession:
    """Who holds a session."""

    owner: str | None = None
    fence: int = 0
    released_at: float | None = None
