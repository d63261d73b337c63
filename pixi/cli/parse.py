"""`parse`: shows how a raw reply is read, one JSON object an event."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from msgspec.structs import asdict

from pixi.cli.console import Printer
from pixi.cli.flags import number_to
from pixi.core.errors import ConfigError
from pixi.core.language import (
    CommandEnded,
    CommandStarted,
    CommandStream,
    CommandText,
    Event,
    Prose,
    Thought,
    ToolCallEnded,
)
from pixi.core.untrusted import json_line

HELP = "show how a raw reply is read, event by event"

_EVENTS: Mapping[type[Event], str] = {
    Prose: "prose",
    Thought: "thought",
    CommandStarted: "started",
    CommandText: "text",
    CommandEnded: "command",
    ToolCallEnded: "tool_call",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `parse`."""
    parser.description = (
        "Reads a model's raw reply from standard input and prints one JSON object per event, a line each. "
        "This is how to see why a reply did nothing."
    )
    parser.add_argument(
        "--commands",
        metavar="A,B,C",
        type=_names,
        help="the registered commands (default: the built-in ones)",
    )
    parser.add_argument(
        "--chunk",
        metavar="N",
        type=number_to(1_000_000),
        help="feed N characters at a time, as a stream would; without --deltas this changes nothing",
    )
    parser.add_argument(
        "--deltas", action="store_true", help="also show a command's start and each piece of its argument"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read standard input to its end and print its events."""
    reply = _standard_input()
    stream = CommandStream(arguments.commands)
    for event in _joined(_events(stream, reply, arguments.chunk), deltas=arguments.deltas):
        print(_as_json(event))
    return 0


def _standard_input() -> str:
    if sys.stdin.isatty():
        Printer().complain("paste a raw reply, then press Ctrl-D on a line of its own.")
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"standard input is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}. "
            "Convert it first, for instance with iconv."
        ) from None


def _events(stream: CommandStream, reply: str, chunk: int | None) -> Iterator[Event]:
    step = chunk or max(1, len(reply))
    for at in range(0, len(reply), step):
        yield from stream.feed(reply[at : at + step])
    yield from stream.close()


def _joined(events: Iterable[Event], *, deltas: bool) -> Iterator[Event]:
    """Join the pieces of a text, so that cutting does not show; drop those of commands without `deltas`."""
    shown = (event for event in events if deltas or not isinstance(event, CommandStarted | CommandText))
    for kind, following in groupby(shown, type):
        if issubclass(kind, Prose | Thought):
            yield kind("".join(event.text for event in following if isinstance(event, kind)))
        else:
            yield from following


def _as_json(event: Event) -> str:
    fields = asdict(event)
    if not (isinstance(event, CommandEnded) and event.target):
        fields.pop("target", None)
    return json_line({"event": _EVENTS[type(event)], **fields})


def _names(word: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in word.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of names; write them as send,note,react")
    return names
