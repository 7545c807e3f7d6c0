# SPDX-License-Identifier: BSD-2-Clause
from dataclasses import replace

import numpy as np

from bots.inprocess import SAMPLE_RATE
from bots.verdict import CallFacts, barge_in_to_silence, judge

UPDATE = ("Thursday is free.", "I have your record.")


def sound(*spans):
    pcm = np.zeros(20 * SAMPLE_RATE, np.int16)
    for start, end in spans:
        pcm[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)] = 5000
    return pcm.tobytes()


GOOD = CallFacts(
    caller=sound((3, 5), (7, 8), (15, 16)),
    bot=sound((0, 2), (6, 7.3), (9, 10), (12, 14), (17, 18)),
    accepted=["a", "b"],
    answered=[10.5, 11.0],
    heard=["Hello.", "One", *UPDATE],
    update=UPDATE,
    deliveries=["spoken"],
)


def failed(**changes):
    return [check.name for check in judge(replace(GOOD, **changes)) if not check.passed]


def test_a_good_call_passes():
    assert failed() == []
    assert failed(deliveries=None) == []


def test_the_time_to_silence_is_measured_from_the_callers_first_sound():
    assert round(barge_in_to_silence(GOOD.caller, GOOD.bot), 2) == 0.3
    assert barge_in_to_silence(sound((3, 5)), sound((6, 7))) is None


def test_each_fault_fails_its_own_check():
    assert failed(accepted=["a"]) == ["two operations were accepted"]
    assert failed(bot=sound((0, 2), (5.2, 5.5), (6.2, 7.3), (9, 10), (12, 14))) == [
        "with one acknowledgement"
    ]
    assert failed(bot=sound((0, 2), (6, 7.9), (9, 10), (12, 14))) == ["the barge-in stopped the bot"]
    assert failed(bot=sound((0, 2), (6, 6.9), (9, 10), (12, 14))) == ["the barge-in stopped the bot"]
    assert failed(answered=[6.5, 11.0]) == ["both operations finished afterwards"]
    assert failed(bot=sound((0, 2), (6, 7.3), (11.2, 12), (13, 14))) == ["one update was told"]
    assert failed(heard=["Hello.", *UPDATE, UPDATE[0]]) == ["it holds both results, each once"]
    assert failed(bot=sound((0, 2), (6, 7.3), (12, 15.1))) == ["and does not overlap the caller"]
    assert failed(deliveries=["pending"]) == ["one delivery is on record, as spoken"]


def test_a_caller_who_gave_up_fails_the_call():
    assert failed(caller=sound((3, 5))) == ["the caller said all three things"]
