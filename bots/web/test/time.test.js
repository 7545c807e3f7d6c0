// SPDX-License-Identifier: BSD-2-Clause
import assert from "node:assert/strict";
import { test } from "node:test";
import { position, ServerClock, ticks, view, visible } from "../src/time.js";

test("the least late message sets the clock", () => {
  const clock = new ServerClock();
  clock.observe(100, 7.5);
  clock.observe(101, 8.1);
  clock.observe(102, 9.9);
  assert.ok(Math.abs(clock.toLocal(103) - 10.1) < 1e-9);
});

test("a young call fills the screen from the left", () => {
  assert.deepEqual(view(5, 30, false), { start: 0, end: 30, now: 5 });
});

test("an older one scrolls, with room for what is still to be heard", () => {
  const shown = view(100, 30, false);
  assert.ok(shown.start > 0 && shown.end > 100);
  assert.equal(Math.round(shown.end - shown.start), 30);
});

test("the whole call can be seen", () => {
  const shown = view(100, 30, true);
  assert.equal(shown.start, 0);
  assert.ok(position(100, shown) > 0.8 && position(100, shown) < 0.9);
});

test("what is partly on the screen is cut at its edges, and the rest is left out", () => {
  const shown = { start: 10, end: 20, now: 18 };
  assert.deepEqual(visible(5, 15, shown), { left: 0, width: 0.5 });
  assert.deepEqual(visible(15, 25, shown), { left: 0.5, width: 0.5 });
  assert.deepEqual(visible(12, 12, shown), { left: 0.2, width: 0 });
  assert.equal(visible(1, 5, shown), null);
  assert.equal(visible(25, 30, shown), null);
  assert.equal(visible(15, 12, shown), null);
});

test("the axis has round times, and no more than fit", () => {
  assert.deepEqual(ticks({ start: 12.3, end: 42.3, now: 40 }, 7), [15, 20, 25, 30, 35, 40]);
  assert.deepEqual(ticks({ start: 0, end: 600, now: 500 }, 6), [0, 120, 240, 360, 480, 600]);
  assert.ok(ticks({ start: 0, end: 1e6, now: 1 }, 4).length < 300);
});
