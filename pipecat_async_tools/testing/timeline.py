# SPDX-License-Identifier: BSD-2-Clause
"""What happened in a simulated call, ready to be asserted and to be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from pipecat_async_tools.testing.history import history_problems
from pipecat_async_tools.testing.model import Message, ModelRun, text_of
from pipecat_async_tools.testing.output import Utterance

# How much of a message a line of the timeline shows.
_MESSAGE_WIDTH = 60


@dataclass
class UserSpeech:
    """One time the caller made a sound.

    Parameters:
        started_at: When the sound started, in seconds of the call.
        ended_at: When it ended.
        text: The words; None for a cough.
    """

    started_at: float
    ended_at: float
    text: str | None


@dataclass
class ToolRun:
    """One run of a scripted tool's handler.

    Parameters:
        name: The tool's name.
        arguments: The arguments it was called with.
        started_at: When it started, in seconds of the call.
        ended_at: When it ended; None while it runs.
        outcome: "running", "returned", "raised" or "cancelled".
    """

    name: str
    arguments: dict[str, Any]
    started_at: float
    ended_at: float | None = None
    outcome: str = "running"


@dataclass
class Telling:
    """One attempt to say a delivery that made a sound, as the package recorded it.

    Two tellings are equal if they started at the same time and the same words were heard.

    Parameters:
        started_at: When its first audio was played, in seconds of the call.
        heard: The words the package holds for heard.
        outcome: How it ended.
        ended_at: When it ended; None while it goes on.
        telling_id: Its id.
        delivery: The delivery it belongs to.
    """

    started_at: float
    heard: str
    outcome: str | None = field(default=None, compare=False)
    ended_at: float | None = field(default=None, compare=False)
    telling_id: str | None = field(default=None, compare=False)
    delivery: Any = field(default=None, compare=False, repr=False)


@dataclass
class CallError:
    """Something that went wrong in the pipeline.

    Parameters:
        at: When, in seconds of the call.
        error: What the `ErrorFrame`, or Pipecat's log, said about it.
        exception: The exception behind it, if there was one.
    """

    at: float
    error: str
    exception: Exception | None = None


@dataclass
class SeenFrame:
    """A frame on its way from one processor to the next.

    Parameters:
        at: When it was pushed, in seconds of the call.
        processor: The name of the processor that pushed it.
        frame: The name of its type.
        direction: "down" or "up".
    """

    at: float
    processor: str
    frame: str
    direction: str


@dataclass
class Timeline:
    """What happened in a call. All times are seconds from the start of the call.

    Parameters:
        ended_at: When the recording ended.
        heard: What the far end heard of the bot.
        user_speech: When the caller made a sound.
        model_runs: The runs of the model.
        tool_runs: The runs of the scripted tools.
        context: The messages in the model's context at the end.
        interruptions: When the bot was interrupted.
        errors: What went wrong.
        tellings: The tellings that made a sound, from the package's record.
        operations: The package's operations.
        batches: The package's batches.
        deliveries: The package's deliveries.
        frames: Every frame pushed but audio, if the call was asked to record them.
    """

    ended_at: float
    heard: list[Utterance]
    user_speech: list[UserSpeech]
    model_runs: list[ModelRun]
    tool_runs: list[ToolRun]
    context: list[Message]
    interruptions: list[float]
    errors: list[CallError]
    tellings: list[Telling] = field(default_factory=list[Telling])
    operations: Sequence[Any] = ()
    batches: Sequence[Any] = ()
    deliveries: Sequence[Any] = ()
    frames: list[SeenFrame] = field(default_factory=list[SeenFrame])

    @property
    def heard_text(self) -> str:
        """All words the far end heard of the bot."""
        return " ".join(utterance.text for utterance in self.heard if utterance.text)

    def overlaps(self) -> list[tuple[float, float]]:
        """The intervals in which caller and bot were audible at the same time."""
        return [(start, end) for _, start, end in self._overlaps()]

    def talked_over(self, grace: float = 0.25) -> list[tuple[float, float]]:
        """The intervals in which the bot talked over the caller: it started while the caller was speaking.

        Args:
            grace: Seconds from the start of the caller's speech in which the bot cannot know of it yet.
        """
        return [
            (start, end)
            for speech, start, end in self._overlaps()
            if start > speech.started_at + grace and self._bot_starts_at(start)
        ]

    def history_problems(self) -> list[str]:
        """What a provider would not accept in the context: see `history.history_problems`."""
        return history_problems(self.context)

    def print(self) -> None:
        """Print the timeline, one event a line."""
        print(self)

    def __str__(self) -> str:
        events = sorted(self._events(), key=lambda event: event[0])
        return "\n".join(f"{at:8.3f}  {what}" for at, what in events)

    def _overlaps(self) -> Iterator[tuple[UserSpeech, float, float]]:
        for speech in self.user_speech:
            for utterance in self.heard:
                start = max(speech.started_at, utterance.started_at)
                end = min(speech.ended_at, utterance.ended_at)
                if start < end:
                    yield speech, start, end

    def _bot_starts_at(self, at: float) -> bool:
        return any(utterance.started_at == at for utterance in self.heard)

    def _events(self) -> Iterator[tuple[float, str]]:
        for speech in self.user_speech:
            words = "(no words)" if speech.text is None else f'"{speech.text}"'
            yield speech.started_at, f"caller    {words} until {speech.ended_at:.3f}"
        for utterance in self.heard:
            yield utterance.started_at, f'bot       "{utterance.text}" until {utterance.ended_at:.3f}'
        for run in self.model_runs:
            yield run.at, f"model     {_describe_run(run)}"
        for tool in self.tool_runs:
            yield tool.started_at, f"tool      {tool.name}({_describe_arguments(tool.arguments)})"
            if tool.ended_at is not None:
                yield tool.ended_at, f"tool      {tool.name} {tool.outcome}"
        for telling in self.tellings:
            yield telling.started_at, f'telling   "{telling.heard}" {telling.outcome}'
        for at in self.interruptions:
            yield at, "interruption"
        for error in self.errors:
            yield error.at, f"ERROR     {error.error}"
        yield self.ended_at, "end"


def _describe_run(run: ModelRun) -> str:
    message = shorten(text_of(run.last_message), _MESSAGE_WIDTH, placeholder=" …")
    asked = f"{run.last_message.get('role')}: {message}"
    said = f'"{run.text.strip()}"'
    calls = "".join(f" {call.name}({_describe_arguments(dict(call.arguments))})" for call in run.calls)
    end = "running" if run.ended_at is None else f"until {run.ended_at:.3f}"
    cut = " interrupted" if run.interrupted else ""
    return f"[{asked}] -> {said}{calls} {end}{cut}"


def _describe_arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
