# SPDX-License-Identifier: BSD-2-Clause
"""Three owners who do whatever they like to one database, each step held against the model."""

import asyncio
from collections import Counter
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pipecat_async_tools.errors import StoreError
from pipecat_async_tools.store.url import store_from_url
from tests.builders import operation
from tests.store.builders import BUSY, OUTCOMES, end
from tests.store.databases import FrozenClock
from tests.store.model import Model
from tests.store.model_rows import ModelDelivery, ModelOperation
from tests.store.truth import check_log, check_rows, line_of

OWNERS = ("a", "b", "c")
SESSIONS = ("room", "hall")
CALLS = ("call-1", "call-2", "call-3")
ENDS = [
    ("spoken", "completed"),
    ("pending", "interrupted"),
    ("pending", "withdrawn"),
    ("pending", "unheard"),
    ("undeliverable", "lost"),
]
FATES = {**OUTCOMES, "busy": BUSY}
DEAD = ("timed_out", "unknown", "busy")

picks = st.integers(0, 30)
owners = st.integers(0, 2)
sessions = st.sampled_from(SESSIONS)
batches = st.sampled_from([f"{session}-{n}" for session in SESSIONS for n in range(2)])


def weighted(*most):
    """One of some values, the first ones more often."""
    return st.sampled_from([value for place, value in enumerate(most) for _ in range(len(most) - place)])


def known(kind: str):
    """Only when the model has some of these."""
    return precondition(lambda machine: bool(getattr(machine.model, kind)))


class StoreMachine(RuleBasedStateMachine):
    """The rules; ``urls`` makes a new database, whose time passes by itself if there is no clock."""

    urls: ClassVar = None
    clock: ClassVar[FrozenClock | None] = None
    times: ClassVar = (0.0, 1000.0)
    steps: ClassVar[Counter] = Counter()
    seen: ClassVar[Counter] = Counter()

    def __init__(self):
        super().__init__()
        self.model = Model()
        self.runner = asyncio.Runner()
        url = type(self).urls()
        self.stores = [store_from_url(url) for _ in OWNERS]
        self.model.now = self.clock.now() if self.clock is not None else 0.0
        self.position: str | None = None
        self.tellings: dict[str, list[str]] = {}
        self.fences: dict[str, int] = {}
        self.count = 0

    def teardown(self):
        async def finish() -> None:
            try:
                await check_rows(self.stores[0], self.model, SESSIONS)
                check_log([line.event for line in await self.stores[1].events(limit=100_000)])
            finally:
                await asyncio.gather(*(store.close() for store in self.stores))

        with self.runner:
            self.runner.run(finish())

    def do(self, who: int, name: str, *args, **kwargs):
        """Call a store as one owner; return its answer, or the error it answered with."""
        type(self).steps[name] += 1
        self.count += 1
        if self.clock is None:
            self.model.now += 0.001
        else:
            self.model.now = self.clock.now()
        self.model.lines.clear()
        try:
            return self.runner.run(getattr(self.stores[who], name)(*args, **kwargs))
        except StoreError as e:
            return e

    def check(self, answer, expected) -> None:
        """The answer and what was logged are as the model says, and now and then all the rows."""
        assert answer == expected
        reader = self.stores[self.count % 3]
        logged = self.runner.run(reader.events(after=self.position, limit=1000))
        self.position = logged[-1].position if logged else self.position
        self.seen.update(line.event.name for line in logged)
        assert sorted(line_of(line.event) for line in logged) == sorted(self.model.lines)
        if self.count % 20 == 0:
            self.runner.run(check_rows(reader, self.model, SESSIONS))

    def pick(self, kind: str, pick: int):
        """One of the rows the model has; of every other pick, one that is still to be seen to."""
        rows = getattr(self.model, kind)
        names = [name for name, row in rows.items() if pick % 2 == 0 and _is_open(row)] or list(rows)
        return names[-1 - pick // 2 % len(names)]

    def secs(self, pick: int) -> float:
        """Some seconds, most often the longest."""
        return self.times[0 if pick % 7 == 6 else 1 % len(self.times) if pick % 7 == 5 else -1]

    @initialize()
    def begin(self):
        for who in range(len(OWNERS)):
            self.do_renew(who, self.times[-1])

    # Operations and batches

    @rule(
        who=owners,
        batch=batches,
        call=st.sampled_from(CALLS),
        expected=weighted((), (), CALLS[:2], CALLS),
        keys=st.lists(weighted("", "k1", "k2"), min_size=1, max_size=2),
        mode=st.sampled_from(["join", "join", "reject", "replace"]),
        flags=st.tuples(st.booleans(), st.sampled_from([False, False, False, True])),
        secs=st.tuples(picks, picks),
    )
    def accept(self, who, batch, call, expected, keys, mode, flags, secs):
        session = batch.partition("-")[0]
        window, timeout = map(self.secs, secs)
        given, mine = [], []
        for key in keys:
            new = operation(
                session_id=session,
                batch_id=batch,
                tool_call_id=call,
                intent_key=key,
                intent_window_secs=window,
                idempotent=flags[0],
                adopted=flags[1],
                timeout_secs=timeout,
            )
            given.append(new)
            mine.append(
                ModelOperation(
                    new.operation_id, session, batch, key, window, *flags, new.idempotency_key, 0.0, timeout
                )
            )
        answers = self.do(who, "accept", given, owner=OWNERS[who], expected=expected, on_duplicate=mode)
        # After the call, since its time is the model's.
        wanted = self.model.accept(mine, call, OWNERS[who], expected, mode)
        self.check([(a.operation.operation_id, a.duplicate) for a in answers], wanted)

    @known("operations")
    @rule(who=owners, pick=picks)
    def claim(self, who, pick):
        self.do_claim(who, self.pick("operations", pick))

    def do_claim(self, who, name):
        claim = self.do(who, "claim", name, owner=OWNERS[who])
        fence = None if claim is None else claim.fence
        if fence is not None:
            assert fence > self.fences.get(name, 0)
            self.fences[name] = fence
        self.check(fence, self.model.claim(name, OWNERS[who]))

    @known("operations")
    @rule(who=owners, session=sessions, fate=weighted("timed_out", "succeeded", "busy", "unknown"))
    def finish_all(self, who, session, fate):
        for name, mine in list(self.model.operations.items()):
            if mine.session == session and not mine.settled:
                self.do_claim(who, name)
                self.do_finish(who, name, fate, mine.fence or None)

    @known("operations")
    @rule(who=owners)
    def finish_late(self, who):
        late = [name for name, mine in self.model.operations.items() if mine.status in DEAD]
        late.sort(key=lambda name: self.model.operations[name].held_by is not None)
        for name in late[-1:]:
            self.do_finish(who, name, "succeeded", None)

    @known("operations")
    @rule(who=owners, pick=picks, stale=st.booleans())
    def record_attempt(self, who, pick, stale):
        name = self.pick("operations", pick)
        mine = self.model.operations[name]
        fence = mine.fence - (stale or mine.status == "accepted")
        answer = self.do(
            who, "record_attempt", name, fence=fence, wait_secs=1.0, outcome=BUSY, http_status=429
        )
        attempts = None if answer is None else answer.attempts
        self.check(attempts, self.model.attempt(name, fence, "rate_limited"))

    @known("operations")
    @rule(who=owners, pick=picks)
    def record_progress(self, who, pick):
        name = self.pick("operations", pick)
        answer = self.do(who, "record_progress", name, "half")
        self.check(answer is not None, self.model.progress(name))

    @known("operations")
    @rule(
        who=owners,
        pick=picks,
        fate=st.sampled_from(["succeeded", "timed_out", "timed_out", *FATES]),
        fence=st.sampled_from(["none", "mine", "mine", "old"]),
        silent=st.booleans(),
    )
    def finish(self, who, pick, fate, fence, silent):
        name = self.pick("operations", pick)
        present = self.model.operations[name].fence
        under = None if fence == "none" or not present else present - (fence == "old")
        self.do_finish(who, name, fate, under, silent)

    def do_finish(self, who, name, fate, under, silent=False):
        answer = self.do(who, "finish", name, FATES[fate], fence=under, silent=silent)
        status = str(FATES[fate].status)
        self.check(answer is not None, self.model.finish(name, status, under, dead=fate in DEAD))

    @rule(who=owners, batch=batches, calls=st.sets(st.sampled_from(CALLS), min_size=1))
    @known("batches")
    def dismiss(self, who, batch, calls):
        before = set(self.model.deliveries)
        answer = self.do(who, "dismiss", batch, sorted(calls))
        self.model.dismiss(batch, calls)
        made = set(self.model.deliveries) - before
        self.check(set() if answer is None else {answer.delivery_id}, made)

    @rule(who=owners, batch=batches)
    @known("batches")
    def deliver_part(self, who, batch):
        before = set(self.model.deliveries)
        answer = self.do(who, "deliver_part", batch)
        self.model.deliver_part(batch)
        made = set(self.model.deliveries) - before
        self.check(set() if answer is None else {answer.delivery_id}, made)

    @known("batches")
    @rule(who=owners, batch=batches, really=weighted(False, False, True))
    def answer_natively(self, who, batch, really):
        # Not as often as the rest: it leaves nothing to tell.
        batch = batch if really else "nowhere"
        self.do(who, "answer_natively", batch)
        self.model.answer_natively(batch)
        self.check(None, None)

    @known("operations")
    @rule(who=owners)
    def recover(self, who):
        answer = self.do(who, "recover", 1000)
        again = {operation.operation_id for operation in answer.accepted}
        settled = {finished.operation.operation_id for finished in answer.finished}
        self.check((again, settled), self.model.recover())

    # Owners, sessions, tellings

    @known("operations")
    @rule(who=owners, pick=picks)
    def renew(self, who, pick):
        self.do_renew(who, self.secs(pick))

    def do_renew(self, who, secs):
        self.do(who, "renew", OWNERS[who], secs)
        self.model.leases[OWNERS[who]] = self.model.now + secs
        self.check(None, None)

    @known("operations")
    @rule(who=owners, session=sessions)
    def hold_session(self, who, session):
        self.do_hold(who, session)

    def do_hold(self, who, session):
        answer = self.do(who, "hold_session", session, owner=OWNERS[who])
        if not self.model.alive(OWNERS[who]):
            self.check(isinstance(answer, StoreError), True)
            return
        if answer is not None:
            assert answer >= self.fences.get(session, 1)
            self.fences[session] = answer
        self.check(answer, self.model.hold(session, OWNERS[who]))

    @known("sessions")
    @rule(who=owners, session=sessions)
    def release_session(self, who, session):
        self.do(who, "release_session", session, owner=OWNERS[who])
        self.model.release(session, OWNERS[who])
        self.check(None, None)

    def fence(self, session: str, stale: bool) -> int:
        held = self.model.sessions.get(session)
        return (held.fence if held else 1) - stale

    @known("deliveries")
    @rule(who=owners, some=st.lists(picks, min_size=1, max_size=3), stale=st.booleans())
    def claim_telling(self, who, some, stale):
        names = list(dict.fromkeys(self.pick("deliveries", pick) for pick in some))
        self.do_claim_telling(who, self.model.deliveries[names[0]].session, names, stale)

    def do_claim_telling(self, who, session, names, stale=False):
        fence, telling = self.fence(session, stale), f"telling-{len(self.tellings)}"
        self.tellings[telling] = names
        answer = self.do(who, "claim_telling", session, names, telling, fence=fence)
        self.check(list(answer), self.model.claim_telling(session, names, telling, fence))

    @known("deliveries")
    @rule(who=owners, session=sessions, how=weighted(0, 0, None, *range(1, len(ENDS))))
    def tell_all(self, who, session, how):
        self.do_renew(who, self.times[-1])
        self.do_hold(who, session)
        open_ones = [
            n for n, row in self.model.deliveries.items() if row.session == session and _is_open(row)
        ]
        self.do_claim_telling(who, session, open_ones)
        if how is not None:
            self.do_settle_telling(who, list(self.tellings)[-1], how)

    @precondition(lambda self: bool(self.tellings))
    @rule(who=owners, pick=picks, how=weighted(*range(len(ENDS))))
    def settle_telling(self, who, pick, how):
        self.do_settle_telling(who, list(self.tellings)[-1 - pick // 8 % len(self.tellings)], how)

    def do_settle_telling(self, who, telling, how):
        ways = [ENDS[(how + place) % len(ENDS)] for place in range(len(self.tellings[telling]))]
        ends = [(name, *way) for name, way in zip(self.tellings[telling], ways)]
        told = [end(name, state, outcome, telling_id=telling) for name, state, outcome in ends]
        answer = self.do(who, "settle_telling", telling, told)
        self.check(list(answer), self.model.settle_telling(telling, ends))

    @known("deliveries")
    @rule(who=owners, pick=picks, stale=st.booleans())
    def suppress(self, who, pick, stale):
        name = self.pick("deliveries", pick)
        session = self.model.deliveries[name].session
        fence = self.fence(session, stale)
        answer = self.do(who, "suppress", session, name, "stale", fence=fence)
        self.check(answer, self.model.suppress(session, name, fence))

    @known("deliveries")
    @rule(who=owners, pick=picks)
    def give_up_deliveries(self, who, pick):
        secs = self.secs(pick)
        answer = self.do(who, "give_up_deliveries", secs)
        self.check({row.delivery_id for row in answer}, self.model.give_up(secs))

    # Dead letters, time, and cleaning

    @known("letters")
    @rule(who=owners, pick=picks)
    def replay(self, who, pick):
        letter = self.pick("letters", pick)
        answer = self.do(who, "replay", letter)
        self.check(not isinstance(answer, StoreError), self.model.replay(letter))

    @known("letters")
    @rule(who=owners, pick=picks)
    def close_dead_letter(self, who, pick):
        letter = self.pick("letters", pick)
        answer = self.do(who, "close_dead_letter", letter, "seen to")
        self.check(not isinstance(answer, StoreError), self.model.close(letter, "seen to"))

    @known("operations")
    @rule(who=owners, secs=st.sampled_from([1.0, 2.0, 5.0, 10.0]))
    def time_passes_and_prune(self, who, secs):
        if self.clock is not None:
            self.clock.jump(secs)
        # Nothing is that old but the leases of the dead, which decide nothing any more.
        answer = self.do(who, "prune", 1e6)
        self.check(sum(answer.values()), 0)


def _is_open(row) -> bool:
    if isinstance(row, ModelOperation):
        return not row.settled
    return row.state in ("pending", "telling") if isinstance(row, ModelDelivery) else bool(row[1])
