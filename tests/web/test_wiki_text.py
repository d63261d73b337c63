"""The text of a wiki's page, whoever wrote it, and for whatever reason."""

import asyncio
from collections.abc import Callable

import pytest

from pixi.documents.files import SetAside
from pixi.web.wiki import WikiText, text_of_html, text_of_marked, text_of_wikitext
from tests.waiting import within

_TIMES = 6  # where the time grows with the square, each of these takes minutes


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("== Drops ==", "Drops"),
        ("===Drops===  ", "Drops"),
        ("== Uneven ===", "Uneven ="),
        ("== a == b ==", "a == b"),
        ("====== Deep ======", "Deep"),
    ],
)
def test_headings_stand_between_equals_signs(line: str, heading: str) -> None:
    (section,) = text_of_marked(f"{line}\nText.", "Page").sections
    assert section.heading.strip("= ") == heading.strip("= ")
    assert section.text == "Text."


@pytest.mark.parametrize("line", ["=====", "== ==", "= A =", "a == b", "==a", " == A ==", f"=={'a' * 301}=="])
def test_other_lines_are_none(line: str) -> None:
    (section,) = text_of_marked(f"{line}\nText.", "Page").sections
    assert (section.heading, section.text) == ("", f"{line.rstrip()}\nText.")


def test_marks_and_what_is_not_read_are_left_out() -> None:
    text = "A <!-- no\n<!-- more -->'''creeper''' [[Mob|hisses]] [http://a.example so].<ref name=a/> <!-- end"
    (section,) = text_of_wikitext(text, "Page").sections
    assert section.text == "A creeper hisses so. <!-- end"


def marked(text: str) -> WikiText:
    return text_of_marked(text, "Page")


def wikitext(text: str) -> WikiText:
    return text_of_wikitext(text, "Page")


def html(text: str) -> WikiText:
    with pytest.raises(SetAside):
        text_of_html(text, "Page", lists_meanings=False)
    return WikiText(())


@pytest.mark.parametrize(
    ("read", "make"),
    [
        pytest.param(wikitext, lambda: "<!--" * 50_000 * _TIMES, id="comments that are never closed"),
        pytest.param(wikitext, lambda: "<ref " * 100_000 * _TIMES, id="references that are never closed"),
        pytest.param(wikitext, lambda: "[http://a" * 60_000 * _TIMES, id="addresses that never end"),
        pytest.param(marked, lambda: f"=={' ' * 20_000 * _TIMES}x", id="a heading of blanks"),
        pytest.param(html, lambda: "<div>" * 80_000 * _TIMES, id="elements in elements"),
        pytest.param(html, lambda: f"<div {' '.join(f'a{n}=1' for n in range(120_000))}>", id="attributes"),
    ],
)
async def test_a_page_that_is_made_to_take_long_does_not(
    read: Callable[[str], WikiText], make: Callable[[], str]
) -> None:
    async with within("the text of the page"):
        await asyncio.to_thread(read, make())
