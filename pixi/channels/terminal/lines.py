"""The terminal when nobody sits at it: lines in, replies out, in plain words or as one JSON object a line."""

import asyncio
import math
import os
import re
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

from msgspec import Struct

from pixi.channels.engine import ChannelEngine
from pixi.core.channel import TAKEN_OVER, Channel, Question
from pixi.core.errors import ChannelError, ChannelForgot, ConfigError, LeaseHeld, StoreError
from pixi.core.events import Failed, Noted, Numbering, Reacted, Sourced, TurnEnded, TurnEvent, Verdict
from pixi.core.llm import PromptProgress
from pixi.core.message import Author, Message, Rights
from pixi.core.untrusted import json_line, printable, printable_line, without_middle

_WORDS: Mapping[str, tuple[str, str, str]] = {
    "search": ("looks up “{}” in {name}", "looks into {name}", "keyword query"),
    "query": ("reads {name} for “{}”", "reads {name}", "query question"),
    "web_search": ("searches the web for “{}”", "searches the web", "query"),
    "read_page": ("reads {}", "reads a page", "url"),
    "remember": ("remembers “{}”", "remembers something", "fact"),
    "recall": ("thinks back to “{}”", "thinks back", "query"),
    "forget": ("forgets “{}”", "forgets something", "what"),
    "search_messages": ("looks for “{}” in what was written here", "looks through what was written", "words"),
}
"""Words by the name of a tool: with arguments, without, and the names of the argument that tells most."""
_OF_A_SOURCE = re.compile(r"(search|query)_(.+)_(?:database|wiki)")
_LONGEST = 80  # characters of an argument
_MOST_ARGUMENTS = 4
CHUNK_BYTES = 65_536
TAKEN = Failed(TAKEN_OVER)
"""Tells that another window has the talk now."""
OWN_SECONDS = 30.0
"""Time that lines wait for the end of a reply that another window of the talk is writing."""
_LOOK_SECONDS = 1.0  # between looks whether another window has the talk
_SOON_SECONDS = 1.0  # shorter waits are not worth a word
_HELD = "a reply is being written in another window of this talk"
_SITS_HERE = "terminal:"
"""Begins the id of whoever sits at a terminal."""


def call_in_words(tool: str, arguments: Mapping[str, Any]) -> str:
    """Say what a call of a tool does, as the rest of a sentence that begins with who calls."""
    kind, name = tool, ""
    if source := _OF_A_SOURCE.fullmatch(tool):
        kind, name = source[1], _plain(source[2].replace("_", " "))
    if kind in _WORDS and (source or kind not in ("search", "query")):
        with_it, without, keys = _WORDS[kind]
        for key in keys.split():
            if given := _plain(arguments.get(key) or ""):
                return with_it.format(given, name=name)
        return without.format(name=name)
    told = ", ".join(
        f"{_plain(key)} {_plain(value)}" for key, value in [*arguments.items()][:_MOST_ARGUMENTS]
    )
    more = ", …" if len(arguments) > _MOST_ARGUMENTS else ""
    return f"uses {_plain(tool)}: {told}{more}" if told else f"uses {_plain(tool)}"


def _plain(value: object) -> str:
    return without_middle(printable_line(str(value)), _LONGEST, " … ")


class ReadingIndicator:
    """Knows what is read now. Tell it what happens, and ask for its words whenever they are shown."""

    def __init__(self) -> None:
        self._reading: PromptProgress | None = None  # the last that was told; None: nothing is read
        self._told_at = 0.0  # when that was, and when it began, on the monotonic clock
        self._since = 0.0

    def happened(self, event: TurnEvent) -> None:
        """Take in what happened: whatever is no reading ends it."""
        now = time.monotonic()
        if not isinstance(event, PromptProgress):
            self._reading = None
            return
        if self._reading is None:
            self._since = now
        self._reading, self._told_at = event, now

    @property
    def reads(self) -> bool:
        """Return whether something is left to be read."""
        return self._reading is not None and self._reading.done < self._reading.total

    @property
    def words(self) -> str:
        """Return how much is left, such as `reading 1,669 tokens · 40 s to go`; "" where it takes no time."""
        now = time.monotonic()
        if self._reading is None or not self.reads or now - self._since < _SOON_SECONDS:
            return ""
        left = self._reading.total - self._reading.done
        words = f"reading {left:,} token{'s' if left > 1 else ''}"
        to_go = math.ceil((self._reading.seconds or 0.0) - (now - self._told_at))
        return f"{words} · {_told(to_go)} to go" if to_go > 0 else words


def _told(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"


async def read_chunks(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file, pipe or terminal as they come, each chunk read when it is asked for.

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
    """Yield the lines of UTF-8 text, without their ends. A byte order mark at the beginning is skipped.

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


class TerminalUser(Struct, frozen=True):
    """The person at the terminal, and their conversation."""

    conversation: str
    author: Author

    def message(self, text: str) -> Message:
        """Return a message of theirs, written now."""
        return Message(
            id=uuid.uuid4().hex,
            conversation=self.conversation,
            author=self.author,
            text=text,
            sent_at=time.time(),
        )


def seat(persona: str, user: str) -> TerminalUser:
    """Return the place of `user` at a terminal where `persona` answers."""
    return TerminalUser(
        f"terminal:{_address_part(persona)}:{_address_part(user)}",
        Author(id=f"{_SITS_HERE}{user}", name=user),
    )


def sits_at_terminal(person: str) -> bool:
    """Return whether this is the id of somebody who talks at a terminal."""
    return person.startswith(_SITS_HERE)


def _address_part(name: str) -> str:
    # `~` stands in the addresses of what was taken out of a talk.
    return re.sub(r"[\s:~]+", "-", name.strip()).lower()


@dataclass(slots=True)
class LinesChannel(Channel):
    """Writes what happens to `out`, flushed at once.

    As text: the delivered messages alone; with `notes`, the notes and reactions too, marked. What went
    wrong goes to `err`. As JSON: every event, with `t`, the seconds since the message was received; with
    `growing` messages as they grow, too.

    While a long prompt is read, `progress` is told so ("" when it is over).

    Attributes:
        failed: a turn ended in an error, or was taken over.
        broken: set when `out` cannot be written any more; `fault` says why.
    """

    out: TextIO
    err: TextIO
    as_json: bool = False
    notes: bool = False
    growing: bool = False
    progress: Callable[[str], None] = lambda _: None
    failed: bool = False
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    fault: OSError | None = None
    _received: float = field(default_factory=time.monotonic)
    _printed: str = ""  # the nonce of the last message
    _numbering: Numbering = field(default_factory=Numbering)
    _reading: ReadingIndicator = field(default_factory=ReadingIndicator)
    _told: asyncio.TimerHandle | None = None  # when it is told next how far the prompt is read

    async def rights(self, person: str) -> Rights:
        """Grant all: who started the program governs it."""
        here = sits_at_terminal(person)
        return Rights(manager=here, operator=here)

    async def approve(self, question: Question, *, seconds: float) -> Verdict:
        """Answer that nobody can be asked through a pipe, and show the question."""
        tool = printable_line(question.tool)
        self.tell(f"{tool} wants somebody's yes, and can ask only where somebody sits at the terminal.")
        return "nobody"

    def hear(self) -> None:
        """A message was received now: the events that follow are counted from here."""
        self._received = time.monotonic()

    async def send(
        self, text: str, *, nonce: str, answers: str | None = None, reply_to: str | None = None
    ) -> str | None:
        """Print the message. Raises `ChannelError` when that is not possible any more."""
        if not self.as_json:
            self._write(printable(text))
        if self.fault:
            raise ChannelError("The output cannot be written any more.")
        self._printed = nonce
        return None

    async def sent_before(self, text: str, *, nonce: str, after: str) -> str | None:
        """Look up what was printed last. Raises `ChannelForgot` for what an earlier process printed."""
        if nonce != self._printed:
            raise ChannelForgot("what was printed earlier cannot be looked at.")
        return nonce

    def show(self, event: TurnEvent) -> None:
        """Print what is to be seen of an event."""
        self._reading.happened(event)
        if self._reading.reads != (self._told is not None):
            self._tell_of_reading()
        if event == TAKEN or (isinstance(event, TurnEnded) and event.finish == "error"):
            self.failed = True
        if self.as_json:
            elapsed = round(time.monotonic() - self._received, 3)
            self._write(json_line({**self._numbering.form(event), "t": elapsed}))
            return
        match event:
            case Failed(text) if not self.fault:  # else it tells what `say` ends for
                self.tell(printable_line(text))
            case TurnEnded("limit") if not self.fault:
                self.tell("the reply was closed at a limit; see [limits].")
            case Noted(text) if self.notes:
                self._write(f"(note: {printable_line(text)})")
            case Reacted(emoji) if self.notes:
                self._write(f"(reaction: {printable_line(emoji)})")
            case Sourced(sources) if self.notes:
                for each in sources:
                    self._write(f"(source: {printable_line(f'{each.title} {each.url}'.strip())})")
            case _:
                pass

    def _tell_of_reading(self) -> None:
        """Tell how far the prompt is read, each second until it is."""
        if self._told is not None:
            self._told.cancel()
        self.progress(self._reading.words)
        reads, loop = self._reading.reads, asyncio.get_running_loop()
        self._told = loop.call_later(1.0, self._tell_of_reading) if reads else None

    def tell(self, line: str) -> None:
        """Tell whoever started the program something, beside the replies."""
        print(f"pixi-persona: {line}", file=self.err, flush=True)

    def _write(self, line: str) -> None:
        if self.fault:
            return
        try:
            self.out.write(line + "\n")
            self.out.flush()
        except OSError as error:
            # Told to `say`, which ends; raised here it would look like a fault of the command.
            self.fault = error
            self.broken.set()


async def say(line: str, seat: TerminalUser, answering: ChannelEngine, channel: LinesChannel) -> None:
    """Send a line as a message, and wait until it is answered.

    Raises:
        LeaseHeld: a reply that another window of the talk is writing did not end within `OWN_SECONDS`.
        OSError: the replies cannot be written any more (`BrokenPipeError`: nobody reads them).
    """
    await _own(answering, seat.conversation, channel)
    channel.hear()
    await answering.receive(seat.message(line), channel)
    await _answered(answering, seat.conversation, channel)


async def _own(answering: ChannelEngine, conversation: str, channel: LinesChannel) -> None:
    """Have the conversation here; tell what is waited for, if it takes longer than a moment."""
    try:
        await answering.own(conversation, seconds=_SOON_SECONDS)
    except LeaseHeld:
        channel.tell(f"{_HELD}: it is waited for, {OWN_SECONDS:.0f} s at most.")
        try:
            await answering.own(conversation, seconds=OWN_SECONDS - _SOON_SECONDS)
        except LeaseHeld:
            raise LeaseHeld(f"{_HELD}, and did not end in {OWN_SECONDS:.0f} s: try again later.") from None


async def _answered(answering: ChannelEngine, conversation: str, channel: LinesChannel) -> None:
    """Wait until all is answered, or the output is broken; stop where another window takes the talk over."""
    settled = asyncio.ensure_future(answering.settled(conversation))
    broken = asyncio.ensure_future(channel.broken.wait())
    try:
        while not settled.done() and not broken.done():
            ends = (settled, broken)
            await asyncio.wait(ends, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            with suppress(StoreError):
                if not settled.done() and await answering.owned_elsewhere(conversation):
                    await answering.stop(conversation)
        if channel.fault:
            raise channel.fault
        settled.result()
    finally:
        settled.cancel()
        broken.cancel()
