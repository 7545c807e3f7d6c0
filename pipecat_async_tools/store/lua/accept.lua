-- SPDX-License-Identifier: BSD-2-Clause
local owner, on_duplicate, expected = take(), take(), take_list()
local replaced_outcome = take_outcome()
local fields, operations = take_list(), {}
for i = 1, take_number() do
  operations[i] = {}
  for _, field in ipairs(fields) do
    operations[i][field] = take_optional() or nil
  end
end

local function taken_before()
  local seen = {}
  for _, op in ipairs(operations) do
    if seen[op.operation_id] or exists('op', op.operation_id) then
      return op.operation_id
    end
    seen[op.operation_id] = true
  end
end

local function open_batch(first)
  local batch = read('batch', first.batch_id)
  if batch then
    return batch
  end
  batch = {}
  put('batch', first.batch_id, batch, {
    batch_id = first.batch_id, session_id = first.session_id, turn_id = first.turn_id, owner = owner,
    opened_at = NOW, native = false, seq = next_seq(),
  })
  call('ZADD', key('session-batches', first.session_id), batch.seq, first.batch_id)
  wait_for(batch, expected)
  log_batch('on_batch_opened', batch)
  return batch
end

-- The operation that is there for the same intent, and the key that one whose time ran out leaves behind.
local function find_duplicate(new)
  if new.adopted == 'true' or not new.intent_key or new.intent_key == '' then
    return nil
  end
  local settled, left_behind
  local ids = call('ZREVRANGE', intent_key(new.session_id, new.intent_key), 0, -1)
  for _, id in ipairs(ids) do
    local op = read('op', id)
    if not is_settled(op) then
      return op
    end
    if now - tonumber(op.settled_at) <= tonumber(op.intent_window_secs) then
      if op.status == 'succeeded' or op.status == 'unknown' then
        settled = settled or op
      elseif op.status == 'timed_out' then
        left_behind = left_behind or op.idempotency_key
      end
    end
  end
  return settled, left_behind
end

local function store(batch, op)
  local id, adopted = op.operation_id, op.adopted == 'true'
  op.accepted_at, op.status, op.attempts, op.seq, op.fence = NOW, 'accepted', '0', next_seq(), '0'
  put('op', id, {}, op)
  call('RPUSH', key('batch-ops', op.batch_id), id)
  call('ZADD', key('session-ops', op.session_id), op.seq, id)
  call('SADD', key('session-unsettled', op.session_id), id)
  if batch.closed_at then
    reopen(batch)
  end
  log_operation('on_operation_accepted', op)
  if adopted then
    start(op, owner)
    return
  end
  queue(op)
  if op.intent_key and op.intent_key ~= '' then
    call('ZADD', intent_key(op.session_id, op.intent_key), op.seq, id)
  end
end

local function accept(batch, new)
  local there, left_behind = find_duplicate(new)
  local replaced = there and on_duplicate == 'replace' and not is_settled(there)
  if there and not replaced then
    local duplicate = on_duplicate == 'reject' and 'rejected' or 'joined'
    log_operation('on_operation_joined', there, duplicate)
    return { there.operation_id, duplicate, false }
  end
  if replaced then
    settle(there, replaced_outcome, true)
    -- Its own batch is looked at when the new one is in it.
    if there.batch_id ~= new.batch_id then
      close_if_over(there.batch_id)
    end
  end
  new.idempotency_key = left_behind or new.idempotency_key
  store(batch, new)
  return { new.operation_id, false, replaced and there.operation_id or false }
end

local before = taken_before()
if before then
  return refuse(before .. ' was accepted before')
end
local first, answers = operations[1], {}
local batch = open_batch(first)
no_longer_wait_for(first.batch_id, { first.tool_call_id })
touch(first.session_id)
for i, new in ipairs(operations) do
  local answer = accept(batch, new)
  answers[i] = { operation_answer(answer[1]), answer[2], answer[3] and operation_answer(answer[3]) }
end
close_if_over(first.batch_id)
return answers
