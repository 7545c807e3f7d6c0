-- SPDX-License-Identifier: BSD-2-Clause
-- Look at some of the sessions, the first `kept` of which stay.
local older_than_secs, kept = take_number(), take_number()
local SOME = 20
local CHUNK = 500
local events, sessions = 0, 0

-- Delete the events before a time; whether none is left.
local function delete_events(session_id, before)
  local stream = key('session-events', session_id)
  while true do
    local entries, old = call('XRANGE', stream, '-', '+', 'COUNT', CHUNK), {}
    for _, entry in ipairs(entries) do
      -- The time is the second field of an event.
      if tonumber(entry[2][4]) >= before then
        break
      end
      old[#old + 1] = entry[1]
    end
    if #old > 0 then
      call('XDEL', stream, unpack(old))
      call('XDEL', LOG, unpack(old))
      events = events + #old
    end
    if #old < #entries or #entries == 0 then
      return #old == #entries
    end
  end
end

local function oldest_thing(session_id)
  local batch_id = call('ZRANGE', key('session-batches', session_id), 0, 0)[1]
  return batch_id and tonumber(call('HGET', key('batch', batch_id), 'opened_at'))
end

-- Who held it last is forgotten with its lease: keep when that ran out.
local function keep_end_of_lease(session_id, owner)
  local lease_until = owner and not alive(owner) and call('ZSCORE', OWNERS, owner)
  if lease_until then
    call('HSET', key('session', session_id), 'unheld_from', lease_until)
  end
end

local function prune(session_id)
  local oldest = oldest_thing(session_id)
  local before = now - older_than_secs
  local empty = delete_events(session_id, oldest and math.min(oldest, before) or before)
  local owner = call('HGET', key('session', session_id), 'owner')
  if empty and not oldest and not alive(owner) then
    call('DEL', key('session', session_id), key('session-events', session_id))
    call('ZREM', SESSIONS, session_id)
    sessions = sessions + 1
    return
  end
  keep_end_of_lease(session_id, owner)
  kept = kept + 1
end

local ids = call('ZRANGE', SESSIONS, kept, kept + SOME - 1)
for _, id in ipairs(ids) do
  prune(id)
end
return { #ids < SOME and 1 or 0, kept, events, sessions }
