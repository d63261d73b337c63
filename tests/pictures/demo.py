"""The film of `pixi-persona demo`: the demo itself, recorded while its clock is held."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style

from pixi.cli.demo_screen import draw
from pixi.cli.demo_stage import SCENES, DemoState, open_pancakes, play
from tests.held_clock import hold
from tests.pictures.terminal_svg import THEMES, Look, Screen, screen_of, svg

COLUMNS, ROWS = 96, 21
TITLE = (
    "A scripted model writes commands in brackets on the left. Each acts in the chat on the right as soon as "
    "its bracket closes: a reaction, three short messages, a silence, a look into documents, a memory."
)
_FRAME_SECONDS = 0.05
_REST_SECONDS = 2.0  # with the last screen


async def record() -> list[tuple[float, Screen]]:
    """Play the demo; return its screens, each with the second from which on it is seen."""
    console = Console(
        width=COLUMNS,
        height=ROWS + 2,  # below it are one row of the caption that stays empty, and the prompt
        force_terminal=True,
        color_system="standard",
    )
    stage = DemoState()
    screens: dict[float, Screen] = {}  # the last of each moment
    clock = asyncio.get_running_loop().time

    def look() -> None:
        if stage.began is not None:
            screens[round(clock() - stage.began, 3)] = screen_of(_rows(console, stage))

    async with open_pancakes() as database:
        with pytest.MonkeyPatch.context() as patch:
            clock = hold(patch).time
            playing = asyncio.create_task(play(stage, database, look))
            while not playing.done():
                look()
                await asyncio.sleep(_FRAME_SECONDS)
            await playing
    return list(screens.items())


def _rows(console: Console, stage: DemoState) -> Iterator[list[tuple[str, Look]]]:
    for line in console.render_lines(draw(stage, console), console.options):
        yield [(text, _look(style)) for text, style, _ in Segment.simplify(line)]


def _look(style: Style | None) -> Look:
    if style is None:
        return Look()
    colour = style.color.name if style.color and style.color.name in THEMES["dark"] else "default"
    return Look(colour, bool(style.bold), bool(style.italic), bool(style.reverse))


def paint(screens: list[tuple[float, Screen]], folder: Path) -> None:
    """Write `demo-dark.svg` and `demo-light.svg`."""
    seconds = sum(scene.seconds for scene in SCENES) + _REST_SECONDS
    for theme in THEMES:
        film = svg(screens, columns=COLUMNS, rows=ROWS, seconds=seconds, theme=theme, title=TITLE)
        (folder / f"demo-{theme}.svg").write_text(film, encoding="utf-8")


async def main(folder: Path) -> None:
    """Record the demo and paint it."""
    paint(await record(), folder)
