// SPDX-License-Identifier: BSD-2-Clause
// What went wrong, in a sentence that says what to do.

/**
 * @param {unknown} error what getUserMedia threw
 * @param {boolean} secure whether the browser lets this page ask at all
 */
export function microphoneProblem(error, secure = true) {
  const name = error instanceof Error || error instanceof DOMException ? error.name : "";
  if (!secure) {
    return "The browser gives no microphone to a page that is neither on localhost nor on https: open it there, or type below.";
  }
  if (name === "NotAllowedError" || name === "SecurityError") {
    return "The microphone is refused: allow it for this page in the address bar and call again, or type below.";
  }
  if (name === "NotFoundError") return "No microphone was found: plug one in and call again, or type below.";
  if (name === "NotReadableError") {
    return "The microphone is in use elsewhere: close what uses it and call again, or type below.";
  }
  return "The microphone did not start: check it in the system's settings and call again, or type below.";
}

/**
 * @param {{status?: number, message?: string}} error what the client threw
 * @param {boolean} reachable whether the server answers at all
 */
export function callProblem({ status, message = "" }, reachable = true) {
  if (!reachable) return "The server cannot be reached: check that the bot is running, then call again.";
  if (message === TIMED_OUT) return "The bot did not answer in time: look at its log, then call again.";
  if (status) return `The server refused the call (${status}): look at its log, then call again.`;
  return "The call could not be connected: look at the bot's log and at the network, then call again.";
}

export const TIMED_OUT = "timed out";
export const CONNECTION_LOST =
  "The connection to the bot was lost: check that it is still running, then call again.";
export const NOT_SENT = "Your text was not sent: wait until the bot has answered the call, then send it again.";
