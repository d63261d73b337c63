"""What a person types: lines of a pipe, commands, and their completion."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from pixi.core.errors import ConfigError

CHUNK_BYTES = 65_536


async def read_chunks(descriptor: int) -> AsyncGenerator[bytes, None]:
    """The bytes of a file, pipe or terminal as they come, each chunk read when it is asked for.

    A thread of its own reads: an event loop can wait for a pipe, but not for a file nor for a console
    on Windows. The thread is a daemon, so that one stuck in a read never keeps the program from ending.

    Raises:
        OSError: it cannot be read.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    wanted = threading.Semaphore(0)
    left = False

    def read() -> None:
        while wanted.acquire() and not left:
            chunk: bytes | OSError
            try:
                chunk = os.read(descriptor, CHUNK_BYTES)
            except OSError as error:
                chunk = error
            if left:
                return
            loop.call_soon_threadsafe(arrived.put_nowait, chunk)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    try:
        while True:
            wanted.release()
            chunk = await arrived.get()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                return
            yield chunk
    finally:
        left = True
        wanted.release()


async def read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """The lines of UTF-8 text, without their ends. A byte order mark at the beginning is skipped.

    Raises:
        ConfigError: a line is not UTF-8; the lines before it were given.
        OSError: the input cannot be read.
    """
    number = 0
    pending: list[bytes] = []
    async with aclosing(read_chunks(descriptor)) as chunks:
        async for chunk in chunks:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                number += 1
                yield _decoded(b"".join((*pending, line)), number)
                pending.clear()
            pending.append(rest)
    if any(pending):
        yield _decoded(b"".join(pending), number + 1)


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{line[error.start]:02x})"
        raise ConfigError(
            f"standard input, line {number}: {byte} is not UTF-8.\n"
            "Save or convert the text as UTF-8 and send it again."
        ) from None


COMMANDS: Mapping[str, str] = {
    "persona": "list the personas; /persona NAME talks to another",
    "model": "show which model answers, and what it cannot do; /model NAME takes another",
    "brain": "choose another model, as at the first start",
    "why": "show the reasons for the last reply: model, tools, memories, passages, limits",
    "notes": "show or hide the private notes",
    "retry": "answer your last message once more",
    "edit": "change your last message, and answer it anew",
    "undo": "take your last message out of the talk, with its answer",
    "branches": "list what was taken out or answered anew, and go back to it",
    "reset": "forget this conversation",
    "usage": "show the use of today and this month",
    "forget me": "delete all that Pixi keeps of you",
    "export me": "get all that Pixi keeps of you, as a file",
    "quit": "leave",
}
"""By the words that are typed."""

_KEYS = """\
Enter sends, Alt-Enter breaks the line, Tab completes, the arrow keys bring back what you wrote.
Ctrl-C stops the reply that is being written; Ctrl-D leaves."""
_WIDE = max(map(len, COMMANDS)) + 2

HELP = "\n".join(
    (
        _KEYS,
        *(f"/{name:<{_WIDE}}{does}" for name, does in COMMANDS.items()),
        f"{'//text':<{_WIDE + 1}}send a message that begins with a slash",
    )
)


@dataclass(frozen=True, slots=True)
class TalkChange:
    """What a person wants to talk to instead: another persona, another model, or a model yet to be chosen."""

    of: Literal["persona", "model", "brain"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be chosen in a talk.

    Attributes:
        personas: gives one line about each, by the names of their files.
        models: names of models that the settings have.
    """

    personas: Callable[[], Mapping[str, str]] = dict
    models: Sequence[str] = ()

    def persona(self, name: str) -> str:
        """Return the name of a persona as it is spelt; "" where there is none."""
        return next((each for each in self.personas() if each.casefold() == name.casefold()), "")


class CommandCompleter(Completer):
    """Completes commands, and the names that two of them take."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what the line may become."""
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in document.text:
            return
        command, space, name = typed[1:].partition(" ")
        known: Iterable[str] = () if space else COMMANDS
        if space and command == "persona":
            known = self._choices.personas()
        elif space and command == "model":
            known = self._choices.models
        word = name.lstrip() if space else command
        for each in known:
            if each.casefold().startswith(word.casefold()):
                yield Completion(each, start_position=-len(word))
