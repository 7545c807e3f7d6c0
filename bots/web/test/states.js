// SPDX-License-Identifier: BSD-2-Clause
// States for the tests.

export const attempt = (number, started_at, ended_at = null, outcome = null) => ({ number, started_at, ended_at, outcome });

export const operation = (tool, more = {}) => ({
  operation_id: tool, tool, batch_id: "b1", turn_id: "t1", status: "running",
  accepted_at: 1, settled_at: null, progress: null, attempts: [], ...more,
});

export const delivery = (more = {}) => ({
  delivery_id: "d1", batch_id: "b1", operation_ids: [], state: "pending", reason: "", mode: "proactive",
  priority: "normal", ready_at: 5, correction: false, tellings: [], ...more,
});

export const telling = (started_at, ended_at, outcome, heard = "") => ({
  telling_id: `t${started_at}`, mode: "proactive", started_at, ended_at, outcome, heard,
});

export const batch = (operation_ids, more = {}) => ({
  batch_id: "b1", turn_id: "t1", operation_ids, missing: 0, closed: true, ...more,
});

export const state = (more = {}) => ({
  type: "async-tools", version: 1, now: 10, sync_mode: "idle", operations: [], batches: [], deliveries: [], ...more,
});
