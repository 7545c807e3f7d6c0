# SPDX-License-Identifier: BSD-2-Clause
"""Whether the demo call came out as it should, judged from the recording and from what the services saw."""

from dataclasses import dataclass
from typing import NamedTuple

from bots.inprocess import Span, utterances

MAX_BARGE_IN_SECS = 0.8
"""The longest that the bot may be heard after the caller began to speak over it."""


class Check(NamedTuple):
    """One thing that had to come out, and whether it did.

    Parameters:
        name: What had to come out.
        passed: Whether it did.
        detail: The facts.
    """

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class CallFacts:
    """What is known of a call that is over; times are seconds on the line.

    Parameters:
        caller: The caller's side of the recording.
        bot: The bot's side.
        accepted: Names of the operations accepted.
        answered: When the back office gave each of them a good answer.
        heard: Every utterance of the bot, as its history has it.
        update: The sentences that the update must hold.
        deliveries: States of the plug-in's deliveries; None in a plain call.
    """

    caller: bytes
    bot: bytes
    accepted: list[str]
    answered: list[float | None]
    heard: list[str]
    update: tuple[str, ...]
    deliveries: list[str] | None


def overlap(one: Span, other: Span) -> float:
    """For how many seconds two spans overlap."""
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def barge_in_to_silence(caller: bytes, bot: bytes) -> float | None:
    """How long the bot was still heard after the caller began to speak over it.

    Args:
        caller: The caller's side of the recording.
        bot: The bot's side.

    Returns:
        Seconds, or None when nobody spoke over anybody.
    """
    over = [
        said[1] - began
        for began, _ in utterances(caller)
        for said in utterances(bot)
        if said[0] < began < said[1]
    ]
    return over[0] if over else None


def judge(facts: CallFacts) -> list[Check]:
    """Judge a call.

    Args:
        facts: What is known of it.

    Returns:
        All that had to come out.
    """
    caller, bot = utterances(facts.caller), utterances(facts.bot)
    if len(caller) != 3:
        return [Check("the caller said all three things", False, f"{len(caller)} heard")]
    asked, barged, thanked = caller
    answers = [at for at in facts.answered if at is not None]
    finished = max(answers, default=thanked[0])
    acknowledgements = [said for said in bot if asked[1] <= said[0] < barged[0]]
    updates = [said for said in bot if finished <= said[0] < thanked[0]]
    stop_secs = barge_in_to_silence(facts.caller, facts.bot)
    told = " ".join(facts.heard)
    update_overlap = sum(overlap(update, said) for update in updates for said in caller)
    checks = [
        Check("two operations were accepted", len(facts.accepted) == 2, ", ".join(facts.accepted)),
        Check("with one acknowledgement", len(acknowledgements) == 1, f"{len(acknowledgements)} utterances"),
        Check(
            "the barge-in stopped the bot",
            stop_secs is not None and stop_secs <= MAX_BARGE_IN_SECS,
            "nobody was interrupted" if stop_secs is None else f"silent after {stop_secs * 1000:.0f} ms",
        ),
        Check(
            "both operations finished afterwards",
            len(answers) == 2 and min(answers) > barged[0],
            ", ".join(f"at {at:.2f}" for at in answers),
        ),
        Check("one update was told", len(updates) == 1, f"{len(updates)} utterances"),
        Check(
            "it holds both results, each once",
            all(told.count(sentence) == 1 for sentence in facts.update),
            " ".join(sentence for sentence in facts.update if sentence in told),
        ),
        Check("and does not overlap the caller", not update_overlap, f"{update_overlap * 1000:.0f} ms"),
    ]
    if facts.deliveries is not None:
        spoken = facts.deliveries == ["spoken"]
        checks.append(Check("one delivery is on record, as spoken", spoken, ", ".join(facts.deliveries)))
    return checks
