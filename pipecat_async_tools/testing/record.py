# SPDX-License-Identifier: BSD-2-Clause
"""What the package itself holds to be true about a call: the only place that reads its snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipecat_async_tools.testing.timeline import Telling


@dataclass(frozen=True)
class PackageRecord:
    """The package's own record of a call.

    Parameters:
        tellings: The tellings that made a sound, in order.
        operations: The operations.
        batches: The batches.
        deliveries: The deliveries.
    """

    tellings: list[Telling]
    operations: Sequence[Any]
    batches: Sequence[Any]
    deliveries: Sequence[Any]


def read_record(async_tools: Any, origin: float) -> PackageRecord:
    """Read the snapshot of an `AsyncTools`.

    Args:
        async_tools: The `AsyncTools`, or None for plain Pipecat.
        origin: The loop's time at the start of the call; times are counted from it.
    """
    if async_tools is None:
        return PackageRecord([], [], [], [])
    snapshot = async_tools.snapshot()
    tellings = [
        _telling(telling, delivery, origin)
        for delivery in snapshot.deliveries
        for telling in delivery.tellings
        if telling.started_at is not None
    ]
    return PackageRecord(
        tellings=sorted(tellings, key=lambda telling: telling.started_at),
        operations=snapshot.operations,
        batches=snapshot.batches,
        deliveries=snapshot.deliveries,
    )


def _telling(telling: Any, delivery: Any, origin: float) -> Telling:
    ended_at = telling.ended_at
    return Telling(
        started_at=telling.started_at - origin,
        heard=telling.heard,
        outcome=telling.outcome,
        ended_at=None if ended_at is None else ended_at - origin,
        telling_id=telling.telling_id,
        delivery=delivery,
    )
