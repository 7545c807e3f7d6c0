-- SPDX-License-Identifier: BSD-2-Clause
return operation_answers(all('ZRANGE', 'session-ops', take()))
