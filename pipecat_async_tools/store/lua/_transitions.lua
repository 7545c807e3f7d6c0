-- SPDX-License-Identifier: BSD-2-Clause
-- What several transitions have in common: settling, closing, delivering, dead letters.

local function is_settled(op)
  return op.status ~= 'accepted' and op.status ~= 'running'
end

local function deadline_of(op)
  return tonumber(op.accepted_at) + tonumber(op.timeout_secs)
end

local function attempt_detail(op)
  return '{"attempt":' .. op.attempts .. '}'
end

-- Put an operation where whoever looks for work finds it.
local function queue(op)
  call('ZADD', QUEUED, NOW, ticket(op, op.operation_id))
  call('ZADD', DEADLINES, time_text(deadline_of(op)), ticket(op, op.operation_id))
end

local function unqueue(op)
  call('ZREM', QUEUED, ticket(op, op.operation_id))
  call('ZREM', DEADLINES, ticket(op, op.operation_id))
end

local function start(op, owner)
  call('HSET', RUNNING, op.operation_id, owner)
  put('op', op.operation_id, op, {
    status = 'running', attempts = op.attempts + 1, started_at = op.started_at or NOW,
  })
  log_operation('on_operation_started', op, 'attempt ' .. op.attempts, attempt_detail(op))
end

-- Dead letters.

local function log_letter(name, kind, subject, id, reason)
  log({
    name = name, session_id = subject.session_id, turn_id = subject.turn_id, batch_id = subject.batch_id,
    operation_id = kind == 'operation' and subject.operation_id, tool = subject.tool,
    delivery_id = kind == 'delivery' and subject.delivery_id, intent_key = subject.intent_key,
    reason = reason, detail = '{"letter_id":' .. cjson.encode(id) .. '}',
  })
end

local function open_letter(kind, subject_id, subject, reason)
  local hash = kind == 'operation' and 'op' or kind
  local count = call('HINCRBY', key(hash, subject_id), 'letters', 1)
  local id = 'dead-' .. subject_id .. (count > 1 and '-' .. count or '')
  local seq = next_seq()
  put('letter', id, {}, {
    letter_id = id, kind = kind, subject_id = subject_id, session_id = subject.session_id, reason = reason,
    opened_at = NOW, seq = seq,
  })
  put(hash, subject_id, subject, { letter = id })
  call('RPUSH', key('batch-letters', subject.batch_id), id)
  call('ZADD', LETTERS, seq, id)
  call('ZADD', OPEN_LETTERS, seq, id)
  call('ZADD', key('session-letters', subject.session_id), seq, id)
  call('ZADD', key('session-open-letters', subject.session_id), seq, id)
  log_letter('on_dead_letter_opened', kind, subject, id, reason)
  return id
end

local function close_letter(id, note)
  local letter = read('letter', id)
  local hash = letter.kind == 'operation' and 'op' or letter.kind
  put('letter', id, letter, { closed_at = NOW, note = note })
  call('ZREM', OPEN_LETTERS, id)
  call('ZREM', key('session-open-letters', letter.session_id), id)
  call('HDEL', key(hash, letter.subject_id), 'letter')
  log_letter('on_dead_letter_closed', letter.kind, read(hash, letter.subject_id), id, note)
end

-- Deliveries.

local function is_open(delivery)
  return delivery.state == 'pending' or delivery.state == 'telling'
end

local function set_state(delivery, state, reason)
  local id = delivery.delivery_id
  put('delivery', id, delivery, { state = state, reason = reason })
  if is_open(delivery) then
    call('ZADD', OPEN, delivery.waiting_from, ticket(delivery, id))
    call('ZADD', key('session-open', delivery.session_id), delivery.seq, id)
  else
    call('ZREM', OPEN, ticket(delivery, id))
    call('ZREM', key('session-open', delivery.session_id), id)
  end
end

local function deliver(batch, id, operation_ids, correction, suppressed, partial)
  local delivery = {}
  put('delivery', id, delivery, {
    delivery_id = id, session_id = batch.session_id, batch_id = batch.batch_id, turn_id = batch.turn_id,
    ready_at = NOW, waiting_from = NOW, correction = correction, seq = next_seq(),
  })
  set_state(delivery, suppressed and 'suppressed' or 'pending', suppressed or partial or '')
  call('RPUSH', key('delivery-ops', id), unpack(operation_ids))
  call('RPUSH', key('batch-deliveries', batch.batch_id), id)
  call('ZADD', key('session-deliveries', batch.session_id), delivery.seq, id)
  for _, operation_id in ipairs(operation_ids) do
    call('HSET', key('op', operation_id), 'delivery_id', id)
  end
  local reason = suppressed or partial or correction and 'correction' or ''
  log_delivery(suppressed and 'on_delivery_suppressed' or 'on_delivery_ready', delivery, reason)
  return id
end

local function delivery_name(batch_id, kind, op)
  local again = op.replays ~= '0' and '-' .. op.replays or ''
  return 'delivery-' .. batch_id .. '-' .. kind .. '-' .. op.operation_id .. again
end

-- Decide what a success that came late owes the caller; the delivery that comes of it, if one does.
local function decide_correction(op)
  local held_by = op.delivery_id and read('delivery', op.delivery_id)
  if not held_by or held_by.state == 'pending' then
    return false
  end
  if held_by.state == 'telling' then
    call('RPUSH', key('delivery-corrections', held_by.delivery_id), op.operation_id)
    return false
  end
  local suppressed = held_by.state ~= 'spoken' and 'it was never told'
  local id = delivery_name(op.batch_id, 'corrected', op)
  return deliver(read('batch', op.batch_id), id, { op.operation_id }, true, suppressed)
end

-- Decide the corrections that came while a delivery was being told.
local function decide_waiting(delivery)
  local waiting = all('LRANGE', 'delivery-corrections', delivery.delivery_id)
  call('DEL', key('delivery-corrections', delivery.delivery_id))
  for _, operation_id in ipairs(waiting) do
    local op = read('op', operation_id)
    if op.delivery_id == delivery.delivery_id then
      decide_correction(op)
    end
  end
end

local function give_up(delivery, reason)
  log_delivery('on_delivery_undeliverable', delivery, reason)
  open_letter('delivery', delivery.delivery_id, delivery, reason)
end

-- Batches.

local function wait_for(batch, call_ids)
  if #call_ids > 0 then
    call('RPUSH', key('batch-expected', batch.batch_id), unpack(call_ids))
    call('HSET', EXPECTING, batch.batch_id, batch.owner)
  end
end

local function no_longer_wait_for(batch_id, call_ids)
  for _, call_id in ipairs(call_ids) do
    call('LREM', key('batch-expected', batch_id), 0, call_id)
  end
  if not exists('batch-expected', batch_id) then
    call('HDEL', EXPECTING, batch_id)
  end
end

local function reopen(batch)
  put('batch', batch.batch_id, batch, { closed_at = false })
  call('ZREM', CLOSED, batch.batch_id)
end

local function deliver_what_is_left(batch, operations, partial)
  local left = {}
  for _, op in ipairs(operations) do
    -- What was answered at once needs no telling; what was replayed since then does.
    if not op.delivery_id and is_settled(op) and (batch.native ~= 'true' or op.replays ~= '0') then
      left[#left + 1] = op
    end
  end
  if #left == 0 then
    return false
  end
  local ids = {}
  for i, op in ipairs(left) do
    ids[i] = op.operation_id
  end
  local first = 'delivery-' .. batch.batch_id
  local id = exists('delivery', first) and delivery_name(batch.batch_id, 'late', left[1]) or first
  return deliver(batch, id, ids, false, false, partial)
end

-- Close a batch if nothing of it is on its way; the delivery that comes of it, if one does.
local function close_if_over(batch_id)
  local batch = read('batch', batch_id)
  if not batch or batch.closed_at or exists('batch-expected', batch_id) then
    return false
  end
  local operations = {}
  for i, id in ipairs(all('LRANGE', 'batch-ops', batch_id)) do
    operations[i] = read('op', id)
    if not is_settled(operations[i]) then
      return false
    end
  end
  put('batch', batch_id, batch, { closed_at = NOW })
  call('ZADD', CLOSED, NOW, batch_id)
  log_batch('on_batch_closed', batch)
  return deliver_what_is_left(batch, operations)
end

-- Operations.

-- An outcome as an argument, with the reason for a dead letter (if it is one) after one attempt, or many.
local function take_outcome()
  return {
    status = take(), outcome_class = take(), result = take_optional(), error = take_optional(),
    why_after_one = take_optional(), why = take_optional(),
  }
end

-- Settle an operation, its batch aside; the dead letter that comes of it, if one does.
local function settle(op, outcome, silent, http_status)
  unqueue(op)
  call('HDEL', RUNNING, op.operation_id)
  call('SREM', key('session-unsettled', op.session_id), op.operation_id)
  put('op', op.operation_id, op, {
    status = outcome.status, outcome_class = outcome.outcome_class, result = outcome.result,
    error = outcome.error, settled_at = NOW, silent = silent or op.silent == 'true',
  })
  local detail = '{"attempt":' .. op.attempts .. ',"outcome_class":' .. cjson.encode(outcome.outcome_class)
    .. ',"http_status":' .. (http_status or 'null') .. '}'
  log_operation('on_operation_settled', op, op.status, detail)
  if not outcome.why then
    return false
  end
  local why = op.attempts == '1' and outcome.why_after_one or outcome.why
  return open_letter('operation', op.operation_id, op, (string.gsub(why, '{attempts}', op.attempts)))
end

local function finished_answer(op, corrected, delivery_id, letter_id)
  return {
    operation_answer(op.operation_id), corrected and 1 or 0, delivery_id and delivery_answer(delivery_id),
    letter_id,
  }
end

local function finish(op, outcome, silent, http_status)
  local letter_id = settle(op, outcome, silent, http_status)
  return finished_answer(op, false, close_if_over(op.batch_id), letter_id)
end
