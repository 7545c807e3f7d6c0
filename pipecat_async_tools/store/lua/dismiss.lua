-- SPDX-License-Identifier: BSD-2-Clause
local batch_id, call_ids = take(), take_list()
local batch = read('batch', batch_id)
if not batch then
  return false
end
no_longer_wait_for(batch_id, call_ids)
touch(batch.session_id)
local delivery_id = close_if_over(batch_id)
return delivery_id and delivery_answer(delivery_id)
