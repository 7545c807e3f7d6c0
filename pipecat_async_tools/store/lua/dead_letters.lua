-- SPDX-License-Identifier: BSD-2-Clause
local session_id, include_closed, limit = take_optional(), take() == 'true', take_number()
local index = include_closed and LETTERS or OPEN_LETTERS
if session_id then
  index = key(include_closed and 'session-letters' or 'session-open-letters', session_id)
end
local answers = {}
if limit > 0 then
  for i, id in ipairs(call('ZRANGE', index, 0, limit - 1)) do
    answers[i] = letter_answer(id)
  end
end
return answers
