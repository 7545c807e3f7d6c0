// SPDX-License-Identifier: BSD-2-Clause
// Draws the lanes.

import { element, keyed, make, setAttribute, setText } from "./dom.js";
import { position, ticks, visible } from "./time.js";
import { clockTime } from "./words.js";

/** @typedef {import("./lanes.js").Lane} Lane */
/** @typedef {import("./lanes.js").Box} Box */
/** @typedef {import("./lanes.js").Dot} Dot */
/** @typedef {import("./time.js").View} View */

const percent = (/** @type {number} */ fraction) => `${(fraction * 100).toFixed(3)}%`;

/**
 * @param {Lane[]} lanes
 * @param {View} shown
 */
export function drawTimeline(lanes, shown) {
  const root = element("lanes");
  root.style.setProperty("--now", String(Math.min(1, position(shown.now, shown))));
  keyed(root, lanes, createLane, (node, lane) => changeLane(node, lane, shown));
  drawTicks(shown);
}

/** @param {View} shown */
function drawTicks(shown) {
  const axis = element("ticks");
  const items = ticks(shown, axis.clientWidth / 56).map((at) => ({ key: `tick-${at}`, at }));
  keyed(axis, items, ({ at }) => make("span", "", clockTime(at)), (node, { at }) => {
    const fraction = position(at, shown);
    node.style.left = percent(fraction);
    node.classList.toggle("edge-left", fraction < 0.03);
    node.classList.toggle("edge-right", fraction > 0.96);
  });
}

function createLane() {
  const row = make("div", "lane");
  row.setAttribute("role", "listitem");
  const track = make("div", "track");
  track.setAttribute("aria-hidden", "true");
  row.append(make("span", "name"), make("span", "sr"), track);
  return row;
}

/**
 * @param {HTMLElement} row
 * @param {Lane} lane
 * @param {View} shown
 */
function changeLane(row, lane, shown) {
  const [name, summary, track] = /** @type {HTMLElement[]} */ ([...row.children]);
  setText(name, lane.name);
  setAttribute(name, "title", lane.title);
  setText(summary, `: ${lane.summary}${lane.dots.map((dot) => `, ${dot.title}`).join("")}`);
  row.style.setProperty("--rows", String(lane.rows));
  /** @type {((Box|Dot) & {left: number, width: number})[]} */
  const marks = [];
  for (const box of lane.boxes) {
    const place = visible(box.start, box.end, shown);
    if (place) marks.push({ ...box, ...place });
  }
  for (const dot of lane.dots) {
    const place = visible(dot.at, dot.at, shown);
    if (place) marks.push({ ...dot, ...place });
  }
  const past = lane.boxes.length > 0 && marks.length === 0;
  row.classList.toggle("past", past && lane.boxes.every((box) => box.end < shown.start));
  keyed(track, marks, () => make("span"), changeMark);
}

/**
 * @param {HTMLElement} node
 * @param {(Box|Dot) & {left: number, width: number}} mark
 */
function changeMark(node, mark) {
  const isDot = "sign" in mark;
  setAttribute(node, "class", isDot ? `dot ${mark.kind}` : `box ${mark.kind}`);
  setAttribute(node, "title", mark.title);
  setText(node, isDot ? mark.sign : mark.text);
  node.style.left = percent(mark.left);
  if (isDot) return;
  node.style.width = percent(mark.width);
  node.style.setProperty("--row", String(mark.row ?? 0));
}
