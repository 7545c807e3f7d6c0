// SPDX-License-Identifier: BSD-2-Clause
// The page: one button, and what the call looks like.

import { describe, isAsyncToolsState } from "./async-tools.js";
import { Call } from "./call.js";
import { element, make, setAttribute, setText } from "./dom.js";
import { History } from "./history.js";
import { lanes } from "./lanes.js";
import { drawOperations } from "./operations.js";
import { NOT_SENT } from "./problems.js";
import { Speech } from "./speech.js";
import { ServerClock, view } from "./time.js";
import { drawTimeline } from "./timeline.js";
import { drawTranscript } from "./transcript.js";
import { clockTime } from "./words.js";

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */
/** @typedef {"idle"|"connecting"|"live"|"ended"} Phase */

const REDRAW_MS = 100;
const PIXELS_PER_SEC = 30;
const LONGEST_SPAN_SECS = 40;
const SHORTEST_SPAN_SECS = 14;
const PHASES = { idle: "Not connected", connecting: "Calling…", live: "Connected", ended: "Ended" };

class Page {
  /** @type {Phase} */
  phase = "idle";
  whole = false;
  /** @type {Call|null} */
  call = null;
  /** @type {AsyncToolsState|null} */
  state = null;
  speech = new Speech();
  history = new History();
  serverClock = new ServerClock();
  startedAt = 0;
  /** @type {number|null} */
  endedAt = null;

  /** Seconds into the call. */
  get now() {
    if (this.phase === "idle") return 0;
    return this.endedAt ?? performance.now() / 1000 - this.startedAt;
  }

  begin() {
    Object.assign(this, { state: null, speech: new Speech(), history: new History(), serverClock: new ServerClock() });
    this.startedAt = performance.now() / 1000;
    this.endedAt = null;
  }

  toggle() {
    if (this.phase === "connecting" || this.phase === "live") return void this.call?.hangUp();
    this.begin();
    this.say("");
    this.enter("connecting");
    const call = new Call(this.events(() => this.call === call), element("voice"));
    this.call = call;
    void call.start();
  }

  /**
   * @param {() => boolean} current whether the events are still those of the call on the page
   * @returns {import("./call.js").CallEvents}
   */
  events(current) {
    return {
      onLive: () => current() && this.enter("live"),
      onOver: () => current() && this.over(),
      onProblem: (sentence) => current() && this.say(sentence),
      onState: (state) => current() && this.show(state),
      onSpeech: (event) => current() && this.phase !== "ended" && this.hear(event),
    };
  }

  over() {
    this.endedAt = this.now;
    this.speech.ended(this.now);
    this.enter("ended");
  }

  /** @param {import("./call.js").SpeechEvent} event */
  hear(event) {
    event(this.speech, this.now);
    this.draw();
  }

  /** @param {unknown} state */
  show(state) {
    if (!isAsyncToolsState(state)) return;
    this.serverClock.observe(state.now, performance.now() / 1000);
    this.history.observe(state);
    this.state = state;
    this.draw();
  }

  /** @param {Phase} phase */
  enter(phase) {
    this.phase = phase;
    const inCall = phase === "connecting" || phase === "live";
    setText(element("call"), inCall ? "Hang up" : phase === "ended" ? "Call again" : "Call");
    element("call").classList.toggle("hang-up", inCall);
    setText(element("phase"), PHASES[phase]);
    setAttribute(element("phase"), "data-phase", phase);
    for (const id of ["text", "send"]) element(id).disabled = phase !== "live";
    for (const button of element("phrases").children) button.disabled = phase !== "live";
    this.draw();
  }

  /** @param {string} problem */
  say(problem) {
    element("problem").hidden = !problem;
    setText(element("problem"), problem);
  }

  /** @param {string} text */
  async type(text) {
    try {
      await this.call?.type(text);
      this.hear((speech, at) => speech.typed(text, at));
    } catch {
      this.say(NOT_SENT);
    }
  }

  draw() {
    const { now, state, speech, history, serverClock, phase } = this;
    const local = { phase, userSpeaking: speech.isSpeaking("user"), botSpeaking: speech.isSpeaking("bot") };
    setText(element("now"), describe(state, local));
    setText(element("clock"), phase === "idle" ? "" : clockTime(now));
    const time = (/** @type {number} */ at) => serverClock.toLocal(at) - this.startedAt;
    const drawn = lanes({ utterances: speech.utterances, state, time, since: (id) => history.since(id), now });
    drawTimeline(drawn, view(now, spanSecs(), this.whole));
    drawTranscript(speech.utterances, now);
    drawOperations(state);
  }
}

function spanSecs() {
  const secs = element("ticks").clientWidth / PIXELS_PER_SEC;
  return Math.min(LONGEST_SPAN_SECS, Math.max(SHORTEST_SPAN_SECS, secs));
}

/** @param {Page} page */
function wire(page) {
  element("call").addEventListener("click", () => page.toggle());
  element("span").addEventListener("click", () => {
    page.whole = !page.whole;
    setAttribute(element("span"), "aria-pressed", String(page.whole));
    page.draw();
  });
  element("type").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = element("text").value.trim();
    if (!text) return;
    element("text").value = "";
    void page.type(text);
  });
  window.addEventListener("resize", () => page.draw());
  window.addEventListener("pagehide", () => void page.call?.hangUp());
  setInterval(() => {
    if (page.phase === "connecting" || page.phase === "live") page.draw();
  }, REDRAW_MS);
}

/**
 * What a bot with a small grammar understands; served next to the page.
 * @param {Page} page
 */
async function offerPhrases(page) {
  const answer = await fetch("phrases.json").catch(() => null);
  const phrases = answer?.ok ? await answer.json() : [];
  const root = element("phrases");
  for (const phrase of phrases) {
    const button = /** @type {HTMLButtonElement} */ (make("button", "quiet", phrase));
    Object.assign(button, { type: "button", disabled: page.phase !== "live" });
    button.addEventListener("click", () => void page.type(phrase));
    root.append(button);
  }
  root.hidden = phrases.length === 0;
}

const page = new Page();
wire(page);
page.enter("idle");
void offerPhrases(page);
Object.assign(window, { asyncToolsPage: page });
