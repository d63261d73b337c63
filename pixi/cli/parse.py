"""`parse`: shows how a raw reply is read, one JSON object an event."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import assert_never

from pixi.cli.console import Printer
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
        type=_chunk_size,
        help="feed N characters at a time, as a stream would; without --deltas this changes nothing",
    )
    parser.add_argument(
        "--deltas",
        action="store_true",
        help="also show a command's start and each piece of its argument",
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
    """Pieces of one text as one event, so that cutting does not show; of arguments only with `deltas`."""
    kind: type[Prose] | type[Thought] = Prose
    pieces: list[str] = []
    for event in events:
        if not deltas and isinstance(event, CommandStarted | CommandText):
            continue
        if pieces and not isinstance(event, kind):
            yield kind("".join(pieces))
            pieces = []
        if isinstance(event, Prose | Thought):
            kind = type(event)
            pieces.append(event.text)
        else:
            yield event
    if pieces:
        yield kind("".join(pieces))


def _as_json(event: Event) -> str:
    form: dict[str, str | bool | int]
    match event:
        case Prose(text):
            form = {"event": "prose", "text": text}
        case Thought(text):
            form = {"event": "thought", "text": text}
        case CommandStarted(name):
            form = {"event": "started", "name": name}
        case CommandText(text):
            form = {"event": "text", "text": text}
        case CommandEnded(name, argument, complete, target):
            form = {"event": "command", "name": name, "argument": argument, "complete": complete}
            if target:
                form["target"] = target
        case ToolCallEnded(name, payload):
            form = {"event": "tool_call", "name": name, "payload": payload}
        case _:
            assert_never(event)
    return json_line(form)


def _chunk_size(word: str) -> int:
    try:
        size = int(word)
    except ValueError:
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of characters; it must be 1 or more")
    return size


def _names(word: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in word.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{word!r} is not a list of names; write them as send,note,react")
    return names
