# SPDX-License-Identifier: BSD-2-Clause
"""The front desk of a clinic as a voice bot, for a Daily room, a WebRTC page or a Twilio call.

Three of its tools are slow. It says once that it is on it, goes on talking, and comes back with one spoken
update when the caller can hear it.

  python -m bots.room -t daily             join a Daily room
  python -m bots.room -t webrtc            serve a page with a microphone on http://localhost:7860
  python -m bots.room -t twilio -x HOST    answer Twilio calls that reach this machine as HOST
  python -m bots.room -t webrtc --offline  the same page without any key: local voice and ears, scripted model
  python -m bots.room --offline            play a recorded call in this process (same as python -m bots.demo)

environment:
  DEEPGRAM_API_KEY, OPENAI_API_KEY, CARTESIA_API_KEY   needed unless --offline
  DAILY_API_KEY                                        needed for -t daily
  TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN                needed for -t twilio
  OPENAI_MODEL, OPENAI_BASE_URL, CARTESIA_VOICE_ID     optional
  CLINIC_URL                                           the clinic's back office; unset, a mock is started

Other options (--host, --port, -d, ...) are those of Pipecat's runner. It listens on localhost.
"""

import argparse
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from pipecat.runner.types import DailyRunnerArguments, RunnerArguments, WebSocketRunnerArguments
from pipecat.runner.utils import create_transport
from pipecat.transports.base_transport import BaseTransport, TransportParams

from bots import demo
from bots.call import build_call
from bots.clinic import CLINIC_URL, INSTRUCTIONS
from bots.clinic_service import Behaviour, ClinicService
from bots.services import Services, offline_services
from pipecat_async_tools import CarrierMarks

CLOUD_KEYS = ("DEEPGRAM_API_KEY", "OPENAI_API_KEY", "CARTESIA_API_KEY")
TRANSPORT_KEYS = {
    "daily": ("DAILY_API_KEY",),
    "twilio": ("TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"),
    "webrtc": (),
}
MOCK_DELAY_SECS = 6.0
USAGE_ERROR = 2


def _daily() -> TransportParams:
    from pipecat.transports.daily.transport import DailyParams  # noqa: PLC0415 - only where it is installed

    return DailyParams(audio_in_enabled=True, audio_out_enabled=True)


def _webrtc() -> TransportParams:
    return TransportParams(audio_in_enabled=True, audio_out_enabled=True)


def _twilio() -> TransportParams:
    from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams  # noqa: PLC0415 - as above

    return FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True)


TRANSPORT_PARAMS: dict[str, Callable[[], TransportParams]] = {
    "daily": _daily,
    "webrtc": _webrtc,
    "twilio": _twilio,
}


async def bot(runner_args: RunnerArguments) -> None:
    """Take one call; Pipecat's runner starts this.

    Args:
        runner_args: The transport and the command line's options.
    """
    options = runner_args.cli_args or argparse.Namespace(offline=False, plain=False)
    phone = _twilio() if isinstance(runner_args, WebSocketRunnerArguments) else None
    of_kind = {**TRANSPORT_PARAMS, **({"twilio": lambda: phone} if phone else {})}
    transport = await create_transport(runner_args, of_kind)
    marks = _marks(phone, runner_args)
    async with _services(offline=options.offline) as services, _back_office():
        await run_bot(transport, services, runner_args, plain=options.plain, marks=marks)


def _marks(phone: TransportParams | None, runner_args: RunnerArguments) -> CarrierMarks | None:
    stream_id = runner_args.call_data.stream_id if runner_args.call_data else None
    if phone is None or not stream_id:
        return None
    from bots.phone_line import ask_carrier  # noqa: PLC0415 - needs the websocket extra

    return ask_carrier(phone, stream_id)


async def run_bot(
    transport: BaseTransport,
    services: Services,
    runner_args: RunnerArguments,
    *,
    plain: bool,
    marks: CarrierMarks | None = None,
) -> None:
    """Run a call from the caller's arrival to the hang-up.

    Args:
        transport: Where the caller is.
        services: Ears, model and voice.
        runner_args: What the runner knows of the call.
        plain: Whether Pipecat runs the tools by itself, without the plug-in.
        marks: Of a phone line, what its carrier has played.
    """
    call = build_call(
        transport,
        services,
        session_id=_session_id(runner_args),
        plain=plain,
        marks=marks,
        idle_timeout_secs=runner_args.pipeline_idle_timeout_secs,
    )

    @transport.event_handler("on_client_connected")
    async def _(*_: object) -> None:
        await call.greet()

    @transport.event_handler("on_client_disconnected")
    async def _(*_: object) -> None:
        await call.worker.cancel(reason="the caller hung up")

    if isinstance(runner_args, DailyRunnerArguments):
        # A join that fails is reported here only; the pipeline would wait in a dead room.
        @transport.event_handler("on_error")
        async def _(_: object, error: object) -> None:
            await call.worker.cancel(reason=f"the room failed: {error}")

    await call.run()


def _session_id(runner_args: RunnerArguments) -> str:
    """What outlasts a reconnect: the room, else the phone call, else this session."""
    if isinstance(runner_args, DailyRunnerArguments):
        return runner_args.room_url
    phone_call = runner_args.call_data.call_id if runner_args.call_data else None
    return phone_call or runner_args.session_id or str(uuid.uuid4())


@asynccontextmanager
async def _services(*, offline: bool) -> AsyncIterator[Services]:
    if offline:
        async with offline_services(INSTRUCTIONS) as services:
            yield services
    else:
        from bots.cloud import cloud_services  # noqa: PLC0415 - offline does without the clients

        yield cloud_services(INSTRUCTIONS)


@asynccontextmanager
async def _back_office() -> AsyncIterator[None]:
    """A mock of the clinic's service, unless ``CLINIC_URL`` names a real one."""
    if CLINIC_URL in os.environ:
        yield
        return
    async with ClinicService() as clinic:
        for path in ("/slots", "/customers", "/appointments"):
            clinic.script(path, Behaviour(delay_secs=MOCK_DELAY_SECS))
        os.environ[CLINIC_URL] = clinic.url
        try:
            yield
        finally:
            del os.environ[CLINIC_URL]


def missing_keys(options: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """The environment variables that a call would need and that are not set.

    Args:
        options: ``transport`` and ``offline``.
        environment: The environment.

    Returns:
        Their names.
    """
    needed = () if options.offline else CLOUD_KEYS
    return [key for key in (*needed, *TRANSPORT_KEYS.get(options.transport, ())) if not environment.get(key)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bots.room",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("--offline", action="store_true", help="local voice and ears, scripted model: no key")
    parser.add_argument("--plain", action="store_true", help="without the plug-in, for comparison")
    return parser


def main() -> int:
    """Start the bot from the command line.

    Returns:
        The exit status: 2 when something is missing.
    """
    own = _parser()
    own.add_argument("-t", "--transport", choices=TRANSPORT_KEYS)
    own.add_argument("-h", "--help", action="help")
    options, _ = own.parse_known_args()
    if options.offline and not options.transport:
        return demo.main(["--plain"] if options.plain else [])
    missing = missing_keys(options, os.environ)
    if missing:
        print(f"not set: {', '.join(missing)} (see python -m bots.room --help)", file=sys.stderr)
        return USAGE_ERROR
    from pipecat.runner.run import main as serve  # noqa: PLC0415 - needs the runner extra

    serve(_parser())
    return 0


if __name__ == "__main__":
    sys.exit(main())
