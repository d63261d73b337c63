"""The pictures of README and docs: small, in both themes, and a film shows each run when it is there."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.pages import PAGES, ROOT, pictures, read_page
from tests.pictures import demo
from tests.pictures.terminal_svg import Look, Run, screen_of, svg

FOLDER = ROOT / "docs" / "pictures"
GREEN = Look("green", bold=True)


def test_every_picture_that_lies_there_is_shown_small_and_has_a_twin_in_the_other_theme() -> None:
    lying = {path.name for path in FOLDER.iterdir()}
    shown = {name.rpartition("/")[2] for page in PAGES for name in pictures(read_page(page))}
    assert shown == lying
    assert {name.replace("dark", "light") for name in lying if "dark" in name} == {
        name for name in lying if "light" in name
    }
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 300 * 1024


@pytest.mark.nightly
async def test_the_film_is_the_demo_as_it_is(tmp_path: Path) -> None:
    await demo.main(tmp_path)
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (FOLDER / drawn.name).read_bytes(), (
            "draw it anew: make pictures ARGS=demo"
        )


def test_a_row_is_cut_into_runs_that_can_be_seen() -> None:
    row = [("│ ", Look()), ("a b", Look()), ("  ", Look()), ("🥞!", GREEN)]
    assert screen_of([[], row]) == {
        Run(1, 0, "│", Look()),
        Run(1, 2, "a b", Look()),
        Run(1, 7, "🥞", GREEN),
        Run(1, 9, "!", GREEN),
    }


def test_a_run_that_stays_is_written_once_and_one_that_goes_is_hidden() -> None:
    stays, grows = [("<name>", Look())], [("a", GREEN)]
    film = svg(
        [(0.0, screen_of([stays])), (1.0, screen_of([stays, grows])), (3.0, screen_of([stays]))],
        columns=8,
        rows=2,
        seconds=4.0,
        theme="dark",
        title="a & b",
    )
    ElementTree.fromstring(film)
    assert film.count("&lt;name&gt;") == 1
    steps = "0%{visibility:hidden}25%{visibility:visible}75%{visibility:hidden}"
    assert re.search(rf"@keyframes t\d{{{re.escape(steps)}}}", film)
    assert "<title>a &amp; b</title>" in film
    assert "http" not in film.replace("http://www.w3.org/2000/svg", "")  # needs nobody else


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_still_moves_nothing(theme: str) -> None:
    still = svg([(0.0, screen_of([[("hi", GREEN)]]))], columns=2, rows=1, seconds=1, theme=theme, title="")
    assert "@keyframes" not in still
