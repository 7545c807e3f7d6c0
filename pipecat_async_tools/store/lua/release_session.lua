-- SPDX-License-Identifier: BSD-2-Clause
local session_id, owner = take(), take()
local session = read('session', session_id)
if session and session.owner == owner then
  put('session', session_id, session, { owner = false, unheld_from = NOW })
  log({ name = 'on_session_released', session_id = session_id, reason = owner })
end
