-- SPDX-License-Identifier: BSD-2-Clause
local batch = read('batch', take())
if not batch or batch.closed_at or batch.native == 'true' then
  return false
end
local operations = {}
for i, id in ipairs(all('LRANGE', 'batch-ops', batch.batch_id)) do
  operations[i] = read('op', id)
end
touch(batch.session_id)
local delivery_id = deliver_what_is_left(batch, operations, 'partial')
return delivery_id and delivery_answer(delivery_id)
