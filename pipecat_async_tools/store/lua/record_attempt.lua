-- SPDX-License-Identifier: BSD-2-Clause
local id, fence, outcome_class, detail = take(), take(), take(), take()
local op = read('op', id)
if not op or is_settled(op) or op.fence ~= fence then
  return false
end
-- The rest of the detail is JSON already, from its second field on.
log_operation('on_operation_attempted', op, outcome_class, '{"attempt":' .. op.attempts .. ',' .. detail)
put('op', id, op, { attempts = op.attempts + 1 })
return operation_answer(id)
