-- SPDX-License-Identifier: BSD-2-Clause
local id, progress = take(), take()
local op = read('op', id)
if not op or is_settled(op) then
  return false
end
put('op', id, op, { progress = progress })
log_operation('on_operation_progressed', op)
return operation_answer(id)
