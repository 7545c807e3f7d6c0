# SPDX-License-Identifier: BSD-2-Clause
"""The conversations of the test suite through plain Pipecat and through the package, side by side.

    python -m benchmarks.versus_native

Every conversation is played at every moment around its race, in virtual time. What was told is judged by
ear: from the audio that the far end heard, with the same code for every door. The model is the same, too. It
is attentive: it does what Pipecat's instruction for late results asks for, and tells every result in its
context that the caller was not told, at the end of its next reply. The second table repeats the totals with
a model that overlooks results which stand before the caller's last words; real models are in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import mean

from loguru import logger

from pipecat_async_tools.testing import run_virtual
from tests.conversations import changes, conflicts, field
from tests.conversations.judging import Verdict, decisive_moment, heard_by, judge
from tests.conversations.script import CONVERSATIONS, Conversation, Door, Performance, play

DOORS = (Door.PLAIN, Door.ADOPTED, Door.ASYNC_TOOL)
NAMES = {Door.PLAIN: "Pipecat alone", Door.ADOPTED: "adopted", Door.ASYNC_TOOL: "@async_tool"}
FILES = (conflicts, changes, field)
NOT_PLAIN = (
    "C6, D6b and D6c have no counterpart in Pipecat alone, which can neither stop a single call nor let one "
    "go on after its deadline; D6a and D9b are about native functions only. C8 kills real processes: "
    "`tests/restart` and `tests/kill`. D10 and D11 are about frames and histories, and checked after each."
)


@dataclass(frozen=True)
class Row:
    """What came of one conversation, or of all, through one door."""

    runs: int
    once: int
    lost: int
    doubled: int
    late: int
    stale: int
    talked_over: int
    model_runs: float
    after_secs: float | None

    def cells(self) -> list[str]:
        """The numbers as the table shows them, in the order of the headings."""
        after = "-" if self.after_secs is None else f"{self.after_secs:.1f}"
        wrong = {
            "lost": self.lost,
            "doubled": self.doubled,
            "late": self.late,
            "told though stale": self.stale,
            "over the caller": self.talked_over,
        }
        faults = ", ".join(f"**{number} {name}**" for name, number in wrong.items() if number)
        return [f"{self.once} of {self.runs}", faults, f"{self.model_runs:.1f}", after]


HEADINGS = ["told once", "else", "model runs", "after, s"]
NOT_APPLICABLE = ["n/a", *[""] * (len(HEADINGS) - 1)]


@dataclass(frozen=True)
class Result:
    """One performance, judged."""

    verdict: Verdict
    model_runs: int
    after_secs: float | None

    @classmethod
    def of(cls, performance: Performance) -> Result:
        """Judge a performance."""
        timeline, verdict = performance.timeline, judge(performance)
        told = [heard_by(timeline, f) for f in performance.facts if f not in verdict.lost]
        after = max(told) - decisive_moment(timeline) if told and not verdict.lost else None
        return cls(verdict, len(timeline.model_runs), after)


def row(results: Sequence[Result]) -> Row:
    """Count what came of some performances; one that is both lost and doubled counts as lost."""

    def count(is_so: Callable[[Verdict], object]) -> int:
        return sum(bool(is_so(result.verdict)) for result in results)

    after = [result.after_secs for result in results if result.after_secs is not None]
    return Row(
        runs=len(results),
        once=count(lambda v: v.told_once),
        lost=count(lambda v: v.lost),
        doubled=count(lambda v: v.doubled and not v.lost),
        late=count(lambda v: v.late and not v.lost and not v.doubled),
        stale=count(lambda v: v.stale and not v.lost and not v.doubled),
        talked_over=count(lambda v: v.talked_over),
        model_runs=mean(result.model_runs for result in results),
        after_secs=mean(after) if after else None,
    )


def results(conversation_id: str, door: Door, attentive: bool) -> list[Result]:
    """Play a conversation through a door at every moment."""
    logger.remove()
    conversation = CONVERSATIONS[conversation_id]
    if door not in conversation.doors:
        return []
    return [
        Result.of(run_virtual(play(conversation, door, shift, attentive=attentive)))
        for shift in conversation.shifts
    ]


def table(lines: Iterable[tuple[str, Sequence[Sequence[Result]]]]) -> str:
    """A Markdown table with a line for each name and a group of columns for each door."""
    heads = [f"{NAMES[door]}: {h}" if h == HEADINGS[0] else h for door in DOORS for h in HEADINGS]
    rule = ["---", *["--:"] * len(heads)]
    rows = [["conversation", *heads], rule]
    for name, groups in lines:
        cells = [c for group in groups for c in (row(group).cells() if group else NOT_APPLICABLE)]
        rows.append([name, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def play_all(attentive: bool) -> dict[Conversation, list[list[Result]]]:
    """Play everything; each call has a clock of its own, so that processes change nothing."""
    with ProcessPoolExecutor() as processes:
        futures = {
            c: [processes.submit(results, c.id, door, attentive) for door in DOORS]
            for c in CONVERSATIONS.values()
        }
        return {c: [future.result() for future in group] for c, group in futures.items()}


def main() -> None:
    """Print both tables."""
    for attentive in (True, False):
        played = play_all(attentive)
        comparable = [groups for groups in played.values() if all(groups)]
        totals = [[r for groups in played.values() for r in groups[i]] for i in range(len(DOORS))]
        common = [[r for groups in comparable for r in groups[i]] for i in range(len(DOORS))]
        lines = [("**in all**", totals), ("**where every door applies**", common)]
        if attentive:
            lines = [*((f"{c.id} {c.title}", groups) for c, groups in played.items()), *lines]
        else:
            print("\nThe same with a model that overlooks results before the caller's last words:\n")
        print(table(lines))
    print(f"\n{NOT_PLAIN}")


if __name__ == "__main__":
    main()
