-- SPDX-License-Identifier: BSD-2-Clause
local session_id, id, reason, fence = take(), take(), take(), take()
local session, delivery = read('session', session_id), read('delivery', id)
if not session or not session.owner or session.fence ~= fence then
  return 0
end
if not delivery or delivery.session_id ~= session_id or delivery.state ~= 'pending' then
  return 0
end
set_state(delivery, 'suppressed', reason)
log_delivery('on_delivery_suppressed', delivery, reason)
return 1
