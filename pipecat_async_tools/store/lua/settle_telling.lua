-- SPDX-License-Identifier: BSD-2-Clause
local telling_id = take()
local EVENTS = {
  completed = 'on_delivery_spoken', withdrawn = 'on_delivery_withdrawn', uncovered = 'on_delivery_withdrawn',
}
local settled = {}
for _ = 1, take_number() do
  local id, state, reason, heard, text = take(), take(), take(), take(), take()
  local outcome, record = take(), take()
  local delivery = read('delivery', id)
  if delivery and delivery.state == 'telling' and delivery.telling_id == telling_id then
    call('RPUSH', key('delivery-tellings', id), record)
    set_state(delivery, state, reason)
    put('delivery', id, delivery, { heard = heard, text = text })
    log_delivery(EVENTS[outcome] or 'on_delivery_interrupted', delivery, outcome, telling_id)
    if state == 'undeliverable' then
      give_up(delivery, reason)
    end
    decide_waiting(delivery)
    settled[#settled + 1] = id
  end
end
return settled
