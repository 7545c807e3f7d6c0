-- SPDX-License-Identifier: BSD-2-Clause
return operation_answer(take())
