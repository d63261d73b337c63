"""The screen of `pixi-persona demo`: the stream on the left, the chat on the right; or plain lines."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pixi.cli.demo_stage import SCENES, DemoState, open_pancakes, play
from pixi.cli.exits import FINE

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text as StyledText

_FRAME_SECONDS = 1 / 20
_FLASH_SECONDS = 0.35  # for which a command shines once it was carried out
_ROWS = 24  # of the screen, at most
_COLUMNS = 104
_FEWEST_COLUMNS = 44
_NEXT = "That was a script. Talk to Pixi now:  make chat  (or: pixi-persona chat)"
_SCRIPTED = "pixi-persona demo: the words are a script; parser, engine, database and memory are real."
_NAMES = {"person": "Mo", "persona": "Pixi", "tool": "↳"}
_DIM = "bright_black"
_BAR = 25  # cells, one for a second
_STYLES = {
    "NOTE": "italic magenta",
    "REACT": "bold yellow",
    "SEND": "bold green",
    "tool": "bold cyan",
    "person": "bold blue",
    "persona": "bold green",
}


async def print_plainly() -> int:
    """Print each message, each raw command, and below it what came of it."""
    stage = DemoState()
    shown: list[tuple[str, str]] = []
    acts = 0

    def happened() -> None:
        nonlocal acts
        acts = min(acts, len(stage.acted))  # a new scene begins with none
        commands = [command.group() for command in stage.commands()]
        for command in commands[acts : len(stage.acted)]:
            print(f"    {command}")
        acts = len(stage.acted)
        for place, row in enumerate(stage.chat):
            if shown[place : place + 1] != [row]:
                shown[place : place + 1] = [row]
                kind, text = row
                colon = "" if kind == "tool" else ":"
                begins = kind == "person" and not acts
                before = f"\n# {stage.told}\n" if begins else " " * 8
                print(f"{before}{_NAMES[kind]}{colon} {text}")

    print(_SCRIPTED)
    async with open_pancakes() as database:
        await play(stage, database, happened, timed=False)
    print(f"\n{_NEXT}")
    return FINE


async def show(console: "Console") -> int:
    """Draw the stage until the scenes are over or a key is pressed."""
    from rich.live import Live

    stage = DemoState()

    async def open_and_play() -> None:
        async with open_pancakes() as database:
            await play(stage, database, lambda: None)

    with Live(console=console, auto_refresh=False) as live, _any_key() as pressed:
        playing = asyncio.create_task(open_and_play())
        try:
            while not (playing.done() or pressed.is_set()):
                live.update(draw(stage, console), refresh=True)
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            playing.cancel()
            with suppress(asyncio.CancelledError):
                await playing
        live.update(draw(stage, console), refresh=True)
    console.print(_NEXT.replace("make chat", "[bold green]make chat[/]"))
    return FINE


@contextmanager
def _any_key() -> Iterator[asyncio.Event]:
    """Give an event that is set when a key is pressed, Ctrl-C too. Keys are not shown meanwhile."""
    from prompt_toolkit.input import create_input

    pressed = asyncio.Event()
    if not _has_keyboard():
        yield pressed
        return
    keys = create_input()

    def read() -> None:
        if keys.read_keys() or keys.flush_keys() or keys.closed:
            pressed.set()

    with keys.raw_mode(), keys.attach(read):
        yield pressed


def _has_keyboard() -> bool:
    """Return False where no key can come: a process in the background is stopped if it asks for keys."""
    if not sys.stdin.isatty():
        return False
    return sys.platform == "win32" or os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()


def draw(stage: DemoState, console: "Console") -> "RenderableType":
    """Return the stage as it looks now, as large as the console allows."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

    columns = max(_FEWEST_COLUMNS, min(console.width, _COLUMNS))
    height = max(6, min(console.height - 1, _ROWS) - 4)  # of a half, with its frame
    widths = columns // 2, columns - columns // 2
    halves = Table.grid(padding=0)
    for width in widths:
        halves.add_column(width=width)
    titles = f"[bold]the model writes[/] [{_DIM}]· a script[/]", "[bold]the chat[/]"
    rows = _stream_rows(stage, widths[0] - 4, console), _chat_rows(stage, widths[1] - 4, console)
    halves.add_row(
        *(
            Panel(
                Group(*each[-(height - 2) :]),
                title=title,
                title_align="left",
                box=box.ROUNDED,
                height=height,
                border_style=_DIM,
            )
            for title, each in zip(titles, rows, strict=True)
        )
    )
    return Group(_head(stage, columns), halves, *_caption(stage, columns, console))


def _head(stage: DemoState, columns: int) -> "StyledText":
    """Return the first row: what this is, and how far it is."""
    from rich.text import Text as Styled

    now = asyncio.get_running_loop().time()
    seconds = 0.0 if stage.began is None else now - stage.began
    whole = sum(scene.seconds for scene in SCENES)
    head = Styled("pixi-persona demo", style="bold")
    head.append(" · 40 tokens a second · any key ends it", style=f"not bold {_DIM}")
    cells = max(0, min(_BAR, columns - head.cell_len - 2))
    done = min(round(cells * seconds / whole), cells)
    head.append(" " * (columns - head.cell_len - cells))
    head.append("━" * done, style="green")
    head.append("─" * (cells - done), style=f"not bold {_DIM}")
    head.truncate(columns)
    return head


def _caption(stage: DemoState, columns: int, console: "Console") -> "list[StyledText]":
    """Return two rows that say what the scene shows."""
    from rich.text import Text as Styled

    rows = list(Styled(stage.told, style="bold").wrap(console, columns - 2))
    return [Styled(" ") + row for row in [*rows, Styled(), Styled()][:2]]


def _stream_rows(stage: DemoState, columns: int, console: "Console") -> "list[StyledText]":
    """Return the stream: a command is dim while it is written, and lit once it was carried out."""
    from rich.text import Text as Styled

    now = asyncio.get_running_loop().time()
    rows: list[Styled] = []
    end, whole = 0, True
    for place, command in enumerate(stage.commands()):
        end, whole = command.end(), command.group().endswith(("]", "</tool-call>"))
        style, mark = _DIM, "  "
        if place < len(stage.acted):
            flash = " reverse" if now - stage.acted[place] < _FLASH_SECONDS else ""
            style, mark = f"{_STYLES[command['name'] or 'tool']}{flash}", "✓ "
        text = Styled(command.group(), style=style)
        if stage.writing and not whole:
            text.append("▌")
        rows += _hung(mark, text, columns, console)
    if stage.writing and whole:
        rest = stage.stream[end:].strip()
        rows += _hung("  ", Styled(f"{rest}▌", style=_DIM), columns, console)
    return rows


def _chat_rows(stage: DemoState, columns: int, console: "Console") -> "list[StyledText]":
    """Return the chat: names, messages with their reactions, and what tools do."""
    from rich.text import Text as Styled

    rows: list[Styled] = []
    for kind, text in stage.chat:
        name = _NAMES[kind]
        if kind == "person" and rows:
            rows.append(Styled())
        said = Styled(text, style=f"{_DIM} italic" if kind == "tool" else "")
        rows += _hung(f"{name:<6}", said, columns, console, style=_STYLES.get(kind, _DIM))
    if stage.typing:
        rows += [Styled(), Styled("Mo is typing …", style=_DIM)]
    return rows


def _hung(
    head: str, text: "StyledText", columns: int, console: "Console", *, style: str = "green"
) -> "list[StyledText]":
    """Return the text in rows, the first behind a head, the others indented below it."""
    from rich.text import Text as Styled

    wrapped = text.wrap(console, columns - len(head))
    for row in wrapped:
        row.rstrip()  # the blank at a break would shine, too
    indents = [head, *[" " * len(head)] * len(wrapped)]
    return [Styled.assemble((indent, style), row) for indent, row in zip(indents, wrapped, strict=False)]
