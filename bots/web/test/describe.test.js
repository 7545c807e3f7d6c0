// SPDX-License-Identifier: BSD-2-Clause
import assert from "node:assert/strict";
import { test } from "node:test";
import { describe, isAsyncToolsState, watchAsyncTools } from "../src/async-tools.js";
import { waitingReason } from "../src/words.js";
import { attempt, batch, delivery, operation, state, telling } from "./states.js";

const says = (name, given, local, sentence) => test(name, () => assert.equal(describe(given, local), sentence));
const waiting = (reason, more = {}) => state({ deliveries: [delivery({ reason, ...more })] });

says("before the call", null, { phase: "idle" }, "Press Call to start.");
says("while it connects", null, { phase: "connecting" }, "Calling the bot.");
says("nothing known yet", null, {}, "Nothing is waiting.");
says("the caller speaks", state(), { userSpeaking: true, botSpeaking: true }, "You are speaking.");
says("the bot speaks", state(), { botSpeaking: true }, "The bot is speaking.");
says("one waits for the caller", waiting("the caller is speaking"), {}, "1 update is waiting because you are speaking.");
says("one waits for the bot", waiting("the bot is speaking"), {}, "1 update is waiting because the bot is speaking.");
says("one waits for an answer", waiting("the caller is owed an answer"), {},
  "1 update is waiting because the bot owes you an answer first.");
says("a correction waits", waiting("the caller is speaking", { correction: true }), {},
  "1 correction is waiting because you are speaking.");
says("what was cut off waits", waiting("the caller is speaking", { tellings: [telling(5, 6, "interrupted")] }), {},
  "The rest of 1 update is waiting because you are speaking.");
says("free to go", waiting("the channel is free"), {}, "1 update is about to be told.");
says("a reason of an application", waiting("the caller has put us on hold"), {},
  "1 update is waiting because you have put us on hold.");
says("two wait for the same", state({ deliveries: [
  delivery({ reason: "the bot is speaking" }), delivery({ delivery_id: "d2", reason: "the bot is speaking" }),
] }), {}, "2 updates are waiting because the bot is speaking.");
says("two wait for different things", state({ deliveries: [
  delivery({ reason: "the bot is speaking" }), delivery({ delivery_id: "d2", reason: "the caller is owed an answer" }),
] }), {}, "2 updates are waiting, the first because the bot is speaking.");
says("being told", state({ deliveries: [delivery({ state: "telling" })] }), { botSpeaking: true },
  "1 update is being told.");
says("told with the answer", state({ deliveries: [delivery({ state: "telling", mode: "next_turn" })] }),
  { botSpeaking: true }, "1 update is being told with the answer to you.");
says("not yet a word of it", state({ deliveries: [delivery({ state: "telling" })] }), { botSpeaking: false },
  "1 update is about to be told.");
says("work", state({ operations: [operation("load_customer")] }), {}, "“load customer” is still running.");
says("work with progress", state({ operations: [operation("load_customer", { progress: "2 of 3 done" })] }), {},
  "“load customer” is still running (2 of 3 done).");
says("two at work", state({ operations: [operation("load_customer"), operation("book")] }), {},
  "“load customer” and “book” are still running.");
says("many at work", state({ operations: [operation("a"), operation("b"), operation("c")] }), {},
  "3 operations are still running.");
says("a batch waits for its rest", state({
  operations: [operation("load_customer", { status: "succeeded", settled_at: 3 }), operation("book")],
  batches: [batch(["load_customer", "book"], { missing: 1, closed: false })],
}), {}, "“load customer” is done and waits for “book”.");
says("an update waits and work goes on", state({
  operations: [operation("book")], deliveries: [delivery({ reason: "the caller is speaking" })],
}), {}, "1 update is waiting because you are speaking, and “book” is still running.");
says("what could not be told", state({ deliveries: [delivery({ state: "undeliverable", reason: "x" })] }), {},
  "1 update could not be told.");
says("what nobody knows", state({ operations: [operation("book", { status: "unknown", settled_at: 3 })] }), {},
  "It is not known whether “book” took effect.");
says("the end", state(), { phase: "ended" }, "The call has ended.");
says("the end with something owed", waiting("the caller is speaking"), { phase: "ended" },
  "The call has ended, and 1 update was not told.");

test("a reason that is no clause is left out", () => {
  for (const reason of ["", "partial", "replayed", "urgent", "the channel is free"]) {
    assert.equal(waitingReason(reason), "");
  }
});

test("a full state is understood, with fields of the future", () => {
  const full = state({
    later: 1, batches: [batch(["book"])], deliveries: [delivery({ tellings: [telling(null, 6, "withdrawn")] })],
    operations: [operation("book", { attempts: [attempt(1, 1, 2, "timeout"), attempt(2, 3)] })],
  });
  assert.ok(isAsyncToolsState(full));
});

test("everything else is not", () => {
  for (const data of [null, undefined, "async-tools", 1, [], {}, state({ version: 2 }), state({ type: "other" }),
    state({ now: null }), state({ operations: {} }), state({ operations: [null] }),
    state({ operations: [operation("book", { attempts: [{}] })] }), state({ batches: [{ batch_id: "b" }] }),
    state({ deliveries: [delivery({ ready_at: "soon" })] }), state({ deliveries: [delivery({ tellings: [1] })] })]) {
    assert.equal(isAsyncToolsState(data), false);
  }
});

test("watching passes states only, until it is stopped", () => {
  const listeners = new Set();
  const client = { on: (_, listener) => listeners.add(listener), off: (_, listener) => listeners.delete(listener) };
  const seen = [];
  const stop = watchAsyncTools(client, (given) => seen.push(given.now));
  for (const data of [state(), { type: "toast" }, state({ now: 11 })]) for (const listener of listeners) listener(data);
  stop();
  assert.deepEqual(seen, [10, 11]);
  assert.equal(listeners.size, 0);
});
