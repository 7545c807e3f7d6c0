# SPDX-License-Identifier: BSD-2-Clause
"""What is owed, what is due now, and what became of it."""

from dataclasses import replace

import pytest

from pipecat_async_tools import DeliverNow, DeliveryPolicy, OperationStatus, SuppressAndPersist
from pipecat_async_tools.delivery.desk import DeliveryDesk, Due
from tests.builders import FREE, Notebook, channel, envelope, failed, succeeded, telling

SPEAKING = channel(caller_speaking=True)


@pytest.fixture
def notebook():
    return Notebook()


@pytest.fixture
def desk(notebook):
    return DeliveryDesk(policy=DeliveryPolicy(max_tellings=2), journal=notebook.journal)


def states(desk):
    return [delivery.state for delivery in desk.deliveries]


def tell(desk, record):
    """Tell everything that is due, and let it go as the record says."""
    deliveries = desk.due(FREE, 1.0).tell
    assert deliveries, "nothing is due"
    desk.begin(deliveries, record.telling_id)
    return desk.finish(deliveries, record, text="There is a slot.")


def test_an_empty_desk_owes_nothing(desk):
    assert not desk.has_open
    assert desk.due(FREE, 1.0) == Due()


def test_what_is_ready_together_is_told_together(desk):
    first, second = envelope(ready_at=0.1), envelope(ready_at=0.2)
    desk.add(first)
    desk.add(second)
    assert desk.due(FREE, 1.0) == Due(tell=(first, second))


def test_what_is_urgent_goes_first_and_alone(desk):
    normal, urgent = envelope(), envelope(priority="urgent")
    desk.add(normal)
    desk.add(urgent)
    assert desk.due(FREE, 1.0) == Due(tell=(urgent,))
    desk.begin((urgent,), "telling-1")
    desk.finish((urgent,), telling("completed"), "")
    assert desk.due(FREE, 1.0).tell == (normal,)


def test_what_is_urgent_cuts_off_the_bot(desk):
    desk.add(envelope())
    desk.add(envelope(priority="urgent"))
    due = desk.due(channel(bot_audio=True), 1.0)
    assert due.interrupt
    assert [e.priority for e in due.tell] == ["urgent"]


def test_while_it_is_told_it_is_not_due_again(desk):
    desk.add(envelope())
    desk.begin(desk.due(FREE, 1.0).tell, "telling-1")
    assert states(desk) == ["telling"]
    assert desk.has_open
    assert desk.due(FREE, 1.0) == Due()


def test_what_waits_says_why_once(desk, notebook):
    desk.add(envelope())
    for _ in range(3):
        assert desk.due(SPEAKING, 1.0) == Due()
    desk.due(channel(bot_audio=True), 1.0)
    waiting = [e.reason for e in notebook.events if e.name == "on_delivery_waiting"]
    assert waiting == ["the caller is speaking", "the bot is speaking"]
    assert desk.deliveries[0].reason == "the bot is speaking"


def test_what_is_suppressed_is_kept_with_its_reason(desk, notebook):
    desk.add(envelope(ready_at=0.0, expires_after_secs=5.0))
    [given_up] = desk.due(SPEAKING, 6.0).suppressed
    assert (given_up.state, given_up.reason) == ("suppressed", "older than 5 s")
    assert desk.deliveries == (given_up,)
    assert not desk.has_open
    assert notebook.events[-1].name == "on_delivery_suppressed"
    assert notebook.events[-1].reason == "older than 5 s"
    assert desk.due(FREE, 7.0) == Due()


def test_a_policy_of_the_application_decides(notebook):
    class Sulking(DeliveryPolicy):
        def choose(self, envelope, channel, now, *, superseded=False):
            if envelope.batch_id == "secret":
                return SuppressAndPersist(reason="none of your business")
            return DeliverNow(reason="whatever", interrupt=True)

    desk = DeliveryDesk(policy=Sulking(), journal=notebook.journal)
    desk.add(envelope(batch_id="secret"))
    desk.add(envelope(batch_id="public"))
    due = desk.due(SPEAKING, 1.0)
    assert [e.reason for e in due.suppressed] == ["none of your business"]
    assert [e.batch_id for e in due.tell] == ["public"]
    assert due.interrupt


class TestSuperseded:
    def test_a_newer_outcome_of_the_subject_replaces_an_older_one(self, desk):
        desk.add(envelope(batch_id="old", subjects=frozenset({"day:thursday"}), ready_at=1.0))
        desk.add(envelope(batch_id="new", subjects=frozenset({"day:thursday"}), ready_at=2.0))
        due = desk.due(FREE, 3.0)
        assert [e.batch_id for e in due.suppressed] == ["old"]
        assert [e.batch_id for e in due.tell] == ["new"]

    def test_it_does_so_also_when_it_was_told_already(self, desk):
        desk.add(envelope(batch_id="new", subjects=frozenset({"s"}), ready_at=2.0))
        tell(desk, telling("completed"))
        desk.add(envelope(batch_id="old", subjects=frozenset({"s"}), ready_at=1.0))
        assert [e.batch_id for e in desk.due(FREE, 3.0).suppressed] == ["old"]

    def test_another_subject_replaces_nothing(self, desk):
        desk.add(envelope(subjects=frozenset({"day:thursday"}), ready_at=1.0))
        desk.add(envelope(subjects=frozenset({"day:friday"}), ready_at=2.0))
        assert len(desk.due(FREE, 3.0).tell) == 2

    def test_what_has_no_subject_is_not_replaced(self, desk):
        desk.add(envelope(ready_at=1.0))
        desk.add(envelope(ready_at=2.0))
        assert len(desk.due(FREE, 3.0).tell) == 2

    def test_what_also_tells_something_else_is_not_replaced(self, desk):
        desk.add(envelope(succeeded(1), succeeded(2), subjects=frozenset({"s"}), ready_at=1.0))
        desk.add(envelope(subjects=frozenset({"s"}), ready_at=2.0))
        assert len(desk.due(FREE, 3.0).tell) == 2

    def test_two_subjects_may_be_replaced_by_two_deliveries(self, desk):
        both = envelope(succeeded(1), succeeded(2), subjects=frozenset({"a", "b"}), ready_at=1.0)
        desk.add(both)
        desk.add(envelope(subjects=frozenset({"a"}), ready_at=2.0))
        assert desk.due(SPEAKING, 3.0).suppressed == ()
        desk.add(envelope(subjects=frozenset({"b"}), ready_at=2.5))
        assert [e.delivery_id for e in desk.due(SPEAKING, 3.0).suppressed] == [both.delivery_id]


class TestFinished:
    def test_completed_is_spoken(self, desk, notebook):
        desk.add(envelope())
        [told] = tell(desk, telling("completed", heard="There is a slot."))
        assert told.state == "spoken"
        assert not desk.has_open
        assert notebook.names == ["on_delivery_ready", "on_delivery_started", "on_delivery_spoken"]
        assert [e.telling_id for e in notebook.events] == [None, "telling-1", "telling-1"]

    def test_interrupted_is_owed_with_what_was_heard(self, desk):
        desk.add(envelope())
        [told] = tell(desk, telling("interrupted", heard="There is"))
        assert (told.state, told.heard, told.text) == ("pending", "There is", "There is a slot.")
        [told] = tell(desk, telling("interrupted", heard="a slot"))
        assert told.heard == "There is a slot"

    @pytest.mark.parametrize("outcome", ["withdrawn", "lost", "unheard"])
    def test_what_was_not_heard_leaves_no_words(self, desk, outcome):
        desk.add(envelope())
        [told] = tell(desk, telling(outcome, heard=""))
        assert (told.state, told.heard, told.text) == ("pending", "", "")

    @pytest.mark.parametrize(
        ("outcome", "event"),
        [
            ("interrupted", "on_delivery_interrupted"),
            ("withdrawn", "on_delivery_withdrawn"),
            ("lost", "on_delivery_interrupted"),
            ("unheard", "on_delivery_interrupted"),
        ],
    )
    def test_each_end_is_an_event_with_its_reason(self, desk, notebook, outcome, event):
        desk.add(envelope())
        tell(desk, telling(outcome))
        assert (notebook.events[-1].name, notebook.events[-1].reason) == (event, outcome)

    def test_a_delivery_keeps_all_its_tellings(self, desk):
        desk.add(envelope())
        for outcome in ("withdrawn", "lost", "completed"):
            tell(desk, telling(outcome))
        assert [t.outcome for t in desk.deliveries[0].tellings] == ["withdrawn", "lost", "completed"]

    def test_the_model_has_its_chances_then_the_template_one(self, desk, notebook):
        desk.add(envelope())
        ways = []
        for _ in range(3):
            ways.append(desk.how_to_tell(desk.due(FREE, 1.0).tell))
            tell(desk, telling("lost"))
        assert ways == ["model", "model", "template"]
        assert not desk.has_open
        assert desk.deliveries[0].state == "undeliverable"
        assert desk.deliveries[0].reason == "gave up after 3 attempts"
        assert notebook.names[-1] == "on_delivery_undeliverable"

    def test_an_attempt_that_never_started_is_no_chance(self, desk):
        desk.add(envelope())
        for _ in range(10):
            [told] = tell(desk, telling("withdrawn"))
        assert told.state == "pending"
        assert desk.how_to_tell((told,)) == "model"

    def test_one_worn_delivery_makes_the_template_tell_them_all(self, desk):
        worn = envelope(tellings=(telling("lost"),) * 2)
        assert desk.how_to_tell((envelope(), worn)) == "template"

    def test_a_completed_telling_is_never_undeliverable(self, desk):
        desk.add(envelope(tellings=(telling("lost"),) * 2))
        [told] = tell(desk, telling("completed"))
        assert told.state == "spoken"


class TestCorrections:
    late = staticmethod(lambda o: replace(o, status=OperationStatus.SUCCEEDED, result="ten", late=True))

    @pytest.fixture
    def timed_out(self):
        return failed("No answer.", status=OperationStatus.TIMED_OUT)

    def correct(self, desk, operation):
        built = envelope(operation, batch_id="correction", correction=True, ready_at=9.0)
        desk.correct(operation, lambda: built)
        return built

    def test_a_failure_nobody_heard_of_is_simply_replaced(self, desk, timed_out):
        desk.add(envelope(succeeded("other"), timed_out))
        self.correct(desk, self.late(timed_out))
        [delivery] = desk.due(FREE, 1.0).tell
        assert [o.result for o in delivery.operations] == ["other", "ten"]
        assert not delivery.correction

    def test_a_failure_that_was_told_is_corrected_once(self, desk, timed_out):
        desk.add(envelope(timed_out))
        tell(desk, telling("completed"))
        built = self.correct(desk, self.late(timed_out))
        assert desk.due(FREE, 9.5).tell == (built,)
        tell(desk, telling("completed"))
        assert not desk.has_open

    def test_a_failure_that_was_cut_off_is_corrected_in_its_place(self, desk, timed_out):
        desk.add(envelope(timed_out))
        tell(desk, telling("interrupted", heard="I could not"))
        self.correct(desk, self.late(timed_out))
        [delivery] = desk.due(FREE, 9.5).tell
        assert [o.result for o in delivery.operations] == ["ten"]
        assert (delivery.correction, delivery.heard) == (True, "I could not")

    @pytest.mark.parametrize(
        ("outcome", "heard", "correction"),
        [
            ("completed", "I could not confirm it.", True),
            ("interrupted", "I could not", True),
            ("withdrawn", "", False),
            ("lost", "", False),
        ],
    )
    def test_a_failure_that_is_being_told_is_corrected_when_that_is_over(
        self, desk, timed_out, outcome, heard, correction
    ):
        desk.add(envelope(timed_out))
        deliveries = desk.due(FREE, 1.0).tell
        desk.begin(deliveries, "telling-1")
        self.correct(desk, self.late(timed_out))
        assert desk.due(FREE, 1.5).tell == ()
        desk.finish(deliveries, telling(outcome, heard=heard), text="I could not confirm it.")
        [delivery] = desk.due(FREE, 9.5).tell
        assert [o.result for o in delivery.operations] == ["ten"]
        assert delivery.correction is correction
        desk.begin((delivery,), "telling-2")
        desk.finish((delivery,), telling("completed"), text="")
        assert not desk.has_open

    def test_a_failure_that_was_never_told_is_corrected_without_a_word(self, desk, timed_out):
        desk.add(envelope(timed_out, expires_after_secs=5.0))
        desk.due(FREE, 6.0)
        assert states(desk) == ["suppressed"]
        self.correct(desk, self.late(timed_out))
        due = desk.due(FREE, 9.5)
        assert due.tell == ()
        assert [o.result for e in due.suppressed for o in e.operations] == ["ten"]

    def test_what_no_delivery_speaks_of_needs_no_correction(self, desk, timed_out):
        self.correct(desk, self.late(timed_out))
        assert desk.deliveries == ()

    def test_a_correction_is_an_event_of_its_own(self, desk, notebook, timed_out):
        desk.add(envelope(timed_out))
        tell(desk, telling("completed"))
        self.correct(desk, self.late(timed_out))
        assert (notebook.events[-1].name, notebook.events[-1].reason) == ("on_delivery_ready", "correction")


def test_every_event_carries_its_ids(desk, notebook):
    delivery = envelope(batch_id="batch-7", turn_id="turn-3")
    desk.add(delivery)
    tell(desk, telling("completed"))
    for event in notebook.events:
        assert (event.session_id, event.batch_id, event.turn_id) == ("room", "batch-7", "turn-3")
        assert event.delivery_id == delivery.delivery_id


def test_a_policy_that_raises_leaves_the_decision_to_the_default(notebook):
    class Broken(DeliveryPolicy):
        def choose(self, envelope, channel, now, *, superseded=False):
            raise ZeroDivisionError

    desk = DeliveryDesk(policy=Broken(), journal=notebook.journal)
    waiting = envelope()
    desk.add(waiting)
    assert desk.due(SPEAKING, 1.0).tell == ()
    assert [d.delivery_id for d in desk.due(FREE, 1.0).tell] == [waiting.delivery_id]
