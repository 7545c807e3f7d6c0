-- SPDX-License-Identifier: BSD-2-Clause
local session_id, owner = take(), take()
if not alive(owner) then
  return refuse(owner .. ' has no living lease')
end
local session = read('session', session_id) or {}
if session.owner == owner then
  return tonumber(session.fence)
end
if alive(session.owner) then
  return false
end
put('session', session_id, session, { owner = owner, fence = (session.fence or 0) + 1, unheld_from = false })
log({ name = 'on_session_held', session_id = session_id, reason = owner })
return tonumber(session.fence)
