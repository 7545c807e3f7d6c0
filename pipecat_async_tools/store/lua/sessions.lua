-- SPDX-License-Identifier: BSD-2-Clause
local limit, answers = take_number(), {}
if limit < 1 then
  return answers
end
for i, id in ipairs(call('ZREVRANGE', SESSIONS, 0, limit - 1)) do
  local session = read('session', id)
  answers[i] = {
    id, alive(session.owner) and session.owner or false, session.first_at, session.last_at,
    call('ZCARD', key('session-ops', id)), call('SCARD', key('session-unsettled', id)),
    call('ZCARD', key('session-open', id)), call('ZCARD', key('session-open-letters', id)),
  }
end
return answers
