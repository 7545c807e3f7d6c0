-- SPDX-License-Identifier: BSD-2-Clause
local id, fence, silent, http_status = take(), take_optional(), take(), take()
local outcome = take_outcome()
local op = read('op', id)
if not op then
  return false
end

local function correct()
  put('op', id, op, {
    status = outcome.status, result = outcome.result, error = false, late = true,
    outcome_class = outcome.outcome_class, settled_at = NOW,
  })
  log_operation('on_operation_corrected', op, 'succeeded after all')
  if op.letter then
    close_letter(op.letter, 'succeeded after all')
  end
  return finished_answer(op, true, decide_correction(op), false)
end

if is_settled(op) then
  local correctable = op.status == 'timed_out' or op.status == 'unknown'
  return correctable and outcome.status == 'succeeded' and correct()
end
if fence and fence ~= op.fence then
  return false
end
return finish(op, outcome, silent == 'true', http_status)
