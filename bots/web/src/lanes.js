// SPDX-License-Identifier: BSD-2-Clause
// What stands on which lane, from when to when. Pure: times are seconds into the call, nothing is drawn here.

import { isRunning } from "./clauses.js";
import { isCutOff, unheardSecs } from "./speech.js";
import { capital, duration, OUTCOMES, plainName, STATUSES } from "./words.js";
import { updateBoxes } from "./updates.js";

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */
/** @typedef {import("./async-tools.js").Operation} Operation */
/** @typedef {import("./async-tools.js").Attempt} Attempt */
/** @typedef {import("./speech.js").Utterance} Utterance */

/**
 * Something on a lane.
 * @typedef {object} Box
 * @property {string} key
 * @property {number} start
 * @property {number} end
 * @property {string} kind the look
 * @property {string} text written in it
 * @property {string} title all there is to say about it
 * @property {number} [row] 0 at the top, where boxes overlap
 */

/** @typedef {{key: string, at: number, kind: "success"|"failure"|"unclear"|"running", sign: string, title: string}} Dot */
/** @typedef {{key: string, name: string, title: string, summary: string, boxes: Box[], dots: Dot[], rows: number}} Lane */

/**
 * @param {object} call
 * @param {Utterance[]} call.utterances
 * @param {AsyncToolsState|null} call.state
 * @param {(serverTime: number) => number} call.time the server's time in seconds into the call
 * @param {(deliveryId: string) => number|undefined} call.since when a delivery came to be in its state
 * @param {number} call.now
 * @returns {Lane[]}
 */
export function lanes({ utterances, state, time, since, now }) {
  const operations = state?.operations ?? [];
  const boxes = state ? stacked(updateBoxes(state, { time, since, now })) : [];
  return [
    lane("user", "You", utterances.filter((u) => u.who === "user").map((u) => spoken(u, now))),
    lane("bot", "Bot", utterances.filter((u) => u.who === "bot").flatMap((u) => botBoxes(u, utterances, now))),
    ...operations.map((operation) => operationLane(operation, operations, time, now)),
    lane("updates", "Updates", boxes),
  ];
}

/**
 * @param {string} key
 * @param {string} name
 * @param {Box[]} boxes
 * @param {Partial<Lane>} [more]
 * @returns {Lane}
 */
function lane(key, name, boxes, more = {}) {
  const rows = 1 + Math.max(0, ...boxes.map((box) => box.row ?? 0));
  const summary = boxes.at(-1)?.title ?? "nothing yet";
  return { key, name, title: name, summary, boxes, dots: [], rows, ...more };
}

/**
 * @param {Utterance} utterance
 * @param {number} now
 * @returns {Box}
 */
function spoken(utterance, now) {
  const { id, who, start, typed, heard } = utterance;
  const kind = typed ? "typed" : who;
  const said = typed ? "typed" : "said";
  const title = who === "bot" ? `heard: ${heard || "…"}` : `${said}: ${heard || "…"}`;
  return { key: `speech-${id}`, start, end: utterance.end ?? now, kind, text: typed ? "Aa" : heard, title };
}

/**
 * @param {Utterance} utterance
 * @param {Utterance[]} all
 * @param {number} now
 * @returns {Box[]}
 */
function botBoxes(utterance, all, now) {
  const heard = spoken(utterance, now);
  if (!utterance.unheard || (utterance.end !== null && !isCutOff(utterance, now))) return [heard];
  const next = all.find((other) => other.who === "bot" && other.start > utterance.start);
  const end = Math.min(heard.end + unheardSecs(utterance, now), next?.start ?? Infinity);
  const cut = utterance.end !== null;
  const title = cut ? `cut off, not heard: ${utterance.unheard}` : `still to be said: ${utterance.unheard}`;
  return [
    { ...heard, kind: cut ? "bot cut-here" : "bot" },
    { key: `unheard-${utterance.id}`, start: heard.end, end, kind: cut ? "unheard" : "unheard coming", text: "", title },
  ];
}

/**
 * @param {Operation} operation
 * @param {Operation[]} all
 * @param {(serverTime: number) => number} time
 * @param {number} now
 * @returns {Lane}
 */
function operationLane(operation, all, time, now) {
  const { operation_id: id, status } = operation;
  const start = time(operation.accepted_at);
  const end = operation.settled_at === null ? now : time(operation.settled_at);
  const title = `${plainName(operation.tool)}: ${STATUSES[status] ?? status} after ${duration(end - start)}`;
  const running = isRunning(operation);
  const text = running ? (operation.progress ?? "") : "";
  const box = { key: `operation-${id}`, start, end, kind: `operation ${status}${running ? " open" : ""}`, text, title };
  const dots = operation.attempts.map((attempt) => dot(id, attempt, time));
  return lane(`operation-${id}`, nameAmong(operation, all), [box], { title: operation.tool, dots });
}

/**
 * @param {string} id
 * @param {Attempt} attempt
 * @param {(serverTime: number) => number} time
 * @returns {Dot}
 */
function dot(id, attempt, time) {
  const at = time(attempt.ended_at ?? attempt.started_at);
  const key = `attempt-${id}-${attempt.number}`;
  const ran = attempt.ended_at === null ? "" : ` after ${duration(attempt.ended_at - attempt.started_at)}`;
  const title = `attempt ${attempt.number} ${attempt.outcome ? (OUTCOMES[attempt.outcome] ?? attempt.outcome) : "runs"}${ran}`;
  if (!attempt.outcome) return { key, at, kind: "running", sign: "…", title };
  if (attempt.outcome === "success") return { key, at, kind: "success", sign: "✓", title };
  if (attempt.outcome === "ambiguous") return { key, at, kind: "unclear", sign: "?", title };
  return { key, at, kind: "failure", sign: "✕", title };
}

/**
 * The operation's name, with a number where a tool runs more than once.
 * @param {Operation} operation
 * @param {Operation[]} all
 */
export function nameAmong(operation, all) {
  const same = all.filter((other) => other.tool === operation.tool);
  const name = capital(plainName(operation.tool));
  return same.length > 1 ? `${name} ${same.indexOf(operation) + 1}` : name;
}

/**
 * Puts boxes that overlap under each other; what belongs to one delivery stays in one row.
 * @param {(Box & {group: string})[]} boxes
 * @returns {Box[]}
 */
export function stacked(boxes) {
  /** @type {Map<string, {start: number, end: number, row: number}>} */
  const groups = new Map();
  for (const box of boxes) {
    const group = groups.get(box.group) ?? { start: Infinity, end: -Infinity, row: 0 };
    group.start = Math.min(group.start, box.start);
    group.end = Math.max(group.end, box.end);
    groups.set(box.group, group);
  }
  /** @type {number[]} */
  const rowEnds = [];
  for (const group of [...groups.values()].sort((one, other) => one.start - other.start)) {
    const free = rowEnds.findIndex((end) => end <= group.start);
    group.row = free < 0 ? rowEnds.length : free;
    rowEnds[group.row] = group.end;
  }
  return boxes.map((box) => ({ ...box, row: groups.get(box.group)?.row ?? 0 }));
}
