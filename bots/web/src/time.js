// SPDX-License-Identifier: BSD-2-Clause
// The server's clock on the page's clock, and the page's clock on the screen. All times are seconds.

/** Translates the server's times. A message can only be late, so the least late one is the truest. */
export class ServerClock {
  /** @type {number|null} */
  #offset = null;

  /**
   * @param {number} serverNow the time on the message
   * @param {number} localNow when it came
   */
  observe(serverNow, localNow) {
    const offset = localNow - serverNow;
    this.#offset = this.#offset === null ? offset : Math.min(this.#offset, offset);
  }

  /** @param {number} serverTime */
  toLocal(serverTime) {
    return serverTime + (this.#offset ?? 0);
  }
}

/** @typedef {{start: number, end: number, now: number}} View */

/** Where "now" stands once the call fills the screen; right of it is what is still to be heard. */
const NOW_AT = 0.86;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];

/**
 * What part of the call is shown.
 * @param {number} now seconds since the call began
 * @param {number} span seconds on the screen
 * @param {boolean} whole whether to show all of it
 * @returns {View}
 */
export function view(now, span, whole) {
  const passed = span * NOW_AT;
  if (now <= passed) return { start: 0, end: span, now };
  return whole ? { start: 0, end: now / NOW_AT, now } : { start: now - passed, end: now - passed + span, now };
}

/**
 * @param {number} time
 * @param {View} shown
 * @returns {number} 0 at the left edge, 1 at the right
 */
export const position = (time, shown) => (time - shown.start) / (shown.end - shown.start);

/**
 * A span of time as the visible part of the screen.
 * @param {number} start
 * @param {number} end
 * @param {View} shown
 * @returns {{left: number, width: number}|null} fractions; null when nothing of it is visible
 */
export function visible(start, end, shown) {
  const left = Math.max(0, position(start, shown));
  const right = Math.min(1, position(end, shown));
  return right < 0 || left > 1 || right < left ? null : { left, width: right - left };
}

/**
 * Round times for the axis.
 * @param {View} shown
 * @param {number} most how many fit
 * @returns {number[]}
 */
export function ticks(shown, most) {
  const length = shown.end - shown.start;
  const step = STEPS.find((candidate) => length / candidate <= most) ?? STEPS[STEPS.length - 1];
  const first = Math.ceil(shown.start / step) * step;
  const count = Math.floor((shown.end - first) / step) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, index) => first + index * step);
}
