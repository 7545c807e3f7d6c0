// SPDX-License-Identifier: BSD-2-Clause
import assert from "node:assert/strict";
import { test } from "node:test";
import { isCutOff, Speech, unheardSecs } from "../src/speech.js";

const output = (segment_id, heard, unheard) => ({
  segment_id, text: heard + unheard, spoken_progress: { accumulated_text: heard, remaining_text: unheard },
});

test("a transcript that comes late belongs to what was said", () => {
  const speech = new Speech();
  speech.userStarted(1);
  speech.userTranscript("is there", false, 1.5);
  speech.userTranscript("is there anything", true, 1.9);
  speech.userStopped(2);
  speech.userTranscript("on Thursday", true, 2.4);
  assert.equal(speech.utterances.length, 1);
  assert.equal(speech.utterances[0].heard, "is there anything on Thursday");
});

test("a transcript out of nowhere is an utterance of its own", () => {
  const speech = new Speech();
  speech.userStarted(1);
  speech.userStopped(2);
  speech.userTranscript("later", true, 20);
  assert.deepEqual(speech.utterances.map((one) => [one.start, one.end]), [[1, 2], [20, 20]]);
});

test("an interrupted sentence keeps what was heard and what was not", () => {
  const speech = new Speech();
  speech.botStarted(1);
  speech.botOutput(output(7, "", "There is ten o'clock."));
  speech.botOutput(output(7, "There is", " ten o'clock."));
  speech.botStopped(2);
  const [said] = speech.utterances;
  assert.deepEqual([said.heard, said.unheard], ["There is", "ten o'clock."]);
  assert.equal(isCutOff(said, 2.1), false, "its last words may still be reported");
  assert.equal(isCutOff(said, 3), true);
});

test("the last words can be reported after the end", () => {
  const speech = new Speech();
  speech.botStarted(1);
  speech.botOutput(output(7, "There is", " ten."));
  speech.botStopped(2);
  speech.botOutput(output(7, "There is ten.", ""));
  assert.equal(isCutOff(speech.utterances[0], 3), false);
});

test("a sentence known before the bot is heard waits for it", () => {
  const speech = new Speech();
  speech.botOutput(output(7, "", "Good morning."));
  assert.equal(speech.utterances.length, 0);
  speech.botStarted(1);
  assert.equal(speech.utterances[0].unheard, "Good morning.");
});

test("a sentence behind a pause moves to where it is heard", () => {
  const speech = new Speech();
  speech.botStarted(1);
  speech.botOutput(output(7, "One.", ""));
  speech.botOutput(output(8, "", "Two."));
  speech.botStopped(2);
  speech.botStarted(3);
  speech.botOutput(output(8, "Two.", ""));
  assert.deepEqual(speech.utterances.map((one) => [one.heard, one.unheard]), [["One.", ""], ["Two.", ""]]);
});

test("words that are not for speaking are no speech", () => {
  const speech = new Speech();
  speech.botStarted(1);
  speech.botOutput({ text: "a link", will_be_spoken: false });
  assert.deepEqual([speech.utterances[0].heard, speech.utterances[0].unheard], ["", ""]);
});

test("starting twice and stopping twice is once", () => {
  const speech = new Speech();
  for (const at of [1, 1.2]) speech.botStarted(at);
  for (const at of [2, 2.2]) speech.botStopped(at);
  assert.deepEqual(speech.utterances.map((one) => [one.start, one.end]), [[1, 2]]);
  speech.userStarted(3);
  speech.ended(4);
  assert.equal(speech.isSpeaking("user"), false);
});

test("what was not heard is as long as its words at the pace of the others", () => {
  const said = { id: 1, who: "bot", start: 0, end: 2, heard: "x".repeat(40), unheard: "y".repeat(20), typed: false };
  assert.equal(unheardSecs(said, 9), 1);
  assert.ok(unheardSecs({ ...said, heard: "x" }, 9) > 1);
});
