-- SPDX-License-Identifier: BSD-2-Clause
local batch_id = take()
local batch = read('batch', batch_id)
if not batch then
  return
end
put('batch', batch_id, batch, { native = true })
touch(batch.session_id)
for _, id in ipairs(all('LRANGE', 'batch-deliveries', batch_id)) do
  local delivery = read('delivery', id)
  if delivery.state == 'pending' then
    set_state(delivery, 'suppressed', 'answered at once')
    log_delivery('on_delivery_suppressed', delivery, 'answered at once')
  end
end
