"""A still of `pixi-persona chat`: the program on a terminal of its own, with a scripted model behind it."""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pyte

from tests.end_to_end.program import on_terminal
from tests.pictures.terminal_svg import THEMES, Look, Screen, screen_of, svg
from tests.servers.scripted_openai import ScriptedOpenAI, finish, stream

TITLE = "A talk in the terminal; a script writes Pixi's part."
_COLUMNS, _ROWS = 100, 30  # as `on_terminal` has them
_REST_SECONDS = 1.5  # until nothing moves any more
_ROUNDS = (
    "[NOTE: somebody is up early! happy]\n[REACT: 🥞]\n[SEND: morning!!]\n"
    "[SEND: are those pancakes i smell?]",
    "[SEND: hang on, my notebook]\n"
    '<tool-call tool="search_pancakes_database">{"keyword": "how long to rest a batter"}</tool-call>',
    "[NOTE: half an hour, it says. keep it short]\n[SEND: half an hour for thin ones]\n"
    "[SEND: it's thicker afterwards, so keep a spoon of milk ready]",
    "[NOTE: that's for Sam, so i'll be quiet]",
)
_TALK = (
    ("i am making breakfast", "smell?"),
    ("how long should the batter rest?", "spoon of milk ready"),
    ("Sam, can you get the milk?", "i'll be quiet"),
)


async def talk() -> Screen:
    """Talk, and return what the terminal shows at the end."""
    with TemporaryDirectory() as home:
        async with ScriptedOpenAI(*(stream(each, finish()) for each in _ROUNDS)) as server:
            words = ("chat", "--base-url", server.base_url, "--model", "a-script", "--user", "mo", "--notes")
            async with on_terminal(Path(home), *words, OPENAI_API_KEY="none") as terminal:
                await terminal.shows("›")
                for said, shown in _TALK:
                    terminal.type(f"{said}\r")
                    await terminal.shows(shown)
                    await asyncio.sleep(_REST_SECONDS)
                raw = re.sub(r"127\.0\.0\.1:\d{5}", "127.0.0.1:40000", terminal.raw)
    screen = pyte.Screen(_COLUMNS, _ROWS)
    pyte.Stream(screen).feed(raw)
    cells = (screen.buffer[row] for row in range(_ROWS))
    return screen_of(
        [(line[column].data, _look(line[column])) for column in range(_COLUMNS)] for line in cells
    )


def _look(cell: pyte.screens.Char) -> Look:
    names = {"brightblack": "bright_black", "brown": "yellow"}
    colour = names.get(cell.fg, cell.fg.removeprefix("bright"))
    return Look(colour if colour in THEMES["dark"] else "default", cell.bold, cell.italics, cell.reverse)


async def main(folder: Path) -> None:
    """Write `chat-dark.svg` and `chat-light.svg`."""
    screen = await talk()
    rows = max(run.row for run in screen) + 1
    for theme in THEMES:
        still = svg([(0.0, screen)], columns=_COLUMNS, rows=rows, seconds=1.0, theme=theme, title=TITLE)
        (folder / f"chat-{theme}.svg").write_text(still, encoding="utf-8")
