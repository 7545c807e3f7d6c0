-- SPDX-License-Identifier: BSD-2-Clause
local session_id, telling_id, fence, mode, ids = take(), take(), take(), take(), take_list()
local granted, seen = {}, {}
local session = read('session', session_id)
-- Who let go of it tells nothing any more.
if not session or not session.owner or session.fence ~= fence then
  return granted
end
for _, id in ipairs(ids) do
  local delivery = not seen[id] and read('delivery', id)
  seen[id] = true
  if delivery and delivery.session_id == session_id and is_open(delivery) then
    set_state(delivery, 'telling', 'being told')
    put('delivery', id, delivery, { telling_id = telling_id, mode = mode })
    log_delivery('on_delivery_started', delivery, '', telling_id, '{"mode":"' .. mode .. '"}')
    granted[#granted + 1] = id
  end
end
return granted
