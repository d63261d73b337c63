"""The screen of a live talk: what may still change, a line to type in, a status line; keys and drawing."""

import os
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    UIControl,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.styles import Style

from pixi.channels.terminal.rows import Line, reflowed, tail
from pixi.channels.terminal.transcript import Transcript
from pixi.core.untrusted import printable_line

STYLE = Style.from_dict(
    {
        "you": "ansigreen",
        "persona": "ansimagenta bold",
        "note": "italic ansibrightblack",
        "aside": "ansibrightblack",
        "stopped": "ansibrightblack",
        "cursor": "ansibrightblack",
        "error": "ansired",
        "question": "ansiyellow",
        "frame": "ansibrightblack",
        "title": "bold",
        "bold": "bold",
        "italic": "italic",
        "code": "ansicyan",
        "name": "ansicyan",
        "link": "ansiblue underline",
    }
)

ROWS_BELOW = 4
"""Rows kept free for what the person types and the status below it."""


class ScreenListener(Protocol):
    """The questions and news of the screen."""

    @property
    def busy(self) -> bool:
        """Return whether a reply is to come, so that what stands on the screen may still change."""
        ...

    def status(self) -> str:
        """Return the status line; "" for none."""
        ...

    def entered(self, text: str) -> None:
        """The person sent this. It is not blank."""
        ...

    def answered(self, text: str) -> None:
        """The person wrote this where they were asked something."""
        ...

    def interrupted(self) -> None:
        """The person pressed Ctrl-C."""
        ...

    def typed(self) -> None:
        """The person changed the line."""
        ...


class _Resizable(Application[None]):
    """An application that finds what it drew again after its terminal became narrower.

    Most terminals break the rows that have become too long, so that more rows stand above the cursor than
    were drawn. prompt_toolkit goes up by the rows that it drew: the first of them would stay for ever, once
    more with every change of the width.
    """

    _columns = 0  # of the terminal, when it was drawn last
    _cursor = Point(x=0, y=0)  # where that left the cursor, counted from the first row

    def _on_resize(self) -> None:
        self.find_again()
        super()._on_resize()

    def drew(self) -> None:
        """Keep in mind where everything was drawn; to be called after each time."""
        if self.renderer._last_size is not None:  # not as large as it is now: it may have changed meanwhile
            self._columns, self._cursor = self.renderer._last_size.columns, self.renderer._cursor_pos

    def find_again(self) -> None:
        """Count the rows that were drawn as they stand now; to be called before any of them is erased."""
        columns, drawn = self.output.get_size().columns, self.renderer.last_rendered_screen
        if drawn is None or columns >= self._columns or not _breaks_rows():
            return
        rows = [
            "".join(drawn.data_buffer[y][x].char for x in range(self._columns) if x in drawn.data_buffer[y])
            for y in range(self._cursor.y)
        ]
        above = reflowed(rows, columns) + self._cursor.x // columns
        self.renderer._cursor_pos = Point(x=self._cursor.x % columns, y=above)


def _breaks_rows() -> bool:
    """Return True if the terminal breaks rows that have become too long, as all but a few old ones do."""
    if "TMUX" in os.environ:
        return True
    old = os.environ.get("TERM", "").startswith(("linux", "rxvt", "screen", "st-", "vt"))
    return not old and "XTERM_VERSION" not in os.environ


class Screen:
    """Draws a transcript above a line to type in. What is settled is printed, once, above all of it.

    Args:
        transcript: what is to be seen.
        prompt: what stands before the line.
        history: what the arrow keys bring back.
        sitter: who is asked for the status, and told of lines and keys.
        completer: what Tab makes of the line.
    """

    def __init__(
        self,
        transcript: Transcript,
        prompt: str,
        history: History,
        sitter: ScreenListener,
        completer: Completer,
    ) -> None:
        self._transcript = transcript
        self._prompt = FormattedText([("class:you", printable_line(prompt) + " ")])
        self._sitter = sitter
        self._buffer = Buffer(
            history=history, multiline=True, accept_handler=self._accept, completer=completer
        )
        self._buffer.on_text_changed += lambda _: sitter.typed()
        self._answer = Buffer(multiline=False, accept_handler=self._accept_answer)
        self._asking = ""
        self._line_control = BufferControl(self._buffer, input_processors=[BeforeInput(lambda: self._prompt)])
        self._answer_control = BufferControl(
            self._answer, input_processors=[BeforeInput(lambda: [("class:question", self._asking)])]
        )
        self._app = self._application()

    async def run(self, begin: Callable[[], None]) -> None:
        """Show it until somebody leaves. `begin` is called once it can be drawn on.

        Raises:
            The error that `leave` was given.
        """
        await self._app.run_async(pre_run=begin)

    def leave(self, error: BaseException | None = None) -> None:
        """End `run`, with an error if there is one. Nothing happens where it has ended."""
        if self._app.is_running and not self._app.is_done:
            if error:
                self._app.exit(exception=error)
            else:
                self._app.exit()

    def changed(self) -> None:
        """Print what is settled, and draw the rest anew."""
        self.print(self._transcript.take(self.columns, self._room if self._sitter.busy else 0))
        self.redraw()

    def redraw(self) -> None:
        """Draw it anew."""
        self._app.invalidate()

    def print(self, lines: list[Line]) -> None:
        """Print lines above all else; they are the terminal's own from then on."""
        if lines:
            self._app.find_again()
            print_formatted_text(_joined(lines), style=STYLE)

    def print_rest(self) -> None:
        """Print all that is left in the transcript."""
        self.print(self._transcript.take(self.columns))

    @property
    def line(self) -> str:
        """Return what the person has typed and not sent."""
        return self._buffer.text

    def empty_line(self) -> None:
        """Forget what was typed."""
        self._buffer.reset()

    def put_by(self, text: str) -> None:
        """Add to what the person has typed and not sent."""
        self._buffer.insert_text(f" {text}" if self._buffer.text else text)

    def ask(self, prompt: str) -> None:
        """Let the person write an answer in place of their line, which comes back with `end_asking`."""
        self._asking = f"{printable_line(prompt)} "
        self._answer.reset()
        self._app.layout.focus(self._answer_control)
        self.redraw()

    def end_asking(self) -> None:
        """Give the person their line back as they left it."""
        self._asking = ""
        self._answer.reset()
        self._app.layout.focus(self._line_control)
        self.redraw()

    @property
    def colours(self) -> bool:
        """Return whether the terminal has colours enough for a picture."""
        return self._app.color_depth not in (ColorDepth.DEPTH_1_BIT, ColorDepth.DEPTH_4_BIT)

    def _application(self) -> _Resizable:
        asking = Condition(lambda: bool(self._asking))
        status = FormattedTextControl(lambda: FormattedText([("class:aside", self._sitter.status())]))
        parts: list[tuple[UIControl, Filter]] = [
            (FormattedTextControl(self._live), Condition(lambda: not self._transcript.empty)),
            (self._line_control, ~asking),
            (self._answer_control, asking),
            (
                FormattedTextControl(self._completions),
                Condition(lambda: self._buffer.complete_state is not None),
            ),
            (status, Condition(lambda: bool(self._sitter.status()))),
        ]
        body = HSplit(
            [
                ConditionalContainer(Window(control, wrap_lines=True, dont_extend_height=True), shown)
                for control, shown in parts
            ],
            align=VerticalAlign.TOP,
        )
        output = get_app_session().output
        if isinstance(output, Vt100_Output):
            # Asking the terminal where its cursor is gains nothing here, and some terminals never answer.
            output.enable_cpr = False
        return _Resizable(
            layout=Layout(body, focused_element=self._line_control),
            key_bindings=self._keys(),
            style=STYLE,
            erase_when_done=True,
            before_render=lambda _: self._app.find_again(),
            after_render=lambda _: self._app.drew(),
        )

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=Condition(lambda: not self._asking))
        def break_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("tab")
        @keys.add("s-tab")
        def complete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is None:
                buffer.start_completion(insert_common_part=True)
            elif event.key_sequence[0].key == Keys.BackTab:
                buffer.complete_previous()
            else:
                buffer.complete_next()

        @keys.add("c-c")
        @keys.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            self._sitter.interrupted()

        @keys.add("c-d", filter=Condition(lambda: not (self._answer if self._asking else self._buffer).text))
        def leave(event: KeyPressEvent) -> None:
            self.leave()

        @keys.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        return keys

    def _accept(self, buffer: Buffer) -> bool:
        text = buffer.text.strip()
        if text:
            self._sitter.entered(text)
        return False  # the line is to be emptied

    def _accept_answer(self, buffer: Buffer) -> bool:
        self._sitter.answered(buffer.text)
        return False

    def _completions(self) -> FormattedText:
        """Return what Tab offers, the one that stands in the line marked."""
        state = self._buffer.complete_state
        offered = FormattedText()
        for number, each in enumerate(state.completions if state else ()):
            chosen = state is not None and number == state.complete_index
            offered += [("class:aside", "  "), ("class:name" if chosen else "class:aside", each.text)]
        return offered

    def _live(self) -> FormattedText:
        return _joined(tail(self._transcript.lines(self.columns), self.columns, self._room))

    @property
    def columns(self) -> int:
        """Columns of the terminal."""
        return self._app.output.get_size().columns

    @property
    def _room(self) -> int:
        """Rows for what may still change."""
        typed = self._buffer.document.line_count
        return max(1, self._app.output.get_size().rows - typed - ROWS_BELOW)


def _joined(lines: list[Line]) -> FormattedText:
    joined = FormattedText()
    for number, line in enumerate(lines):
        if number:
            joined.append(("", "\n"))
        joined.extend(line)
    return joined
