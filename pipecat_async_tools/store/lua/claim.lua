-- SPDX-License-Identifier: BSD-2-Clause
local id, owner = take(), take()
local op = read('op', id)
if not op or op.status ~= 'accepted' or op.adopted == 'true' or deadline_of(op) <= now then
  return false
end
unqueue(op)
put('op', id, op, { fence = op.fence + 1 })
start(op, owner)
return { operation_answer(id), tonumber(op.fence) }
