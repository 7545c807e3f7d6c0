// SPDX-License-Identifier: BSD-2-Clause
// Who spoke when, and what was heard of it, from the client's RTVI events. Times are seconds into the call.

/**
 * @typedef {object} Utterance
 * @property {number} id
 * @property {"user"|"bot"} who
 * @property {number} start
 * @property {number|null} end null while it goes on
 * @property {string} heard what was said, as far as it was heard
 * @property {string} unheard what the bot had to say beyond that
 * @property {boolean} typed
 */

/** @typedef {{utterance: Utterance, heard: string, unheard: string}} Segment */

/** A transcript that comes this long after the caller fell silent still belongs to what was said. */
const TRANSCRIPT_LATE_SECS = 4;
/** The last words can be reported after the end of the bot's speech. */
const WORDS_LATE_SECS = 0.4;
const SECS_PER_LETTER = 0.068;

/** @param {string[]} parts */
const joined = (parts) => parts.map((part) => part.trim()).filter(Boolean).join(" ");

export class Speech {
  /** @type {Utterance[]} */
  utterances = [];
  /** @type {Map<number|string, Segment>} */
  #segments = new Map();
  /** Segments that came before the bot was heard. @type {Segment[]} */
  #unspoken = [];
  /** @type {Map<number, string[]>} */
  #finals = new Map();
  #lastId = 0;

  /** @param {"user"|"bot"} who */
  isSpeaking(who) {
    return this.#open(who) !== undefined;
  }

  /** @param {number} at */
  userStarted(at) {
    if (!this.#open("user")) this.#add("user", at);
  }

  /** @param {number} at */
  userStopped(at) {
    this.#close("user", at);
  }

  /**
   * @param {string} text
   * @param {boolean} final
   * @param {number} at
   */
  userTranscript(text, final, at) {
    const utterance = this.#open("user") ?? this.#recent(at) ?? this.#add("user", at, at);
    const finals = this.#finals.get(utterance.id) ?? [];
    if (final) this.#finals.set(utterance.id, [...finals, text]);
    utterance.heard = joined([...finals, text]);
  }

  /**
   * @param {string} text
   * @param {number} at
   */
  typed(text, at) {
    Object.assign(this.#add("user", at, at), { heard: text, typed: true });
  }

  /** @param {number} at */
  botStarted(at) {
    if (this.#open("bot")) return;
    const utterance = this.#add("bot", at);
    for (const segment of this.#unspoken.splice(0)) segment.utterance = utterance;
    this.#write(utterance);
  }

  /** @param {number} at */
  botStopped(at) {
    this.#close("bot", at);
  }

  /**
   * A sentence of the bot and how far it got.
   * @param {{text: string, segment_id?: number|string, will_be_spoken?: boolean,
   *   spoken_progress?: {accumulated_text: string, remaining_text: string}|null}} output
   */
  botOutput(output) {
    if (output.will_be_spoken === false) return;
    const key = output.segment_id ?? output.text;
    const segment = this.#segments.get(key) ?? this.#begin(key);
    const heard = output.spoken_progress?.accumulated_text ?? "";
    const open = this.#open("bot");
    const before = segment.utterance;
    // A sentence that had waited behind a pause belongs to where its first word is heard.
    if (open && heard && !segment.heard && before !== open) segment.utterance = open;
    segment.heard = heard;
    segment.unheard = output.spoken_progress?.remaining_text ?? output.text;
    if (before) this.#write(before);
    if (segment.utterance) this.#write(segment.utterance);
  }

  /** @param {number} at */
  ended(at) {
    this.#close("user", at);
    this.#close("bot", at);
  }

  /** @param {number|string} key */
  #begin(key) {
    const utterance = /** @type {Utterance} */ (this.#open("bot"));
    const segment = { utterance, heard: "", unheard: "" };
    if (!utterance) this.#unspoken.push(segment);
    this.#segments.set(key, segment);
    return segment;
  }

  /** @param {Utterance} utterance */
  #write(utterance) {
    const segments = [...this.#segments.values()].filter((segment) => segment.utterance === utterance);
    utterance.heard = joined(segments.map((segment) => segment.heard));
    utterance.unheard = joined(segments.map((segment) => segment.unheard));
  }

  /**
   * @param {"user"|"bot"} who
   * @param {number} start
   * @param {number|null} end
   * @returns {Utterance}
   */
  #add(who, start, end = null) {
    this.#lastId += 1;
    const utterance = { id: this.#lastId, who, start, end, heard: "", unheard: "", typed: false };
    this.utterances.push(utterance);
    return utterance;
  }

  /** @param {"user"|"bot"} who */
  #open(who) {
    return this.utterances.findLast((utterance) => utterance.who === who && utterance.end === null);
  }

  /** @param {number} at */
  #recent(at) {
    const last = this.utterances.findLast((utterance) => utterance.who === "user" && !utterance.typed);
    return last && last.end !== null && at - last.end < TRANSCRIPT_LATE_SECS ? last : undefined;
  }

  /**
   * @param {"user"|"bot"} who
   * @param {number} at
   */
  #close(who, at) {
    const open = this.#open(who);
    if (open) open.end = at;
  }
}

/**
 * @param {Utterance} utterance
 * @param {number} now
 */
export const isOver = (utterance, now) => utterance.end !== null && now - utterance.end >= WORDS_LATE_SECS;

/**
 * @param {Utterance} utterance
 * @param {number} now
 */
export const isCutOff = (utterance, now) => isOver(utterance, now) && utterance.unheard !== "";

/**
 * How long the words that were not heard would have taken, at the pace of those that were.
 * @param {Utterance} utterance
 * @param {number} now
 */
export function unheardSecs(utterance, now) {
  const secs = (utterance.end ?? now) - utterance.start;
  const letters = utterance.heard.length;
  const pace = letters > 12 ? Math.min(0.12, Math.max(0.03, secs / letters)) : SECS_PER_LETTER;
  return utterance.unheard.length * pace;
}
