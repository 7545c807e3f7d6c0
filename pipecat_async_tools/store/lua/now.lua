-- SPDX-License-Identifier: BSD-2-Clause
return NOW
