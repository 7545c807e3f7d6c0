-- SPDX-License-Identifier: BSD-2-Clause
local limit, abandoned, timed_out = take_number(), take_outcome(), take_outcome()
local accepted, finished, deliveries = {}, {}, {}

-- The entries of a hash that belong to a dead owner, oldest first.
local function of_dead_owners(hash, kind)
  local flat, found, living = call('HGETALL', hash), {}, {}
  for i = 1, #flat, 2 do
    local owner = flat[i + 1]
    if living[owner] == nil then
      living[owner] = alive(owner) or false
    end
    if not living[owner] then
      found[#found + 1] = { id = flat[i], seq = tonumber(call('HGET', key(kind, flat[i]), 'seq')) }
    end
  end
  table.sort(found, function(a, b) return a.seq < b.seq end)
  return found
end

local function time_out(op)
  timed_out.error = op.timeout_error
  finished[#finished + 1] = finish(op, timed_out, false)
end

local function accept_again(op)
  put('op', op.operation_id, op, { status = 'accepted' })
  call('HDEL', RUNNING, op.operation_id)
  queue(op)
  log_operation('on_operation_recovered', op, 'its process was gone')
  accepted[#accepted + 1] = operation_answer(op.operation_id)
end

local function is_full()
  return #accepted + #finished >= limit
end

for _, entry in ipairs(of_dead_owners(RUNNING, 'op')) do
  if is_full() then
    break
  end
  local op = read('op', entry.id)
  if op.adopted == 'true' or op.idempotent ~= 'true' then
    finished[#finished + 1] = finish(op, abandoned, false)
  elseif deadline_of(op) <= now then
    time_out(op)
  else
    accept_again(op)
  end
end
for _, member in ipairs(call('ZRANGEBYSCORE', DEADLINES, '-inf', NOW)) do
  if is_full() then
    break
  end
  time_out(read('op', id_of(member)))
end
for i, entry in ipairs(of_dead_owners(EXPECTING, 'batch')) do
  if i > limit then
    break
  end
  no_longer_wait_for(entry.id, all('LRANGE', 'batch-expected', entry.id))
  local delivery_id = close_if_over(entry.id)
  if delivery_id then
    deliveries[#deliveries + 1] = delivery_answer(delivery_id)
  end
end
return { accepted, finished, deliveries }
