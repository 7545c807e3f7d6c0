// SPDX-License-Identifier: BSD-2-Clause
// What the bot's slow tools are doing, for any JavaScript client of Pipecat: no dependency, no page.
//
//   import { watchAsyncTools } from "./async-tools.js";
//   const stop = watchAsyncTools(pipecatClient, (state) => console.log(describe(state)));

import { clauses } from "./clauses.js";

/** @typedef {"idle"|"waiting"|"aggregating"|"queued_final"|"proactive"|"next_turn"} SyncMode */
/** @typedef {"accepted"|"running"|"succeeded"|"failed"|"timed_out"|"cancelled"|"unknown"} OperationStatus */
/** @typedef {"success"|"business_error"|"rate_limited"|"unavailable"|"timeout"|"ambiguous"} AttemptOutcome */
/** @typedef {"pending"|"telling"|"spoken"|"suppressed"|"undeliverable"} DeliveryState */
/** @typedef {"completed"|"interrupted"|"withdrawn"|"lost"|"unheard"|"uncovered"} TellingOutcome */
/** @typedef {"proactive"|"next_turn"} DeliveryMode */

/**
 * One run of a tool.
 * @typedef {object} Attempt
 * @property {number} number counted from 1
 * @property {number} started_at
 * @property {number|null} ended_at null while it runs
 * @property {AttemptOutcome|null} outcome null while it runs
 */

/**
 * What the caller asked for and a tool does.
 * @typedef {object} Operation
 * @property {string} operation_id
 * @property {string} tool the tool's name
 * @property {string} batch_id
 * @property {string} turn_id
 * @property {OperationStatus} status
 * @property {number} accepted_at
 * @property {number|null} settled_at null while it is not settled
 * @property {string|null} progress the latest progress in words
 * @property {Attempt[]} attempts
 */

/**
 * Operations that are told together.
 * @typedef {object} Batch
 * @property {string} batch_id
 * @property {string} turn_id
 * @property {string[]} operation_ids
 * @property {number} missing how many results are not there yet
 * @property {boolean} closed
 */

/**
 * One attempt to tell an update.
 * @typedef {object} Telling
 * @property {string} telling_id
 * @property {DeliveryMode} mode
 * @property {number|null} started_at null when not a word was said
 * @property {number|null} ended_at null while it is being told
 * @property {TellingOutcome|null} outcome null while it is being told
 * @property {string} heard the words the caller heard
 */

/**
 * An update that the caller is owed.
 * @typedef {object} Delivery
 * @property {string} delivery_id
 * @property {string} batch_id
 * @property {string[]} operation_ids
 * @property {DeliveryState} state
 * @property {string} reason why it is in this state
 * @property {DeliveryMode} mode
 * @property {"normal"|"urgent"} priority
 * @property {number} ready_at
 * @property {boolean} correction whether it corrects what was told before
 * @property {Telling[]} tellings
 */

/**
 * The data of the server message: the whole state, on every change. Times are seconds on the server's clock.
 * @typedef {object} AsyncToolsState
 * @property {"async-tools"} type
 * @property {1} version
 * @property {number} now
 * @property {SyncMode} sync_mode
 * @property {Operation[]} operations
 * @property {Batch[]} batches
 * @property {Delivery[]} deliveries
 */

/**
 * What the client itself knows of the call.
 * @typedef {object} LocalState
 * @property {"idle"|"connecting"|"live"|"ended"} [phase] "live" when left out
 * @property {boolean} [userSpeaking]
 * @property {boolean} [botSpeaking]
 */

export const TYPE = "async-tools";
export const VERSION = 1;

/** @type {(value: unknown) => value is string} */
const isText = (value) => typeof value === "string";
/** @type {(value: unknown) => value is number} */
const isTime = (value) => Number.isFinite(value);
const isTimeOrNull = (/** @type {unknown} */ value) => value === null || isTime(value);
const isTexts = (/** @type {unknown} */ value) => Array.isArray(value) && value.every(isText);

/** @typedef {Record<string, any>} Fields */
/** @type {(value: unknown, check: (fields: Fields) => boolean) => boolean} */
const listOf = (value, check) =>
  Array.isArray(value) && value.every((item) => item !== null && typeof item === "object" && check(item));

const isAttempt = (/** @type {Fields} */ a) =>
  isTime(a.number) && isTime(a.started_at) && isTimeOrNull(a.ended_at) && (a.outcome === null || isText(a.outcome));

const isOperation = (/** @type {Fields} */ o) =>
  isText(o.operation_id) && isText(o.tool) && isText(o.batch_id) && isText(o.status) && isTime(o.accepted_at) &&
  isTimeOrNull(o.settled_at) && (o.progress === null || isText(o.progress)) && listOf(o.attempts, isAttempt);

const isBatch = (/** @type {Fields} */ b) =>
  isText(b.batch_id) && isTexts(b.operation_ids) && isTime(b.missing) && typeof b.closed === "boolean";

const isTelling = (/** @type {Fields} */ t) =>
  isText(t.telling_id) && isTimeOrNull(t.started_at) && isTimeOrNull(t.ended_at) &&
  (t.outcome === null || isText(t.outcome)) && isText(t.heard);

const isDelivery = (/** @type {Fields} */ d) =>
  isText(d.delivery_id) && isTexts(d.operation_ids) && isText(d.state) && isText(d.reason) && isText(d.mode) &&
  isTime(d.ready_at) && typeof d.correction === "boolean" && listOf(d.tellings, isTelling);

/**
 * Whether a server message is a state that this version understands. Unknown fields are allowed.
 * @param {unknown} data
 * @returns {data is AsyncToolsState}
 */
export function isAsyncToolsState(data) {
  const state = /** @type {Fields} */ (data);
  return (
    state !== null && typeof state === "object" && state.type === TYPE && state.version === VERSION &&
    isTime(state.now) && isText(state.sync_mode) && listOf(state.operations, isOperation) &&
    listOf(state.batches, isBatch) && listOf(state.deliveries, isDelivery)
  );
}

/**
 * The part of a PipecatClient that is needed.
 * @typedef {object} MessageSource
 * @property {(event: any, listener: (data: unknown) => void) => unknown} on
 * @property {(event: any, listener: (data: unknown) => void) => unknown} off
 */

/**
 * Calls back with every state the bot sends; other server messages are left alone.
 * @param {MessageSource} client a PipecatClient
 * @param {(state: AsyncToolsState) => void} onState
 * @returns {() => void} stops watching
 */
export function watchAsyncTools(client, onState) {
  const listener = (/** @type {unknown} */ data) => {
    if (isAsyncToolsState(data)) onState(data);
  };
  client.on("serverMessage", listener);
  return () => void client.off("serverMessage", listener);
}

/**
 * What waits, and why, in one sentence for people.
 * @param {AsyncToolsState|null} state
 * @param {LocalState} [local]
 * @returns {string}
 */
export function describe(state, local = {}) {
  const text = clauses(state, local).join(", and ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
