// SPDX-License-Identifier: BSD-2-Clause
// One call: the microphone, the connection, and the client's events.

import { PipecatClient, RTVIEvent } from "@pipecat-ai/client-js";
import { SmallWebRTCTransport, WavMediaManager } from "@pipecat-ai/small-webrtc-transport";
import { watchAsyncTools } from "./async-tools.js";
import { callProblem, CONNECTION_LOST, microphoneProblem, TIMED_OUT } from "./problems.js";

/**
 * What a call tells the page.
 * @typedef {object} CallEvents
 * @property {() => void} onLive the bot has answered
 * @property {() => void} onOver the call has ended, however
 * @property {(sentence: string) => void} onProblem
 * @property {(state: import("./async-tools.js").AsyncToolsState) => void} onState
 * @property {(speech: SpeechEvent) => void} onSpeech
 */

/** @typedef {(speech: import("./speech.js").Speech, at: number) => void} SpeechEvent */

const ANSWER_SECS = 25;
const START = { endpoint: "/start", requestData: { transport: "webrtc" } };

export class Call {
  #events;
  #voice;
  /** @type {PipecatClient|null} */
  #client = null;
  #over = false;

  /**
   * @param {CallEvents} events
   * @param {HTMLAudioElement} voice plays the bot
   */
  constructor(events, voice) {
    this.#events = events;
    this.#voice = voice;
  }

  /** Connects; what goes wrong is said through the events. */
  async start() {
    const microphone = await this.#askForMicrophone();
    if (this.#over) return;
    const client = (this.#client = createClient(microphone));
    this.#listen(client);
    try {
      await inTime(client.startBotAndConnect(START));
      if (!this.#over) this.#events.onLive();
    } catch (error) {
      const reachable = this.#over || (await isReachable());
      if (!this.#over) this.#events.onProblem(callProblem(/** @type {Error} */ (error), reachable));
      await this.hangUp();
    }
  }

  /** Ends the call, also one that has not been answered yet. */
  async hangUp() {
    this.#end();
    this.#voice.srcObject = null;
    try {
      await this.#client?.disconnect();
    } catch {
      // It was not connected: there is nothing to end.
    }
  }

  /** @param {string} text */
  async type(text) {
    await this.#client?.sendText(text);
  }

  async #askForMicrophone() {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      for (const track of stream.getTracks()) track.stop();
      return true;
    } catch (error) {
      this.#events.onProblem(microphoneProblem(error, window.isSecureContext));
      return false;
    }
  }

  /** @param {PipecatClient} client */
  #listen(client) {
    const { onSpeech } = this.#events;
    watchAsyncTools(client, this.#events.onState);
    client.on(RTVIEvent.UserStartedSpeaking, () => onSpeech((speech, at) => speech.userStarted(at)));
    client.on(RTVIEvent.UserStoppedSpeaking, () => onSpeech((speech, at) => speech.userStopped(at)));
    client.on(RTVIEvent.UserTranscript, ({ text, final }) =>
      onSpeech((speech, at) => speech.userTranscript(text, final, at)));
    client.on(RTVIEvent.BotStartedSpeaking, () => onSpeech((speech, at) => speech.botStarted(at)));
    client.on(RTVIEvent.BotStoppedSpeaking, () => onSpeech((speech, at) => speech.botStopped(at)));
    client.on(RTVIEvent.BotOutput, (output) => onSpeech((speech) => speech.botOutput(output)));
    client.on(RTVIEvent.TrackStarted, (track, participant) => {
      if (!participant?.local && track.kind === "audio") this.#voice.srcObject = new MediaStream([track]);
    });
    client.on(RTVIEvent.TransportStateChanged, (state) => {
      if (state === "error" && !this.#over) this.#events.onProblem(CONNECTION_LOST);
    });
    client.on(RTVIEvent.Disconnected, () => this.#end());
  }

  #end() {
    if (this.#over) return;
    this.#over = true;
    this.#events.onOver();
  }
}

/** The client's errors do not tell a server that refuses from one that is gone. */
const isReachable = () => fetch("/status").then(() => true, () => false);

/** @param {boolean} microphone */
function createClient(microphone) {
  const transport = new SmallWebRTCTransport({ mediaManager: new WavMediaManager() });
  return new PipecatClient({ transport, enableMic: microphone, enableCam: false });
}

/**
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
function inTime(answer) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(TIMED_OUT)), ANSWER_SECS * 1000));
  return /** @type {Promise<T>} */ (Promise.race([answer, late]));
}
