-- SPDX-License-Identifier: BSD-2-Clause
-- What every script begins with: the clock, the keys, the arguments, rows, events.
-- KEYS[1] is the prefix of all keys. It holds the hash tag, so that all of them are in one slot.

local PREFIX = KEYS[1]
local call = redis.call
local TIME = call('TIME')
local NOW = TIME[1] .. '.' .. string.format('%06d', TIME[2])
local now = tonumber(NOW)

-- The kind comes first and is none of the caller's ids, so that no id can make two keys one.
local function key(kind, id)
  return PREFIX .. ':' .. kind .. ':' .. id
end

local function intent_key(session_id, intent)
  return key('intent', #session_id .. ':' .. session_id .. ':' .. intent)
end

local LOG = PREFIX .. ':log'                    -- stream: the session of each event, in order
local CHANGES = PREFIX .. ':changes'            -- channel: the session that changed
local OWNERS = PREFIX .. ':owners'              -- zset: owner by the end of its lease
local SESSIONS = PREFIX .. ':sessions'          -- zset: session by its latest event
local QUEUED = PREFIX .. ':queued'              -- zset: ticket of an accepted operation by the time of its acceptance
local DEADLINES = PREFIX .. ':deadlines'        -- zset: ticket of an accepted operation by its deadline
local RUNNING = PREFIX .. ':running'            -- hash: running operation to its owner
local EXPECTING = PREFIX .. ':expecting'        -- hash: batch that waits for calls to its owner
local CLOSED = PREFIX .. ':closed'              -- zset: batch by the time it closed
local OPEN = PREFIX .. ':open'                  -- zset: ticket of an open delivery by the time it waits from
local LETTERS = PREFIX .. ':letters'            -- zset: dead letter by its number
local OPEN_LETTERS = PREFIX .. ':open-letters'  -- zset: dead letter that is not closed by its number

-- Arguments, in the order in which they were given.

local taken = 0

local function take()
  taken = taken + 1
  return ARGV[taken]
end

local function take_number()
  return tonumber(take())
end

-- A value that may be missing: "-", or "+" and the value.
local function take_optional()
  local value = take()
  return string.sub(value, 1, 1) == '+' and string.sub(value, 2)
end

local function take_list()
  local list = {}
  for i = 1, take_number() do
    list[i] = take()
  end
  return list
end

-- A time that can be compared with scores.
local function time_text(secs)
  return string.format('%.6f', secs)
end

-- Rows: hashes, read as tables.

local function refuse(reason)
  return { err = 'REFUSED ' .. reason }
end

local function next_seq()
  return call('INCR', PREFIX .. ':seq')
end

-- A member for an index by time, in which rows of one instant stay in their order.
local function ticket(row, id)
  return string.format('%015d', row.seq) .. id
end

local function id_of(member)
  return string.sub(member, 16)
end

local function exists(kind, id)
  return call('EXISTS', key(kind, id)) == 1
end

local function read(kind, id)
  local flat = call('HGETALL', key(kind, id))
  if #flat == 0 then
    return nil
  end
  local row = {}
  for i = 1, #flat, 2 do
    row[flat[i]] = flat[i + 1]
  end
  return row
end

-- Write changes into a row and into the table that was read from it; false deletes.
local function put(kind, id, row, changes)
  for field, value in pairs(changes) do
    if value == false then
      row[field] = nil
      call('HDEL', key(kind, id), field)
    else
      row[field] = tostring(value)
      call('HSET', key(kind, id), field, row[field])
    end
  end
end

local function all(name, kind, id)
  return call(name, key(kind, id), 0, -1)
end

local function alive(owner)
  local lease_until = owner and call('ZSCORE', OWNERS, owner)
  return lease_until and tonumber(lease_until) > now
end

-- Events.

local EVENT_FIELDS = {
  'name', 'at', 'session_id', 'turn_id', 'operation_id', 'batch_id', 'delivery_id', 'telling_id',
  'intent_key', 'tool', 'reason', 'detail',
}
local touched = {}

-- Wake who watches, once for each script.
local function touch(session_id)
  if not touched[session_id] then
    touched[session_id] = true
    call('PUBLISH', CHANGES, session_id)
    call('PUBLISH', key('changes', session_id), session_id)
  end
end

local function log(event)
  event.at = NOW
  local entry = {}
  for _, field in ipairs(EVENT_FIELDS) do
    if event[field] and event[field] ~= '' then
      entry[#entry + 1] = field
      entry[#entry + 1] = event[field]
    end
  end
  local session_id = event.session_id
  local position = call('XADD', LOG, '*', 'session_id', session_id)
  call('XADD', key('session-events', session_id), position, unpack(entry))
  call('HSETNX', key('session', session_id), 'first_at', NOW)
  call('HSET', key('session', session_id), 'last_at', NOW)
  call('ZADD', SESSIONS, NOW, session_id)
  touch(session_id)
end

local function log_operation(name, op, reason, detail)
  log({
    name = name, session_id = op.session_id, turn_id = op.turn_id, operation_id = op.operation_id,
    batch_id = op.batch_id, intent_key = op.intent_key, tool = op.tool, reason = reason, detail = detail,
  })
end

local function log_batch(name, batch)
  log({ name = name, session_id = batch.session_id, turn_id = batch.turn_id, batch_id = batch.batch_id })
end

local function log_delivery(name, delivery, reason, telling_id, detail)
  log({
    name = name, session_id = delivery.session_id, turn_id = delivery.turn_id, batch_id = delivery.batch_id,
    delivery_id = delivery.delivery_id, telling_id = telling_id, reason = reason, detail = detail,
  })
end

-- Answers: rows as lists of fields and values, with the rows that belong to them.

local function operation_answer(id)
  return call('HGETALL', key('op', id))
end

local function operation_answers(ids)
  local answers = {}
  for i, id in ipairs(ids) do
    answers[i] = operation_answer(id)
  end
  return answers
end

local function delivery_answer(id)
  return {
    call('HGETALL', key('delivery', id)),
    operation_answers(all('LRANGE', 'delivery-ops', id)),
    all('LRANGE', 'delivery-tellings', id),
  }
end

local function delivery_answers(ids)
  local answers = {}
  for i, id in ipairs(ids) do
    answers[i] = delivery_answer(id)
  end
  return answers
end

local function letter_answer(id)
  local letter = read('letter', id)
  if not letter then
    return false
  end
  local about_operation = letter.kind == 'operation'
  return {
    call('HGETALL', key('letter', id)),
    about_operation and operation_answer(letter.subject_id),
    not about_operation and delivery_answer(letter.subject_id),
  }
end
