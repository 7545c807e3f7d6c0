# SPDX-License-Identifier: BSD-2-Clause
"""What a store promises, as a few dictionaries: what the property test holds every store against."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tests.store.model_rows import (
    OPEN,
    Line,
    ModelBatch,
    ModelDelivery,
    ModelOperation,
    ModelSession,
)


class Model:
    """The transitions, one after the other; each writes down its events in ``lines``."""

    def __init__(self):
        self.now = 0.0
        self.leases: dict[str, float] = {}
        self.operations: dict[str, ModelOperation] = {}
        self.batches: dict[str, ModelBatch] = {}
        self.deliveries: dict[str, ModelDelivery] = {}
        self.sessions: dict[str, ModelSession] = {}
        self.letters: dict[str, tuple[str, bool]] = {}
        self.lines: list[Line] = []

    def say(self, name: str, about: str, reason: str = "") -> None:
        self.lines.append((name, about, reason))

    def alive(self, owner: str | None) -> bool:
        return owner is not None and self.leases.get(owner, self.now) > self.now

    # Operations

    def accept(
        self, new: Sequence[ModelOperation], call: str, owner: str, expected: Collection[str], mode: str
    ) -> list[tuple[str, str | None]]:
        """Accept; return the name of each, and why it is no new one."""
        first = new[0]
        if first.batch not in self.batches:
            self.batches[first.batch] = ModelBatch(first.batch, first.session, owner, set(expected))
            self.say("on_batch_opened", first.batch)
        batch = self.batches[first.batch]
        batch.expected.add(call)
        answers = [self._accept(operation, owner, mode) for operation in new]
        batch.closed &= all(duplicate for _, duplicate in answers)
        self._take_off(batch, {call})
        return answers

    def _accept(self, new: ModelOperation, owner: str, mode: str) -> tuple[str, str | None]:
        earlier = self._earlier(new)
        if earlier is not None and earlier.status == "timed_out":
            new.effect = earlier.effect
        elif earlier is not None and mode == "replace" and not earlier.settled:
            self._settle(earlier, "cancelled")
        elif earlier is not None:
            reason = "rejected" if mode == "reject" else "joined"
            self.say("on_operation_joined", earlier.name, reason)
            return earlier.name, reason
        self.operations[new.name] = new
        new.accepted_at = self.now
        self.say("on_operation_accepted", new.name)
        if new.adopted:
            new.status, new.owner, new.attempts = "running", owner, 1
            self.say("on_operation_started", new.name, "attempt 1")
        return new.name, None

    def _earlier(self, new: ModelOperation) -> ModelOperation | None:
        def rank(operation: ModelOperation) -> int:
            return 2 if not operation.settled else 0 if operation.status == "timed_out" else 1

        found = [
            o
            for o in self.operations.values()
            if (o.session, o.key, o.adopted, new.adopted) == (new.session, new.key, False, False)
            and o.key
            and (not o.settled or (o.status not in ("failed", "cancelled") and self._in_window(o)))
        ]
        return max(enumerate(found), key=lambda pair: (rank(pair[1]), pair[0]))[1] if found else None

    def _in_window(self, operation: ModelOperation) -> bool:
        return operation.settled_at is not None and self.now <= operation.settled_at + operation.window

    def claim(self, name: str, owner: str) -> int | None:
        operation = self.operations[name]
        if operation.status != "accepted" or self._late(operation):
            return None
        operation.status, operation.owner = "running", owner
        operation.fence += 1
        operation.attempts += 1
        self.say("on_operation_started", name, f"attempt {operation.attempts}")
        return operation.fence

    def _late(self, operation: ModelOperation) -> bool:
        return self.now >= operation.accepted_at + operation.timeout

    def attempt(self, name: str, fence: int, reason: str) -> int | None:
        operation = self.operations[name]
        if operation.settled or operation.fence != fence:
            return None
        operation.attempts += 1
        self.say("on_operation_attempted", name, reason)
        return operation.attempts

    def progress(self, name: str) -> bool:
        if not self.operations[name].settled:
            self.say("on_operation_progressed", name)
        return not self.operations[name].settled

    def finish(self, name: str, status: str, fence: int | None, *, dead: bool) -> bool:
        """Settle or correct; return whether anything came of it."""
        operation = self.operations[name]
        if operation.settled:
            if operation.status not in ("timed_out", "unknown") or status != "succeeded":
                return False
            self._correct(operation)
        elif fence is not None and fence != operation.fence:
            return False
        else:
            self._settle(operation, status, dead=dead)
        return True

    def _settle(self, operation: ModelOperation, status: str, *, dead: bool = False) -> None:
        operation.status, operation.settled_at = status, self.now
        self.say("on_operation_settled", operation.name, status)
        if dead:
            self._open_letter(operation)
        self._close_if_over(self.batches[operation.batch])

    def _correct(self, operation: ModelOperation) -> None:
        operation.status, operation.settled_at = "succeeded", self.now
        self.say("on_operation_corrected", operation.name)
        for letter, (subject, is_open) in list(self.letters.items()):
            if subject == operation.name and is_open:
                self._close_letter(letter, "succeeded after all")
        if operation.held_by is not None:
            self._tell_correction(self.deliveries[operation.held_by], operation)

    def _tell_correction(self, holder: ModelDelivery, operation: ModelOperation) -> None:
        if holder.state == "telling":
            holder.waiting.append(operation.name)
        elif holder.state != "pending":
            again = f"-{operation.replays}" if operation.replays else ""
            name = f"delivery-{operation.batch}-corrected-{operation.name}{again}"
            self._owe(name, [operation], correction=True, told=holder.state == "spoken")

    def recover(self) -> tuple[set[str], set[str]]:
        """Return what was accepted again, and what was settled."""
        again, settled = set(), set()
        for operation in list(self.operations.values()):
            late = self._late(operation)
            if operation.status == "running" and not self.alive(operation.owner):
                if operation.idempotent and not operation.adopted and not late:
                    operation.status, operation.owner = "accepted", None
                    self.say("on_operation_recovered", operation.name)
                    again.add(operation.name)
                    continue
                lost = operation.adopted or not operation.idempotent
                self._settle(operation, "unknown" if lost else "timed_out", dead=True)
            elif operation.status == "accepted" and late:
                self._settle(operation, "timed_out", dead=True)
            else:
                continue
            settled.add(operation.name)
        for batch in self.batches.values():
            if batch.expected and not self.alive(batch.owner):
                self._take_off(batch, set(batch.expected))
        return again, settled

    # Batches

    def dismiss(self, batch: str, calls: set[str]) -> None:
        if batch in self.batches:
            self._take_off(self.batches[batch], calls)

    def _take_off(self, batch: ModelBatch, calls: set[str]) -> None:
        batch.expected -= calls
        self._close_if_over(batch)

    def answer_natively(self, batch: str) -> None:
        if batch in self.batches:
            self.batches[batch].native = True
        for row in self.deliveries.values():
            if row.batch == batch and row.state == "pending":
                row.state = "suppressed"
                self.say("on_delivery_suppressed", row.name, "answered at once")

    def _close_if_over(self, batch: ModelBatch) -> None:
        members = [o for o in self.operations.values() if o.batch == batch.name]
        if batch.closed or batch.expected or not all(o.settled for o in members):
            return
        batch.closed = True
        self.say("on_batch_closed", batch.name)
        self._owe_the_rest(batch, [o for o in members if o.replays or not batch.native])

    def deliver_part(self, batch: str) -> None:
        found = self.batches.get(batch)
        if found is not None and not found.closed and not found.native:
            members = [o for o in self.operations.values() if o.batch == batch]
            self._owe_the_rest(found, [o for o in members if o.settled])

    def _owe_the_rest(self, batch: ModelBatch, members: list[ModelOperation]) -> None:
        left = [o for o in members if o.held_by is None]
        if left:
            again = f"-{left[0].replays}" if left[0].replays else ""
            further = any(row.batch == batch.name for row in self.deliveries.values())
            late = f"-late-{left[0].name}{again}" if further else ""
            self._owe(f"delivery-{batch.name}{late}", left)

    def _owe(
        self, name: str, operations: list[ModelOperation], *, correction: bool = False, told: bool = True
    ) -> None:
        first = operations[0]
        row = ModelDelivery(name, first.session, first.batch, [o.name for o in operations], self.now)
        row.correction, row.state = correction, "pending" if told else "suppressed"
        assert name not in self.deliveries, name
        self.deliveries[name] = row
        for operation in operations:
            operation.held_by = name
        if told:
            self.say("on_delivery_ready", name)
        else:
            self.say("on_delivery_suppressed", name, "it was never told")

    # Sessions and tellings

    def hold(self, session: str, owner: str) -> int | None:
        held = self.sessions.setdefault(session, ModelSession())
        if held.owner == owner:
            return held.fence
        if self.alive(held.owner):
            return None
        held.owner, held.fence, held.released_at = owner, held.fence + 1, None
        self.say("on_session_held", session)
        return held.fence

    def release(self, session: str, owner: str) -> None:
        held = self.sessions.get(session)
        if held is not None and held.owner == owner:
            held.owner, held.released_at = None, self.now
            self.say("on_session_released", session)

    def present(self, session: str, fence: int) -> bool:
        held = self.sessions.get(session)
        return held is not None and held.owner is not None and held.fence == fence

    def claim_telling(self, session: str, names: Sequence[str], telling: str, fence: int) -> list[str]:
        if not self.present(session, fence):
            return []
        granted = [n for n in names if (d := self.deliveries[n]).session == session and d.state in OPEN]
        for name in granted:
            self.deliveries[name].state, self.deliveries[name].telling = "telling", telling
            self.say("on_delivery_started", name)
        return granted

    def settle_telling(self, telling: str, ends: Sequence[tuple[str, str, str]]) -> list[str]:
        """Settle deliveries of a telling, each as (name, state, outcome)."""
        settled = []
        for name, state, outcome in ends:
            row = self.deliveries[name]
            if row.state != "telling" or row.telling != telling:
                continue
            row.state = state
            row.tellings.append(outcome)
            event = {"completed": "spoken", "withdrawn": "withdrawn"}.get(outcome, "interrupted")
            self.say(f"on_delivery_{event}", name, outcome)
            self._leave(row)
            settled.append(name)
        return settled

    def _leave(self, row: ModelDelivery) -> None:
        if row.state == "undeliverable":
            self.say("on_delivery_undeliverable", row.name)
            self._open_letter(row)
        waiting, row.waiting = row.waiting, []
        for operation in waiting:
            self._tell_correction(row, self.operations[operation])

    def suppress(self, session: str, name: str, fence: int) -> bool:
        row = self.deliveries[name]
        if row.session != session or row.state != "pending" or not self.present(session, fence):
            return False
        row.state = "suppressed"
        self.say("on_delivery_suppressed", name, "stale")
        return True

    def give_up(self, secs: float) -> set[str]:
        lost = set()
        for row in list(self.deliveries.values()):
            held = self.sessions.get(row.session, ModelSession())
            gone_at = self.leases.get(held.owner) if held.owner else held.released_at
            since = max(row.since, gone_at or 0.0)
            if row.state in OPEN and not self.alive(held.owner) and self.now - since >= secs:
                row.state = "undeliverable"
                self._leave(row)
                lost.add(row.name)
        return lost

    # Dead letters

    def _open_letter(self, about: ModelOperation | ModelDelivery) -> None:
        about.letters += 1
        number = f"-{about.letters}" if about.letters > 1 else ""
        self.letters[f"dead-{about.name}{number}"] = (about.name, True)
        self.say("on_dead_letter_opened", about.name)

    def close(self, letter: str, note: str) -> bool:
        """Close by hand; False if that is an error."""
        if not self.letters[letter][1]:
            return False
        self._close_letter(letter, note)
        return True

    def _close_letter(self, letter: str, note: str) -> None:
        subject, _ = self.letters[letter]
        self.letters[letter] = (subject, False)
        self.say("on_dead_letter_closed", subject, note)

    def replay(self, letter: str) -> bool:
        """Replay; False if that is an error."""
        subject, is_open = self.letters[letter]
        operation = self.operations.get(subject)
        if not is_open or (operation is not None and operation.adopted):
            return False
        if operation is not None:
            self._replay_operation(operation)
        else:
            self.deliveries[subject].state, self.deliveries[subject].since = "pending", self.now
            self.say("on_delivery_replayed", subject)
        self._close_letter(letter, "replayed")
        return True

    def _replay_operation(self, operation: ModelOperation) -> None:
        for row in self.deliveries.values():
            if row.state == "pending" and operation.name in row.operations:
                if len(row.operations) > 1:
                    row.operations.remove(operation.name)
                else:
                    row.state = "suppressed"
                    self.say("on_delivery_suppressed", row.name, "replayed")
        operation.status, operation.accepted_at, operation.settled_at = "accepted", self.now, None
        operation.replays += 1
        operation.held_by = operation.owner = None
        self.batches[operation.batch].closed = False
        self.say("on_operation_replayed", operation.name)
