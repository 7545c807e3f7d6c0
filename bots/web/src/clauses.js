// SPDX-License-Identifier: BSD-2-Clause
// The parts of the "Now" sentence, most pressing first.

import { counted, listed, plainName, waitingReason } from "./words.js";

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */
/** @typedef {import("./async-tools.js").Delivery} Delivery */
/** @typedef {import("./async-tools.js").Operation} Operation */
/** @typedef {import("./async-tools.js").LocalState} LocalState */

const MANY = 3;

/** @param {Operation} operation */
export const isRunning = (operation) => operation.status === "accepted" || operation.status === "running";

/** @param {Delivery} delivery */
export const wasCutOff = (delivery) => delivery.tellings.at(-1)?.outcome === "interrupted";

/**
 * @param {AsyncToolsState|null} state
 * @param {LocalState} local
 * @returns {string[]} at least one
 */
export function clauses(state, local) {
  const phase = local.phase ?? "live";
  if (phase === "idle") return ["press Call to start"];
  if (phase === "connecting") return ["calling the bot"];
  if (phase === "ended") return ["the call has ended", ...leftUntold(state)];
  const waiting = state ? [...telling(state, local), ...pending(state), ...work(state)] : [];
  if (waiting.length) return waiting;
  const troubles = state ? [...undeliverable(state), ...uncertain(state)] : [];
  return troubles.length ? troubles : [quiet(local)];
}

/** @param {AsyncToolsState|null} state */
function leftUntold(state) {
  const owed = state?.deliveries.filter((d) => d.state === "pending" || d.state === "telling") ?? [];
  const running = state?.operations.filter(isRunning) ?? [];
  return [
    ...(owed.length ? [`${updates(owed)} ${owed.length === 1 ? "was" : "were"} not told`] : []),
    ...(running.length ? [`${names(running)} ${running.length === 1 ? "was" : "were"} still running`] : []),
  ];
}

/**
 * @param {AsyncToolsState} state
 * @param {LocalState} local
 */
function telling(state, local) {
  const told = state.deliveries.filter((d) => d.state === "telling");
  if (!told.length) return [];
  const verb = told.length === 1 ? "is" : "are";
  if (local.botSpeaking === false) return [`${updates(told)} ${verb} about to be told`];
  const how = told.every((d) => d.mode === "next_turn") ? " with the answer to you" : "";
  return [`${updates(told)} ${verb} being told${how}`];
}

/** @param {AsyncToolsState} state */
function pending(state) {
  const owed = state.deliveries.filter((d) => d.state === "pending");
  if (!owed.length) return [];
  const verb = owed.length === 1 ? "is" : "are";
  const reasons = [...new Set(owed.map((d) => waitingReason(d.reason)))];
  if (reasons.every((reason) => !reason)) return [`${updates(owed)} ${verb} about to be told`];
  const first = reasons.find(Boolean);
  return [`${updates(owed)} ${verb} waiting${reasons.length > 1 ? ", the first" : ""} because ${first}`];
}

/** @param {AsyncToolsState} state */
function work(state) {
  const running = state.operations.filter(isRunning);
  if (!running.length) return [];
  const done = resultsHeldBack(state);
  if (done.length) {
    return [`${names(done)} ${done.length === 1 ? "is done and waits" : "are done and wait"} for ${names(running)}`];
  }
  const progress = running.length === 1 && running[0].progress ? ` (${running[0].progress})` : "";
  return [`${names(running)} ${running.length === 1 ? "is" : "are"} still running${progress}`];
}

/**
 * The settled operations of batches that wait for others.
 * @param {AsyncToolsState} state
 */
function resultsHeldBack(state) {
  const open = state.batches.filter((batch) => !batch.closed && batch.missing > 0);
  const ids = new Set(open.flatMap((batch) => batch.operation_ids));
  return state.operations.filter((operation) => ids.has(operation.operation_id) && !isRunning(operation));
}

/** @param {AsyncToolsState} state */
function undeliverable(state) {
  const lost = state.deliveries.filter((d) => d.state === "undeliverable");
  return lost.length ? [`${updates(lost)} could not be told`] : [];
}

/** @param {AsyncToolsState} state */
function uncertain(state) {
  const unknown = state.operations.filter((operation) => operation.status === "unknown");
  return unknown.length ? [`it is not known whether ${names(unknown)} took effect`] : [];
}

/** @param {LocalState} local */
function quiet(local) {
  if (local.userSpeaking) return "you are speaking";
  return local.botSpeaking ? "the bot is speaking" : "nothing is waiting";
}

/** @param {Delivery[]} deliveries */
function updates(deliveries) {
  const word = deliveries.every((d) => d.correction) ? "correction" : "update";
  const cut = deliveries.every(wasCutOff) ? "the rest of " : "";
  return `${cut}${counted(deliveries.length, word)}`;
}

/** @param {Operation[]} operations */
function names(operations) {
  const unique = [...new Set(operations.map((operation) => plainName(operation.tool)))];
  if (unique.length >= MANY || unique.length < operations.length) return counted(operations.length, "operation");
  return listed(unique.map((name) => `“${name}”`));
}
