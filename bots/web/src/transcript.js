// SPDX-License-Identifier: BSD-2-Clause
// What was said, and how much of it was heard. What is over moves into the log that is read out.

import { element, keyed, make, setText } from "./dom.js";
import { isCutOff, isOver } from "./speech.js";

/** @typedef {import("./speech.js").Utterance} Utterance */
/** @typedef {Utterance & {key: string, cut: boolean}} Line */

const NEAR_END_PX = 40;

/**
 * @param {Utterance[]} utterances
 * @param {number} now
 */
export function drawTranscript(utterances, now) {
  const lines = utterances
    .filter((utterance) => utterance.heard || utterance.unheard)
    .map((utterance) => ({ ...utterance, key: `line-${utterance.id}`, cut: isCutOff(utterance, now) }));
  const said = element("said");
  const followed = said.scrollHeight - said.scrollTop - said.clientHeight < NEAR_END_PX;
  // In the order of their beginnings: a line is over for the log only once those before it are.
  const goingOn = lines.findIndex((line) => !isOver(line, now));
  const settled = goingOn < 0 ? lines.length : goingOn;
  keyed(element("transcript"), lines.slice(0, settled), createLine, changeLine);
  keyed(element("saying"), lines.slice(settled), createLine, changeLine);
  element("nothing-said").hidden = lines.length > 0;
  if (followed) said.scrollTop = said.scrollHeight;
}

/** @param {Line} line */
function createLine(line) {
  const item = make("li", line.who);
  item.append(
    make("b", "", line.who === "user" ? "You" : "Bot"), " ", make("span"), " ", make("s"), " ", make("span", "chip"),
  );
  return item;
}

/**
 * @param {HTMLElement} item
 * @param {Line} line
 */
function changeLine(item, line) {
  const [, heard, unheard, chip] = /** @type {HTMLElement[]} */ ([...item.children]);
  setText(heard, line.heard);
  setText(unheard, line.unheard);
  unheard.classList.toggle("coming", !line.cut);
  setText(chip, line.cut ? "cut off" : line.typed ? "typed" : "");
  chip.classList.toggle("warn", line.cut);
  chip.hidden = !chip.textContent;
}
