-- SPDX-License-Identifier: BSD-2-Clause
-- Look at some of the batches that closed long ago, the first `kept` of which stay.
local older_than_secs, kept = take_number(), take_number()
local SOME = 50
local pruned = { ops = 0, deliveries = 0, letters = 0 }

local function is_over(batch_id)
  for _, id in ipairs(all('LRANGE', 'batch-ops', batch_id)) do
    local op = read('op', id)
    local window_ends = tonumber(op.settled_at) + tonumber(op.intent_window_secs)
    local is_no = op.status == 'failed' or op.status == 'cancelled'
    local has_window = op.intent_key and op.intent_key ~= '' and op.adopted ~= 'true' and not is_no
    if op.letter or has_window and window_ends >= now then
      return false
    end
  end
  for _, id in ipairs(all('LRANGE', 'batch-deliveries', batch_id)) do
    local delivery = read('delivery', id)
    if delivery.letter or is_open(delivery) then
      return false
    end
  end
  return true
end

local function delete_operation(id)
  local op = read('op', id)
  call('ZREM', key('session-ops', op.session_id), id)
  if op.intent_key and op.intent_key ~= '' then
    call('ZREM', intent_key(op.session_id, op.intent_key), id)
  end
  call('DEL', key('op', id))
  pruned.ops = pruned.ops + 1
end

local function delete_delivery(id)
  call('ZREM', key('session-deliveries', call('HGET', key('delivery', id), 'session_id')), id)
  call('DEL', key('delivery', id), key('delivery-ops', id), key('delivery-tellings', id))
  pruned.deliveries = pruned.deliveries + 1
end

local function delete_letter(id)
  call('ZREM', key('session-letters', call('HGET', key('letter', id), 'session_id')), id)
  call('ZREM', LETTERS, id)
  call('DEL', key('letter', id))
  pruned.letters = pruned.letters + 1
end

local function delete_all(kind, batch_id, delete)
  for _, id in ipairs(all('LRANGE', kind, batch_id)) do
    delete(id)
  end
  call('DEL', key(kind, batch_id))
end

local closed_before = '(' .. time_text(now - older_than_secs)
local ids = call('ZRANGEBYSCORE', CLOSED, '-inf', closed_before, 'LIMIT', kept, SOME)
for _, id in ipairs(ids) do
  if is_over(id) then
    delete_all('batch-letters', id, delete_letter)
    delete_all('batch-deliveries', id, delete_delivery)
    delete_all('batch-ops', id, delete_operation)
    local session_id = call('HGET', key('batch', id), 'session_id')
    call('ZREM', key('session-batches', session_id), id)
    call('ZREM', CLOSED, id)
    call('DEL', key('batch', id))
    touch(session_id)
  else
    kept = kept + 1
  end
end
return { #ids < SOME and 1 or 0, kept, pruned.ops, pruned.deliveries, pruned.letters }
