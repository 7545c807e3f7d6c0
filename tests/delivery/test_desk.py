# SPDX-License-Identifier: BSD-2-Clause
"""What is owed, what is due now, and what became of it."""

from dataclasses import replace

import pytest

from pipecat_async_tools import ClockParams, DeliverNow, DeliveryPolicy, OperationStatus, SuppressAndPersist
from pipecat_async_tools.delivery.desk import DeliveryDesk, Due
from pipecat_async_tools.delivery.telling import Telling
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


def finish(desk, deliveries, record, text="There is a slot."):
    """Let a telling of deliveries go as the record says."""
    attempt = Telling(deliveries, telling_id=record.telling_id, params=ClockParams(), now=0.0)
    attempt.said(text, 0.0)
    return desk.finish(attempt, {d.delivery_id: record for d in deliveries}, "turn-1")


def tell(desk, record):
    """Tell everything that is due, and let it go as the record says."""
    deliveries = desk.due(FREE, 1.0).tell
    assert deliveries, "nothing is due"
    desk.begin(deliveries, record.telling_id, "proactive")
    return finish(desk, deliveries, record)


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
    desk.begin((urgent,), "telling-1", "proactive")
    finish(desk, (urgent,), telling("completed"))
    assert desk.due(FREE, 1.0).tell == (normal,)


def test_what_is_urgent_cuts_off_the_bot(desk):
    desk.add(envelope())
    desk.add(envelope(priority="urgent"))
    due = desk.due(channel(bot_audio=True), 1.0)
    assert due.interrupt
    assert [e.priority for e in due.tell] == ["urgent"]


def test_while_it_is_told_it_is_not_due_again(desk):
    desk.add(envelope())
    desk.begin(desk.due(FREE, 1.0).tell, "telling-1", "proactive")
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
    @pytest.fixture
    def stale(self):
        return set()

    @pytest.fixture
    def desk(self, notebook, stale):
        return DeliveryDesk(
            policy=DeliveryPolicy(), journal=notebook.journal, is_superseded=lambda o: o.operation_id in stale
        )

    def test_what_a_newer_request_replaced_is_not_told(self, desk, stale):
        old, new = envelope(batch_id="old"), envelope(batch_id="new")
        desk.add(old)
        desk.add(new)
        stale.add(old.operations[0].operation_id)
        due = desk.due(FREE, 3.0)
        assert [(e.batch_id, e.reason) for e in due.suppressed] == [("old", "a newer request replaced it")]
        assert [e.batch_id for e in due.tell] == ["new"]

    def test_of_several_only_what_was_replaced_is_hushed(self, desk, stale):
        both = envelope(succeeded(1), succeeded(2))
        desk.add(both)
        stale.add(both.operations[0].operation_id)
        due = desk.due(FREE, 3.0)
        assert due.suppressed == ()
        assert [[o.result for o in e.told] for e in due.tell] == [[2]]
        assert [[o.result for o in e.quiet] for e in due.hushed] == [[1]]
        assert desk.due(FREE, 3.1).hushed == ()

    def test_when_all_of_it_was_replaced_it_is_given_up(self, desk, stale):
        both = envelope(succeeded(1), succeeded(2))
        desk.add(both)
        stale.update(o.operation_id for o in both.operations)
        assert [e.delivery_id for e in desk.due(SPEAKING, 3.0).suppressed] == [both.delivery_id]

    def about(self, result, **fields):
        operation = succeeded(result) if result is not None else failed("It broke.")
        return envelope(operation, subjects={operation.operation_id: "slots:thursday"}, **fields)

    def test_what_replaces_something_told_corrects_it(self, desk):
        desk.add(self.about("ten"))
        tell(desk, telling("completed"))
        assert desk.add(self.about("eleven")).correction

    def test_what_replaces_something_half_heard_corrects_it(self, desk):
        desk.add(self.about("ten"))
        tell(desk, telling("interrupted", heard="There is"))
        assert desk.add(self.about("eleven")).correction

    @pytest.mark.parametrize("news", ["ten", None])
    def test_the_same_again_or_a_failure_corrects_nothing(self, desk, news):
        desk.add(self.about("ten"))
        tell(desk, telling("completed"))
        assert not desk.add(self.about(news)).correction

    def test_what_nobody_heard_needs_no_correction(self, desk):
        desk.add(self.about("ten"))
        assert not desk.add(self.about("eleven")).correction

    def test_another_subject_is_no_correction(self, desk):
        desk.add(self.about("ten"))
        tell(desk, telling("completed"))
        other = succeeded("eleven")
        assert not desk.add(envelope(other, subjects={other.operation_id: "slots:friday"})).correction


class TestJoining:
    def test_what_is_pending_joins_the_answer_to_a_turn_that_is_open(self, desk):
        desk.add(envelope(succeeded({"slot": "10:00"})))
        due = desk.due(channel(caller_speaking=True, turn_open=True), 1.0, turn_id="turn-2")
        assert due.tell == () and [e.delivery_id for e in due.join] == [desk.deliveries[0].delivery_id]

    @pytest.mark.parametrize("state", [{"caller_speaking": True}, {"answer_owed": True}, {}])
    def test_without_an_open_turn_there_is_nothing_to_join(self, desk, state):
        desk.add(envelope(succeeded({"slot": "10:00"})))
        assert desk.due(channel(**state), 1.0).join == ()

    def test_who_cut_it_off_is_not_told_it_in_answer_to_that(self, desk):
        desk.add(envelope(succeeded({"slot": "10:00"})))
        tell(desk, telling("interrupted", heard="There"))
        open_turn = channel(caller_speaking=True, turn_open=True)
        assert desk.due(open_turn, 1.0, turn_id="turn-1").join == ()
        assert len(desk.due(open_turn, 1.0, turn_id="turn-2").join) == 1

    def test_what_the_store_denied_does_not_join(self, desk):
        delivery = envelope(succeeded({"slot": "10:00"}))
        desk.add(delivery)
        desk.deny(delivery.delivery_id, 2.0)
        open_turn = channel(caller_speaking=True, turn_open=True)
        assert desk.due(open_turn, 1.9).join == ()
        assert len(desk.due(open_turn, 2.0).join) == 1

    def test_a_policy_that_cannot_say_does_not_join(self, notebook):
        class Broken(DeliveryPolicy):
            def may_join(self, envelope, channel, now):
                raise ZeroDivisionError

        desk = DeliveryDesk(policy=Broken(), journal=notebook.journal)
        desk.add(envelope(succeeded({"slot": "10:00"})))
        assert desk.due(channel(caller_speaking=True, turn_open=True), 1.0).join == ()


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
        desk.begin(deliveries, "telling-1", "proactive")
        self.correct(desk, self.late(timed_out))
        assert desk.due(FREE, 1.5).tell == ()
        finish(desk, deliveries, telling(outcome, heard=heard), text="I could not confirm it.")
        [delivery] = desk.due(FREE, 9.5).tell
        assert [o.result for o in delivery.operations] == ["ten"]
        assert delivery.correction is correction
        desk.begin((delivery,), "telling-2", "proactive")
        finish(desk, (delivery,), telling("completed"))
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
