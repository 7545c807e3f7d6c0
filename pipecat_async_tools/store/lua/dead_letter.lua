-- SPDX-License-Identifier: BSD-2-Clause
return letter_answer(take())
