// SPDX-License-Identifier: BSD-2-Clause
// Names, counts and reasons as people say them.

/** @type {Record<string, string>} */
const REASONS = {
  "the caller is speaking": "you are speaking",
  "the bot is speaking": "the bot is speaking",
  "the caller's turn is open": "you have not finished your turn",
  "the caller is owed an answer": "the bot owes you an answer first",
  "it has not been quiet for long enough": "it has only just become quiet",
  "the caller has not been greeted yet": "you have not been greeted yet",
  "the store has not granted it": "the bot has not been cleared to tell it",
};

/** @type {Record<string, string>} */
export const STATUSES = {
  accepted: "starting",
  running: "running",
  succeeded: "done",
  failed: "failed",
  timed_out: "timed out",
  cancelled: "cancelled",
  unknown: "outcome unknown",
};

/** @type {Record<string, string>} */
export const OUTCOMES = {
  success: "worked",
  business_error: "was refused",
  rate_limited: "was rate limited",
  unavailable: "found the service unavailable",
  timeout: "timed out",
  ambiguous: "ended without saying whether it took effect",
};

/**
 * A tool's name in words: "check_availability" is "check availability".
 * @param {string} name
 */
export const plainName = (name) => name.replace(/[_-]+/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

/** @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * @param {number} count
 * @param {string} one
 */
export const counted = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

/** @param {string[]} names */
export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/**
 * Why a delivery waits, to the caller; empty when it does not say why or is free to be told.
 * @param {string} reason as the server gives it
 */
export function waitingReason(reason) {
  if (Object.hasOwn(REASONS, reason)) return REASONS[reason];
  if (!/^(the|it|you|no|nobody) \w+ /.test(reason) || reason === "the channel is free") return "";
  return reason
    .replace(/\bthe caller's\b/g, "your")
    .replace(/\bthe caller is\b/g, "you are")
    .replace(/\bthe caller has\b/g, "you have")
    .replace(/\bthe caller was\b/g, "you were")
    .replace(/\bthe caller\b/g, "you");
}

/** @param {number} secs */
export function clockTime(secs) {
  const whole = Math.max(0, Math.floor(secs));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** @param {number} secs */
export const duration = (secs) => `${Math.max(0, secs).toFixed(1)} s`;
