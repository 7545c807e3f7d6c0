# SPDX-License-Identifier: BSD-2-Clause
"""What of a text was heard, what is left to say, and whether the facts got through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipecat_async_tools import OperationStatus
from pipecat_async_tools.delivery.facts import (
    all_heard,
    can_be_checked,
    mostly_told,
    numbers_and_names,
    rest_of,
    squeezed,
)
from pipecat_async_tools.delivery.spoken_numbers import was_said, words_in
from tests.builders import failed, operation, succeeded

WORDS = st.lists(
    st.sampled_from(
        ["There", "is", "a", "slot", "at", "10:30", "on", "Thursday,", "für", "Dr.", "1.500 €", "—"]
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("text", "squeezed_text"),
    [("There is, a SLOT!", "thereisaslot"), ("10:30 Uhr", "1030uhr"), ("Größe — ok", "größeok"), ("…", "")],
)
def test_squeezed_keeps_letters_and_digits(text, squeezed_text):
    assert squeezed(text) == squeezed_text


class TestRestOf:
    @pytest.mark.parametrize(
        ("heard", "rest"),
        [
            ("", "There is a slot at 10:30. Shall I book it?"),
            ("There is", "a slot at 10:30. Shall I book it?"),
            ("there IS a slot,", "at 10:30. Shall I book it?"),
            ("There is a slot at 10:30.", "Shall I book it?"),
            ("Thereisaslotat1030", "Shall I book it?"),
            ("There is a slot at 10:30. Shall I book it", ""),
        ],
    )
    def test_it_is_what_comes_after_what_was_heard(self, heard, rest):
        assert rest_of("There is a slot at 10:30. Shall I book it?", heard) == rest

    @pytest.mark.parametrize("heard", ["One moment", "a slot", "There was", "There is a slot at nine"])
    def test_where_the_two_do_not_match_it_is_everything(self, heard):
        assert rest_of("There is a slot at ten.", heard) == "There is a slot at ten."

    def test_more_heard_than_there_is_does_not_match(self):
        assert rest_of("There is", "There is a slot") == "There is"

    @pytest.mark.parametrize(
        ("text", "heard", "rest"),
        [
            ("There is a slot.", "There is a sl", "slot."),
            ("It costs 1.500 Euro.", "It costs 1", "1.500 Euro."),
            ("It is at 10:30 then.", "It is at 10", "10:30 then."),
            ("We don't know yet.", "We don", "don't know yet."),
        ],
    )
    def test_a_word_that_was_cut_in_two_is_said_again(self, text, heard, rest):
        assert rest_of(text, heard) == rest

    @pytest.mark.parametrize(
        ("text", "heard", "rest"),
        [
            ("Der Termin für Müller steht.", "der termin FÜR", "Müller steht."),
            ("你好。再见。", "你好", "再见。"),
            ("Привет, Анна. До завтра.", "Привет, Анна.", "До завтра."),
        ],
    )
    def test_other_scripts(self, text, heard, rest):
        assert rest_of(text, heard) == rest

    def test_an_empty_text_has_no_rest(self):
        assert rest_of("", "") == ""

    @given(WORDS, st.data())
    def test_what_was_heard_and_the_rest_cover_the_text(self, words, data):
        text = " ".join(words)
        heard = " ".join(words[: data.draw(st.integers(0, len(words)))])
        assert squeezed(heard) + squeezed(rest_of(text, heard)) == squeezed(text)

    @given(st.text(), st.data())
    def test_nothing_is_left_out_wherever_it_was_cut(self, text, data):
        heard = text[: data.draw(st.integers(0, len(text)))]
        rest = rest_of(text, heard)
        assert rest in text
        assert squeezed(text).endswith(squeezed(rest))
        assert len(squeezed(heard)) + len(squeezed(rest)) >= len(squeezed(text))

    @given(st.text(), st.text())
    def test_the_rest_is_always_the_end_of_the_text(self, text, heard):
        assert text.strip().endswith(rest_of(text, heard).strip())

    @given(WORDS)
    def test_all_heard_leaves_nothing(self, words):
        assert rest_of(" ".join(words), " ".join(words)) == ""


class TestAllHeard:
    @pytest.mark.parametrize(
        ("result", "heard"),
        [
            ({"slot": "10:30"}, "There is a slot at 10:30, shall"),
            ({"slot": "10:30"}, "at 10 30"),
            ({"price": 12.5}, "It costs 12.5"),
            ({"name": "Dr. Müller"}, "DR MÜLLER is"),
            (["Thursday", {"at": [10]}], "10 on thursday"),
            (7, "seven, that is 7,"),
            ({"free": True, "day": "Friday"}, "Friday"),
            ({"note": "", "day": "Friday"}, "Friday"),
        ],
        ids=repr,
    )
    def test_every_fact_was_heard(self, result, heard):
        assert all_heard([succeeded(result)], heard)

    @pytest.mark.parametrize(
        ("result", "heard"),
        [
            ({"slot": "10:30"}, "There is a slot at 10"),
            ({"slot": "10:30"}, "There is a slot at 10:3"),
            ({"slot": "ten"}, "I often"),
            ({"a": 1, "b": 2}, "1"),
            (["Thursday", "Friday"], "Thursday"),
            ({"name": "Dr. Müller"}, "Dr. Muller"),
            ("done", ""),
        ],
        ids=repr,
    )
    def test_a_fact_is_missing(self, result, heard):
        assert not all_heard([succeeded(result)], heard)

    @pytest.mark.parametrize(
        "result", [False, True, None, {}, [], "", "…", {"note": ""}, {"free": False}], ids=repr
    )
    def test_a_result_without_facts_is_never_taken_for_heard(self, result):
        assert not all_heard([succeeded(result)], "There is no slot on Thursday.")

    def test_the_names_of_fields_are_no_facts(self):
        assert all_heard([succeeded({"slot_start": "noon"})], "noon")

    def test_every_operation_counts(self):
        two = [succeeded({"at": 10}), succeeded({"at": 11})]
        assert all_heard(two, "10 and 11")
        assert not all_heard(two, "10")

    @pytest.mark.parametrize(
        "other", [failed("It broke."), operation(), failed("Late.", status=OperationStatus.TIMED_OUT)]
    )
    def test_what_did_not_succeed_has_no_facts_to_look_for(self, other):
        assert not all_heard([other], "It broke. Late.")
        assert not all_heard([succeeded(1), other], "1 It broke. Late.")

    def test_nothing_is_not_all(self):
        assert not all_heard([], "anything")

    @given(st.dictionaries(st.text(), st.integers() | st.text(), max_size=4))
    def test_a_result_read_out_was_heard_if_it_has_facts(self, result):
        values = [str(value) for value in result.values()]
        has_facts = any(re.search(r"\w", value) for value in values)
        assert all_heard([succeeded(result)], " ".join(values)) == has_facts


class TestNumbersAndNames:
    @pytest.mark.parametrize(
        ("result", "found"),
        [
            ({"slot": "10:00"}, ["10:00"]),
            ({"status": "ok", "id": "BK-1234", "doctor": "Dr. Brown"}, ["Brown", "Dr"]),
            ("The doctor is free at 10:30 on Friday.", ["10:30", "Friday"]),
            ({"at": "2026-12-03T10:00:00", "price": "40 €"}, ["2026-12-03T10:00:00", "40"]),
            (["Thursday", "Friday"], ["Friday", "Thursday"]),
            ({"found": "mon-full", "ok": True, "none": None, "code": "OK"}, []),
            ("", []),
            (0, ["0"]),
        ],
        ids=repr,
    )
    def test_codes_and_plain_words_are_none(self, result, found):
        assert sorted(numbers_and_names(succeeded(result))) == found

    def test_what_the_caller_asked_for_says_nothing(self):
        asked = succeeded({"day": "Thursday", "slot": "10:00"}, arguments={"day": "Thursday"})
        assert numbers_and_names(asked) == {"10:00"}

    def test_what_failed_has_none(self):
        assert numbers_and_names(failed("Friday at 10.")) == frozenset()
        assert not can_be_checked([failed("Friday at 10.")])

    def test_each_outcome_must_have_some(self):
        assert can_be_checked([succeeded(10)])
        assert not can_be_checked([succeeded(10), succeeded(False)])
        assert not can_be_checked([])


class TestMostlyTold:
    @pytest.mark.parametrize(
        "heard",
        ["Thursday at ten with Brown", "at 10 o'clock with Brown", "on Thursday, at ten"],
    )
    def test_half_of_them_will_do(self, heard):
        operation = succeeded({"day": "Thursday", "slot": "10:00", "doctor": "Brown", "room": "Ocean"})
        assert mostly_told([operation], heard)
        assert not mostly_told([operation], "with Brown")

    def test_of_each_outcome(self):
        assert not mostly_told([succeeded(10), succeeded("Friday")], "It is ten.")
        assert mostly_told([succeeded(10), succeeded("Friday")], "It is ten, on Friday.")

    def test_nothing_to_look_for_was_never_told(self):
        assert not mostly_told([succeeded(False)], "No.")
        assert not mostly_told([], "No.")


class TestSpokenNumbers:
    @pytest.mark.parametrize(
        ("fact", "heard"),
        [
            ("10:00", "at ten"),
            ("10:00", "at 10 00"),
            ("14:30", "at two thirty"),
            ("14:30", "at fourteen thirty"),
            ("2026-12-03", "on the third of December"),
            ("2026-12-03", "December 3rd"),
            ("2026-12-03T10:00:00", "on the 3rd at ten"),
            ("40", "forty euros"),
            ("21", "twenty-one"),
            ("1250", "one thousand two hundred fifty"),
        ],
    )
    def test_a_number_is_said_in_words(self, fact, heard):
        assert was_said(fact, frozenset(words_in(heard)))

    @pytest.mark.parametrize(
        ("fact", "heard"),
        [
            ("10:30", "at ten"),
            ("14:30", "at three thirty"),
            ("2026-12-03", "December fourth"),
            ("40", "four"),
        ],
    )
    def test_another_number_is_not_it(self, fact, heard):
        assert not was_said(fact, frozenset(words_in(heard)))

    def test_in_the_language_of_the_call(self):
        heard = frozenset(words_in("um einundzwanzig Uhr"))
        assert was_said("21:00", heard, "de")
        assert not was_said("21:00", heard, "en")
        assert was_said("21", frozenset(["21"]), "tlh")

    @given(st.integers(0, 10**12), st.sampled_from(["en", "de", "fr", "es", "xx"]))
    def test_digits_are_understood_in_every_language(self, number, language):
        assert was_said(str(number), frozenset([str(number)]), language)
