# SPDX-License-Identifier: BSD-2-Clause
"""The one thread that works on an SQLite database; what waits for it together is committed together."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any

_TOGETHER = 64

Job = tuple[Callable[..., Any], "Future[Any]"]
WorkTogether = Callable[[list[Job]], None]


class CommitThread(Executor):
    """An executor whose only thread takes all the jobs that wait, at most so many, in one go.

    A disk makes one commit durable as fast as sixty: so callers at the same time share theirs.
    """

    def __init__(self, work: WorkTogether, *, end: Callable[[], None], name: str):
        """Initialize without a thread; the first job starts it.

        Args:
            work: Does some jobs and answers their futures; called on the thread.
            end: The last thing that the thread does.
            name: Of the thread.
        """
        self._work = work
        self._end = end
        self._name = name
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a job done on the thread."""
        future: Future[Any] = Future()
        with self._lock:
            if self._thread is None:
                self._jobs = SimpleQueue()
                self._thread = threading.Thread(
                    target=self._run, args=(self._jobs, self._ended), name=self._name, daemon=True
                )
                self._thread.start()
            self._jobs.put((functools.partial(fn, *args, **kwargs) if args or kwargs else fn, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the thread end behind the jobs that wait; a later job starts another one."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._ended = thread
                self._jobs.put(None)
        if wait and thread is not None:
            thread.join()

    def _run(self, jobs: SimpleQueue[Job | None], before: threading.Thread | None) -> None:
        if before is not None:
            # It may still have jobs to do, and what they work on is not for two.
            before.join()
        self._do_all(jobs)
        self._end()

    def _do_all(self, jobs: SimpleQueue[Job | None]) -> None:
        while (first := jobs.get()) is not None:
            together, over = [first], False
            while len(together) < _TOGETHER and not over:
                try:
                    job = jobs.get_nowait()
                except Empty:
                    break
                if job is None:
                    over = True
                else:
                    together.append(job)
            self._work([job for job in together if job[1].set_running_or_notify_cancel()])
            if over:
                return
