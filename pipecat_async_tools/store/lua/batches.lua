-- SPDX-License-Identifier: BSD-2-Clause
local answers = {}
for i, id in ipairs(all('ZRANGE', 'session-batches', take())) do
  answers[i] = {
    call('HGETALL', key('batch', id)), all('LRANGE', 'batch-expected', id), all('LRANGE', 'batch-ops', id),
  }
end
return answers
