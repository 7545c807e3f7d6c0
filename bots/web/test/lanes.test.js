// SPDX-License-Identifier: BSD-2-Clause
import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "../src/history.js";
import { lanes, stacked } from "../src/lanes.js";
import { rowsOf } from "../src/operations.js";
import { Speech } from "../src/speech.js";
import { attempt, batch, delivery, operation, state, telling } from "./states.js";

function laid(given, { speech = new Speech(), history = new History(), now = 10 } = {}) {
  history.observe(given);
  const all = lanes({
    utterances: speech.utterances, state: given, time: (at) => at, since: (id) => history.since(id), now,
  });
  return Object.fromEntries(all.map((lane) => [lane.key, lane]));
}
const spans = (lane) => lane.boxes.map((box) => [box.kind, box.start, box.end]);

test("an operation is a bar with a dot for each attempt", () => {
  const book = operation("book", {
    settled_at: 6, status: "succeeded", attempts: [attempt(1, 1, 2, "rate_limited"), attempt(2, 3, 6, "success")],
  });
  const lane = laid(state({ operations: [book] }))["operation-book"];
  assert.deepEqual(spans(lane), [["operation succeeded", 1, 6]]);
  assert.deepEqual(lane.dots.map((dot) => [dot.at, dot.kind]), [[2, "failure"], [6, "success"]]);
  assert.match(lane.dots[0].title, /attempt 1 was rate limited after 1.0 s/);
});

test("a running operation reaches to now and says how far it is", () => {
  const book = operation("book", { progress: "half", attempts: [attempt(1, 1)] });
  const lane = laid(state({ operations: [book] }), { now: 12 })["operation-book"];
  assert.deepEqual(spans(lane), [["operation running open", 1, 12]]);
  assert.equal(lane.boxes[0].text, "half");
  assert.deepEqual(lane.dots.map((dot) => dot.kind), ["running"]);
});

test("an attempt of which nothing is known is unclear", () => {
  const book = operation("book", { status: "unknown", settled_at: 3, attempts: [attempt(1, 1, 3, "ambiguous")] });
  assert.equal(laid(state({ operations: [book] }))["operation-book"].dots[0].kind, "unclear");
});

test("two runs of a tool are told apart", () => {
  const twice = [operation("book", { operation_id: "o1" }), operation("book", { operation_id: "o2" })];
  const all = laid(state({ operations: twice }));
  assert.deepEqual([all["operation-o1"].name, all["operation-o2"].name], ["Book 1", "Book 2"]);
});

test("a delivery waits, is cut off, waits and is told", () => {
  const tellings = [telling(6, 7, "interrupted", "There"), telling(8, 9, "completed"), telling(null, 7.5, "withdrawn")];
  const told = delivery({ state: "spoken", tellings });
  assert.deepEqual(spans(laid(state({ deliveries: [told] })).updates),
    [["wait", 5, 6], ["cut", 6, 7], ["wait", 7, 8], ["told", 8, 9]]);
});

test("one that waits says why", () => {
  const lane = laid(state({ deliveries: [delivery({ reason: "the caller is speaking" })] })).updates;
  assert.deepEqual(spans(lane), [["wait", 5, 10]]);
  assert.equal(lane.boxes[0].text, "you are speaking");
});

test("one that is being told has been so since the first state that said it", () => {
  const history = new History();
  history.observe(state({ now: 7, deliveries: [delivery({ state: "telling" })] }));
  const lane = laid(state({ now: 9, deliveries: [delivery({ state: "telling" })] }), { history }).updates;
  assert.deepEqual(spans(lane), [["wait", 5, 7], ["telling", 7, 10]]);
});

test("one that is being told can say itself since when", () => {
  const open = delivery({ state: "telling", tellings: [telling(6, null, null)] });
  assert.deepEqual(spans(laid(state({ deliveries: [open] })).updates), [["wait", 5, 6], ["telling", 6, 10]]);
});

test("what is never told ends with a mark", () => {
  const lost = delivery({ state: "undeliverable", reason: "gave up after 3 attempts" });
  const lane = laid(state({ now: 9, deliveries: [lost] })).updates;
  assert.deepEqual(lane.boxes.map((box) => box.kind), ["wait", "lost"]);
  assert.match(lane.summary, /could not be told: gave up after 3 attempts/);
});

test("deliveries that overlap stand under each other", () => {
  const box = (group, start, end) => ({ group, key: `${group}${start}`, start, end, kind: "", text: "", title: "" });
  const rows = stacked([box("a", 0, 4), box("a", 6, 8), box("b", 5, 9), box("c", 8, 9)]).map((one) => one.row);
  assert.deepEqual(rows, [0, 0, 1, 0]);
});

test("what the bot had to say beyond a cut is drawn up to its next words", () => {
  const speech = new Speech();
  speech.botStarted(1);
  speech.botOutput({ segment_id: 1, text: "", spoken_progress: { accumulated_text: "a", remaining_text: "b".repeat(99) } });
  speech.botStopped(2);
  speech.botStarted(3);
  assert.deepEqual(spans(laid(state(), { speech }).bot), [["bot cut-here", 1, 2], ["unheard", 2, 3], ["bot", 3, 10]]);
});

test("the table says what each operation waits for", () => {
  const done = operation("load", { status: "succeeded", settled_at: 3 });
  const held = state({
    operations: [done, operation("book")], batches: [batch(["load", "book"], { missing: 1, closed: false })],
  });
  assert.deepEqual(rowsOf(held).map((row) => [row.name, row.outcome.text, row.told.text]),
    [["Book", "running", "not yet"], ["Load", "done", "waiting for 1 more result"]]);
  const cut = delivery({ operation_ids: ["load"], reason: "the caller is speaking", tellings: [telling(5, 6, "interrupted")] });
  assert.equal(rowsOf(state({ operations: [done], deliveries: [cut] }))[0].told.text, "cut off, waiting: you are speaking");
});
