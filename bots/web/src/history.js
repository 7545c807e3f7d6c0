// SPDX-License-Identifier: BSD-2-Clause
// What one state does not say: since when a delivery is in its state. The server's times.

/** @typedef {import("./async-tools.js").AsyncToolsState} AsyncToolsState */

export class History {
  /** @type {Map<string, {state: string, since: number}>} */
  #deliveries = new Map();

  /** @param {AsyncToolsState} state */
  observe(state) {
    for (const delivery of state.deliveries) {
      if (this.#deliveries.get(delivery.delivery_id)?.state !== delivery.state) {
        this.#deliveries.set(delivery.delivery_id, { state: delivery.state, since: state.now });
      }
    }
  }

  /**
   * @param {string} deliveryId
   * @returns {number|undefined}
   */
  since(deliveryId) {
    return this.#deliveries.get(deliveryId)?.since;
  }
}
