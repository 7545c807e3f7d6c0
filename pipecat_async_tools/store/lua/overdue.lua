-- SPDX-License-Identifier: BSD-2-Clause
local after_secs, limit = take_number(), take_number()
local found = {}
for _, member in ipairs(call('ZRANGEBYSCORE', QUEUED, '-inf', '(' .. time_text(now - after_secs))) do
  if #found >= limit then
    break
  end
  if tonumber(call('ZSCORE', DEADLINES, member)) > now then
    found[#found + 1] = operation_answer(id_of(member))
  end
end
return found
