-- SPDX-License-Identifier: BSD-2-Clause
local event = {}
for _, field in ipairs(EVENT_FIELDS) do
  event[field] = take_optional() or nil
end
log(event)
