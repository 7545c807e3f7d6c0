-- SPDX-License-Identifier: BSD-2-Clause
local id, note = take(), take()
local letter = read('letter', id)
if not letter then
  return refuse('there is no dead letter ' .. id)
end
if letter.closed_at then
  return refuse(id .. ' is closed')
end
close_letter(id, note)
return letter_answer(id)
