# SPDX-License-Identifier: BSD-2-Clause
"""The moments at which a process is killed. A test sees to it that these are all that it passes."""


def around(*transitions: str) -> list[str]:
    """Right before a transition, and right after it."""
    return [
        f"{name} {side} #{number}"
        for name, number in (t.rsplit(" ", 1) for t in transitions)
        for side in ("before", "after")
    ]


_EFFECTS = [f"{what} {side} its effect #1" for what in ("booking", "payment") for side in ("before", "after")]
_TELLING = ["telling starts #1", "playback ended #1", *around("claim_telling 1", "settle_telling 1")]
_RUN = around("claim 1", "claim 2", "record_attempt 1", "record_progress 1", "finish 1", "finish 2")
_ALIVE = around("renew 1", "renew 2", "recover 1")
_SESSION = around("hold_session 1", "release_session 1")
_ACCEPT = around("accept 1", "accept 2")

BOT = [*_ALIVE, *_SESSION, *_ACCEPT, *_RUN, *_EFFECTS, *_TELLING]
"""A bot that accepts, runs and tells."""

WORKER = [*_ALIVE, *_RUN, *_EFFECTS]
"""A worker that runs what a bot accepted."""

RETURN = [
    *_ALIVE,
    *_SESSION,
    *_TELLING,
    *_ACCEPT,
    *around("append 1", "dismiss 1", "dismiss 2", "answer_natively 1"),
]
"""A bot whose caller is back, is told what is owed, and asks for the same again."""

ON_REDIS = [
    ("bot", "accept after #1"),
    ("bot", "claim after #2"),
    ("bot", "booking after its effect #1"),
    ("bot", "finish before #2"),
    ("bot", "finish after #2"),
    ("bot", "telling starts #1"),
    ("bot", "settle_telling before #1"),
    ("worker", "record_attempt after #1"),
    ("worker", "finish before #1"),
    ("return", "playback ended #1"),
]
"""A spot check."""
