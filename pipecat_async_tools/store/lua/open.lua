-- SPDX-License-Identifier: BSD-2-Clause
-- Write the version of the schema down, unless there is one, and return the one there is.
local version = take()
call('SETNX', PREFIX .. ':schema', version)
return call('GET', PREFIX .. ':schema')
