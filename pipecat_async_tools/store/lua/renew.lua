-- SPDX-License-Identifier: BSD-2-Clause
local owner, lease_secs = take(), take_number()
call('ZADD', OWNERS, time_text(now + lease_secs), owner)
