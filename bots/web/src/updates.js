// SPDX-License-Identifier: BSD-2-Clause
// The lane of deliveries: waiting, being told, told, cut off.

import { capital, listed, plainName, waitingReason } from "./words.js";

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */
/** @typedef {import("./async-tools.js").Delivery} Delivery */
/** @typedef {import("./async-tools.js").Telling} Telling */
/** @typedef {import("./lanes.js").Box & {group: string}} UpdateBox */
/** @typedef {{time: (serverTime: number) => number, since: (deliveryId: string) => number|undefined, now: number}} Times */

/** @type {Record<string, {kind: string, text: string}>} */
const LOOKS = {
  completed: { kind: "told", text: "told" },
  interrupted: { kind: "cut", text: "cut off" },
  unheard: { kind: "missed", text: "not heard" },
  lost: { kind: "missed", text: "lost" },
  uncovered: { kind: "missed", text: "left out" },
};
const SHORTEST_SECS = 0.15;
const MARK_SECS = 0.6;

/**
 * @param {AsyncToolsState} state
 * @param {Times} times
 * @returns {UpdateBox[]}
 */
export function updateBoxes(state, times) {
  const tools = new Map(state.operations.map((operation) => [operation.operation_id, operation.tool]));
  return state.deliveries.flatMap((delivery) => boxesOf(delivery, about(delivery, tools), times));
}

/**
 * @param {Delivery} delivery
 * @param {Map<string, string>} tools
 */
function about(delivery, tools) {
  const names = delivery.operation_ids.map((id) => plainName(tools.get(id) ?? "an operation"));
  return `${delivery.correction ? "correction" : "update"} on ${listed([...new Set(names)])}`;
}

/**
 * @param {Delivery} delivery
 * @param {string} subject
 * @param {Times} times
 * @returns {UpdateBox[]}
 */
function boxesOf(delivery, subject, times) {
  /** @type {UpdateBox[]} */
  const boxes = [];
  let waitsFrom = times.time(delivery.ready_at);
  const group = delivery.delivery_id;
  const add = (/** @type {Omit<UpdateBox, "key"|"group">} */ box) => {
    boxes.push({ ...box, key: `${group}-${boxes.length}`, group });
  };
  const wait = (/** @type {number} */ end, text = "", title = `${subject}: waited`) => {
    if (end - waitsFrom > SHORTEST_SECS) add({ start: waitsFrom, end, kind: "wait", text, title });
  };
  for (const telling of delivery.tellings.filter((one) => one.outcome && one.started_at !== null)) {
    const start = times.time(/** @type {number} */ (telling.started_at));
    const end = times.time(telling.ended_at ?? /** @type {number} */ (telling.started_at));
    wait(start);
    add({ start, end, ...look(telling, subject) });
    waitsFrom = end;
  }
  last(delivery, subject, times, waitsFrom, wait, add);
  return boxes;
}

/**
 * @param {Telling} telling
 * @param {string} subject
 */
function look(telling, subject) {
  const { kind, text } = LOOKS[telling.outcome ?? ""] ?? { kind: "missed", text: telling.outcome ?? "" };
  const heard = telling.heard ? `, heard: ${telling.heard}` : "";
  return { kind, text, title: `${subject}: ${text}${heard}` };
}

/**
 * The state it is in now.
 * @param {Delivery} delivery
 * @param {string} subject
 * @param {Times} times
 * @param {number} waitsFrom
 * @param {(end: number, text?: string, title?: string) => void} wait
 * @param {(box: Omit<UpdateBox, "key"|"group">) => void} add
 */
function last(delivery, subject, times, waitsFrom, wait, add) {
  const changed = times.since(delivery.delivery_id);
  const at = Math.max(waitsFrom, changed === undefined ? waitsFrom : times.time(changed));
  if (delivery.state === "pending") {
    const reason = waitingReason(delivery.reason);
    wait(times.now, reason || "waiting", `${capital(subject)} waits${reason ? `: ${reason}` : ""}`);
  } else if (delivery.state === "telling") {
    const open = delivery.tellings.find((one) => !one.outcome && one.started_at !== null);
    const start = open?.started_at ? times.time(open.started_at) : at;
    wait(start);
    add({ start, end: Math.max(start, times.now), kind: "telling", text: "telling", title: `${capital(subject)}: being told` });
  } else if (delivery.state === "undeliverable") {
    wait(at);
    add({ start: at, end: at + MARK_SECS, kind: "lost", text: "✕", title: `${capital(subject)} could not be told: ${delivery.reason}` });
  } else if (delivery.state === "suppressed") {
    wait(at);
    add({ start: at, end: at + MARK_SECS, kind: "hushed", text: "–", title: `${capital(subject)} is not told: ${delivery.reason}` });
  }
}
