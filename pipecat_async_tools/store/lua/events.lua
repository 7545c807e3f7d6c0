-- SPDX-License-Identifier: BSD-2-Clause
local session_id, after, limit = take_optional(), take_optional(), take_number()
local from = after and '(' .. after or '-'
if limit < 1 then
  return {}
end
if session_id then
  return call('XRANGE', key('session-events', session_id), from, '+', 'COUNT', limit)
end
local entries = {}
for _, entry in ipairs(call('XRANGE', LOG, from, '+', 'COUNT', limit)) do
  local stream = key('session-events', entry[2][2])
  entries[#entries + 1] = call('XRANGE', stream, entry[1], entry[1])[1]
end
return entries
