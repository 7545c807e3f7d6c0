// SPDX-License-Identifier: BSD-2-Clause
// The table of operations, newest first.

import { isRunning, wasCutOff } from "./clauses.js";
import { element, keyed, make, setAttribute, setText } from "./dom.js";
import { nameAmong } from "./lanes.js";
import { counted, OUTCOMES, STATUSES, waitingReason } from "./words.js";

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */
/** @typedef {import("./async-tools.js").Operation} Operation */
/** @typedef {import("./async-tools.js").Delivery} Delivery */
/** @typedef {{text: string, look: "good"|"warn"|"bad"|"plain"}} Chip */
/** @typedef {{key: string, name: string, detail: string, outcome: Chip, told: Chip}} Row */

/** @param {AsyncToolsState|null} state */
export function drawOperations(state) {
  const rows = state ? rowsOf(state) : [];
  const table = element("operations");
  table.hidden = rows.length === 0;
  element("no-operations").hidden = rows.length > 0;
  keyed(table.tBodies[0], rows, createRow, changeRow);
}

/**
 * @param {AsyncToolsState} state
 * @returns {Row[]}
 */
export function rowsOf(state) {
  return state.operations.map((operation) => ({
    key: operation.operation_id,
    name: nameAmong(operation, state.operations),
    detail: detail(operation),
    outcome: outcome(operation),
    told: told(operation, state),
  })).reverse();
}

/** @param {Operation} operation */
function detail(operation) {
  const failed = operation.attempts.filter((attempt) => attempt.outcome && attempt.outcome !== "success");
  const why = [...new Set(failed.map((attempt) => OUTCOMES[attempt.outcome ?? ""] ?? attempt.outcome))];
  const attempts = counted(operation.attempts.length, "attempt");
  const progress = isRunning(operation) && operation.progress ? `${operation.progress}; ` : "";
  return `${progress}${attempts}${why.length ? `: one ${why.join(", one ")}` : ""}`;
}

/**
 * @param {Operation} operation
 * @returns {Chip}
 */
function outcome({ status }) {
  const looks = /** @type {Record<string, Chip["look"]>} */ ({ succeeded: "good", accepted: "plain", running: "plain", cancelled: "plain", unknown: "warn" });
  return { text: STATUSES[status] ?? status, look: looks[status] ?? "bad" };
}

/**
 * @param {Operation} operation
 * @param {AsyncToolsState} state
 * @returns {Chip}
 */
function told(operation, state) {
  const delivery = state.deliveries.findLast((one) => one.operation_ids.includes(operation.operation_id));
  if (delivery) return deliveryChip(delivery);
  if (isRunning(operation)) return { text: "not yet", look: "plain" };
  const batch = state.batches.find((one) => one.operation_ids.includes(operation.operation_id));
  const held = batch && !batch.closed && batch.missing > 0;
  return { text: held ? `waiting for ${counted(batch.missing, "more result")}` : "not yet", look: held ? "warn" : "plain" };
}

/**
 * @param {Delivery} delivery
 * @returns {Chip}
 */
function deliveryChip(delivery) {
  const reason = waitingReason(delivery.reason);
  const cut = wasCutOff(delivery) ? "cut off, " : "";
  switch (delivery.state) {
    case "spoken": return { text: "told", look: "good" };
    case "telling": return { text: "being told", look: "good" };
    case "pending": return { text: `${cut}waiting${reason ? `: ${reason}` : ""}`, look: "warn" };
    case "suppressed": return { text: `not told: ${delivery.reason}`, look: "plain" };
    default: return { text: `could not be told: ${delivery.reason}`, look: "bad" };
  }
}

function createRow() {
  const row = make("tr");
  const name = make("th");
  name.setAttribute("scope", "row");
  name.append(make("span", "tool"), make("span", "detail"));
  const cells = [make("td"), make("td")];
  for (const cell of cells) cell.append(make("span", "chip"));
  row.append(name, ...cells);
  return row;
}

/**
 * @param {HTMLElement} row
 * @param {Row} content
 */
function changeRow(row, content) {
  const [name, outcomeCell, toldCell] = /** @type {HTMLElement[]} */ ([...row.children]);
  setText(name.children[0], content.name);
  setText(name.children[1], content.detail);
  changeChip(outcomeCell.children[0], content.outcome);
  changeChip(toldCell.children[0], content.told);
}

/**
 * @param {Element} node
 * @param {Chip} chip
 */
function changeChip(node, chip) {
  setText(node, chip.text);
  setAttribute(node, "class", `chip ${chip.look}`);
}
