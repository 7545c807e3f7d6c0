# SPDX-License-Identifier: BSD-2-Clause
"""Conversations that go on in another process: the bot is restarted between two calls of one caller."""
