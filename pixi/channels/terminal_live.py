"""The terminal when somebody sits at it: messages grow while they are written, and one may type meanwhile."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.styles import Style

from pixi.channels.terminal import Answering, Seat
from pixi.channels.terminal_text import one_line
from pixi.channels.terminal_transcript import Line, Transcript, tail
from pixi.core.events import TurnEvent
from pixi.core.message import Message

STYLE = Style.from_dict(
    {
        "you": "ansigreen",
        "persona": "ansimagenta bold",
        "note": "italic ansibrightblack",
        "aside": "ansibrightblack",
        "stopped": "ansibrightblack",
        "cursor": "ansibrightblack",
        "error": "ansired",
    }
)

HELP = """\
Enter sends, Alt-Enter breaks the line, the arrow keys bring back what you wrote.
Ctrl-C stops the reply that is being written; Ctrl-D leaves.
/notes   show or hide the private notes
/reset   forget this conversation
/quit    leave
//text   send a message that begins with a slash"""

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_SECONDS = 0.1
ROWS_BELOW = 4
"""Rows kept free for what the person types and the status below it."""

Tell = Callable[[str], None]
OpenAnswering = Callable[[Tell, Tell], AbstractAsyncContextManager[Answering]]
"""Opens what answers. It is given two functions: to say what it is busy with, and what went wrong."""


def history_in(folder: Path) -> History:
    """What the person wrote before, kept in `folder`; only for this time where that cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "history"
        file.touch(mode=0o600)
        file.open("a").close()
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)


class LiveTerminal:
    """A talk on a terminal. It is its own channel.

    Args:
        seat: who sits here.
        persona: the name of who answers.
        greeting: a line to begin with.
        history: what the arrow keys bring back.
        notes: whether notes are shown from the start.
    """

    def __init__(self, seat: Seat, persona: str, greeting: str, history: History, *, notes: bool) -> None:
        self._seat = seat
        self._greeting = greeting
        self._transcript = Transcript(persona, notes=notes)
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._answering: Answering | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = False
        self._writing = False
        self._leaving = False
        self._loading = ""
        self._loading_since = 0.0
        self._buffer = Buffer(history=history, multiline=True, accept_handler=self._entered)
        self._buffer.on_text_changed += self._stays
        self._app = self._application()

    async def run(self, open_answering: OpenAnswering) -> None:
        """Talk until the person leaves. The prompt is shown first; what answers is opened behind it.

        Raises:
            PixiError: what answers could not be opened, or failed for good.
        """
        self._print([[("class:aside", self._greeting)], []])

        def begin() -> None:
            self._spawn(self._serve(open_answering))
            self._spawn(self._tick())

        try:
            await self._app.run_async(pre_run=begin)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._print(self._transcript.take(self._columns))

    # As a channel.

    @property
    def growing(self) -> bool:
        """Messages are shown while they are being written."""
        return True

    async def send(self, text: str, *, nonce: str, reply_to: str | None = None) -> str | None:
        """Nothing to do: the event shows it."""
        return None

    async def react(self, message_id: str, emoji: str, *, nonce: str) -> None:
        """Show the reaction on the line of its message."""
        self._transcript.react(message_id, emoji)
        self._changed()

    async def typing(self) -> None:
        """Show that a message is being written."""
        self._writing = True
        self._changed()

    def show(self, event: TurnEvent) -> None:
        """Show what happened."""
        self._transcript.happened(event)
        self._changed()

    # What answers.

    async def _serve(self, open_answering: OpenAnswering) -> None:
        async with open_answering(self._progress, self._report) as answering:
            self._answering = answering
            self._progress("")
            await self._hand_over(answering)

    async def _hand_over(self, answering: Answering) -> None:
        """Give each message on at once, and notice when all of them are answered."""
        arriving = asyncio.ensure_future(self._inbox.get())
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            while True:
                waiting: tuple[asyncio.Future[Message], asyncio.Future[None]] = (arriving, settled)
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if arriving.done():
                    await answering.receive(arriving.result(), self)
                    arriving = asyncio.ensure_future(self._inbox.get())
                    settled.cancel()
                    settled = asyncio.ensure_future(answering.settled(self._seat.conversation))
                else:
                    settled.result()
                    settled = asyncio.get_running_loop().create_future()
                    self._busy = self._writing = False
                    self._changed()
        finally:
            arriving.cancel()
            settled.cancel()

    def _report(self, problem: str) -> None:
        self._transcript.tell(problem, "error")
        self._changed()

    def _progress(self, doing: str) -> None:
        self._loading, self._loading_since = one_line(doing), time.monotonic()
        self._changed()

    async def _tick(self) -> None:
        """Keep the spinner turning while there is something to wait for."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._busy or self._loading:
                self._app.invalidate()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        """Do it beside the prompt. If it fails, the talk ends with that error."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) and self._app.is_running:
                self._app.exit(exception=error)

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    # What the person does.

    def _entered(self, buffer: Buffer) -> bool:
        text = buffer.text.strip()
        if text.startswith("/") and not text.startswith("//"):
            self._command(text[1:].split(maxsplit=1)[0] if text[1:].strip() else "help")
        elif text:
            message = self._seat.message(text.removeprefix("/"))
            self._transcript.say(message.id, self._seat.author.name, message.text)
            self._busy = True
            self._inbox.put_nowait(message)
        self._changed()
        return False  # the line is to be emptied

    def _command(self, name: str) -> None:
        match name:
            case "help":
                self._transcript.tell(HELP)
            case "notes":
                self._transcript.notes = not self._transcript.notes
                self._transcript.tell(f"Notes are {'shown' if self._transcript.notes else 'hidden'} now.")
            case "reset":
                self._transcript.tell("The conversation is forgotten.")
                if self._answering:
                    self._spawn(self._answering.reset(self._seat.conversation))
            case "quit" | "exit":
                self._app.exit()
            case _:
                self._transcript.tell(f"There is no /{one_line(name)}; /help shows what there is.", "error")

    def _interrupt(self) -> None:
        """Ctrl-C stops the reply, else empties the line, else says how to leave, then leaves."""
        if self._busy and self._answering:
            self._spawn(self._answering.stop(self._seat.conversation))
        elif self._buffer.text:
            self._buffer.reset()
        elif self._leaving:
            self._app.exit()
        else:
            self._leaving = True
        self._changed()

    def _stays(self, buffer: Buffer) -> None:
        self._leaving = False

    # What is seen.

    def _application(self) -> Application[None]:
        body = HSplit(
            [
                ConditionalContainer(
                    Window(FormattedTextControl(self._live), wrap_lines=True, dont_extend_height=True),
                    Condition(lambda: not self._transcript.empty),
                ),
                Window(
                    BufferControl(self._buffer, input_processors=[BeforeInput(self._prompt)]),
                    wrap_lines=True,
                    dont_extend_height=True,
                ),
                ConditionalContainer(
                    Window(FormattedTextControl(self._status), height=1),
                    Condition(lambda: bool(self._status())),
                ),
            ],
            align=VerticalAlign.TOP,
        )
        app: Application[None] = Application(
            layout=Layout(body), key_bindings=self._keys(), style=STYLE, erase_when_done=True
        )
        if isinstance(app.output, Vt100_Output):
            # Asking the terminal where its cursor is gains nothing here, and some terminals never answer.
            app.output.enable_cpr = False
        return app

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def break_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=Condition(lambda: not self._buffer.text))
        def leave(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _prompt(self) -> FormattedText:
        return FormattedText([("class:you", f"{one_line(self._seat.author.name)} › ")])

    def _live(self) -> FormattedText:
        return _joined(tail(self._transcript.lines(self._columns), self._columns, self._room))

    def _status(self) -> FormattedText:
        text = self._status_text()
        return FormattedText([("class:aside", text)] if text else [])

    def _status_text(self) -> str:
        turn = SPINNER[int(time.monotonic() / TICK_SECONDS) % len(SPINNER)]
        if self._leaving:
            return "Ctrl-C again, or Ctrl-D, leaves."
        if self._loading:
            return f"{turn} {self._loading} {time.monotonic() - self._loading_since:.0f} s"
        if self._busy:
            doing = "is writing" if self._writing else "is thinking"
            return f"{turn} {self._transcript.persona} {doing} (Ctrl-C stops)"
        return ""

    @property
    def _columns(self) -> int:
        return self._app.output.get_size().columns

    @property
    def _room(self) -> int:
        typed = self._buffer.document.line_count
        return max(1, self._app.output.get_size().rows - typed - ROWS_BELOW)

    def _changed(self) -> None:
        """Print what is settled above the prompt, and draw the rest anew."""
        settled = self._transcript.take(self._columns, self._room if self._busy else 0)
        if settled:
            self._print(settled)
        self._app.invalidate()

    def _print(self, lines: list[Line]) -> None:
        if lines:
            print_formatted_text(_joined(lines), style=STYLE)


def _joined(lines: list[Line]) -> FormattedText:
    joined = FormattedText()
    for number, line in enumerate(lines):
        if number:
            joined.append(("", "\n"))
        joined.extend(line)
    return joined
