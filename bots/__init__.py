# SPDX-License-Identifier: BSD-2-Clause
"""A clinic's front desk on the phone: the bot, its offline parts and a demo call.

- ``room``: the bot itself, for Daily, WebRTC and Twilio, and ``python -m bots.room``.
- ``clinic`` and ``clinic_service``: the domain's slow tools, and the HTTP service they call.
- ``scripted_llm``, ``offline_ears``, ``offline_voice``: what stands in for OpenAI, Deepgram and Cartesia.
- ``inprocess``: a phone line inside this process, recorded on both sides.
- ``demo`` (with ``timeline`` and ``verdict``): a whole call from recorded caller speech, checked.
"""
