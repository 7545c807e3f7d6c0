-- SPDX-License-Identifier: BSD-2-Clause
return delivery_answers(all('ZRANGE', 'session-open', take()))
