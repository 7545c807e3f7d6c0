# SPDX-License-Identifier: BSD-2-Clause
"""Whatever three owners do in whatever order, every store does what the model does."""

import itertools
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.servers import POSTGRES
from tests.store.databases import FrozenClock
from tests.store.machine import StoreMachine

STEPS = 50


def interleave(machine: type[StoreMachine], examples: int, steps: int) -> Counter[str]:
    """Run a machine; return how many steps of each kind were really done."""
    machine.steps, machine.seen = Counter(), Counter()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=bool(os.environ.get("CI")),
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    return machine.steps


def test_sqlite_does_what_the_model_does(monkeypatch, tmp_path):
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        numbers = itertools.count()
        moment = FrozenClock()
        monkeypatch.setattr(time, "time", moment.now)

        class Machine(StoreMachine):
            urls = staticmethod(lambda: f"sqlite:///{folder}/{next(numbers)}.db")
            clock = moment
            times = (0.0, 5.0, 1000.0)

        done = interleave(Machine, 230, STEPS)
    assert sum(done.values()) >= 10_000
    assert len(done) == 19
    # It came as far as the rarest things that are told.
    assert Machine.seen["on_delivery_spoken"] >= 10
    assert Machine.seen["on_operation_corrected"] >= 10
    assert Machine.seen["on_operation_replayed"] >= 10


def test_postgresql_does_what_the_model_does(postgres_url):
    schema = postgres_url.rpartition("schema=")[2]

    class Machine(StoreMachine):
        @staticmethod
        def urls() -> str:
            with psycopg.connect(POSTGRES, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            return f"{postgres_url}&options=-csynchronous_commit%3Doff"

    assert sum(interleave(Machine, 15, 30).values()) >= 200


def test_redis_does_what_the_model_does(redis_url):
    numbers = itertools.count()

    class Machine(StoreMachine):
        urls = staticmethod(lambda: f"{redis_url}{next(numbers)}")

    assert sum(interleave(Machine, 15, 30).values()) >= 200
