-- SPDX-License-Identifier: BSD-2-Clause
local unheld_secs, reason, only = take_number(), take(), take_optional()
local given_up, unheld = {}, {}

local function is_unheld(session_id)
  local session = read('session', session_id)
  if alive(session.owner) then
    return false
  end
  local lease_until = session.owner and call('ZSCORE', OWNERS, session.owner)
  local from = tonumber(lease_until or session.unheld_from or 0)
  return now - from >= unheld_secs
end

local waiting = call('ZRANGEBYSCORE', OPEN, '-inf', time_text(now - unheld_secs))
table.sort(waiting)
for _, member in ipairs(waiting) do
  local id = id_of(member)
  local delivery = read('delivery', id)
  local session_id = delivery.session_id
  if not only or session_id == only then
    if unheld[session_id] == nil then
      unheld[session_id] = is_unheld(session_id)
    end
    if unheld[session_id] then
      set_state(delivery, 'undeliverable', reason)
      give_up(delivery, reason)
      decide_waiting(delivery)
      given_up[#given_up + 1] = delivery_answer(id)
    end
  end
end
return given_up
