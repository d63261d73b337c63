"""Cards on a terminal: tidy on a pipe, in a frame that holds, and nothing in them drives the terminal."""

import asyncio
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from prompt_toolkit.utils import get_cwidth

from pixi.channels.terminal.lines import LinesChannel
from pixi.channels.terminal.rows import Line, drawn, framed
from pixi.core.message import Card, Field, Image
from pixi.models.pictures import PictureError

PANCAKES = Card(
    "Lemon sugar",
    "Thin and hot.\nRoll them.",
    (Field("Time", "20 minutes"), Field("Needs", "flour\nmilk")),
    "https://example.org/lemon.png",
    "https://example.org/lemon",
)
EVIL = "a\x1b[2J\x07b\x9b31m\u202ec\u2066d\x00"
DRIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def text(line: Line) -> str:
    return "".join(part for _, part in line)


def rows(card: Card, columns: int = 80) -> list[str]:
    return [text(line) for line in framed(card, columns)]


def png(width: int, height: int, colour: str = "gold") -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def test_on_a_terminal_it_stands_in_a_frame() -> None:
    assert rows(PANCAKES) == [
        "  ╭ Lemon sugar ─────────────────────────────╮",
        "  │ Thin and hot.                            │",
        "  │ Roll them.                               │",
        "  │                                          │",
        "  │ Time   20 minutes                        │",
        "  │ Needs  flour                             │",
        "  │        milk                              │",
        "  │                                          │",
        "  │ [picture: https://example.org/lemon.png] │",
        "  │                                          │",
        "  │ https://example.org/lemon                │",
        "  ╰──────────────────────────────────────────╯",
    ]


def test_a_title_too_long_for_the_edge_stands_inside() -> None:
    shown = rows(Card("pancakes " * 20, "hot"), 40)
    assert set(shown[0]) == set("  ╭─╮")
    assert shown[1].startswith("  │ pancakes pancakes")
    assert shown[-2].startswith("  │ hot ")


def test_names_too_long_for_a_column_stand_above_their_values() -> None:
    shown = rows(Card("x", "", (Field("a name that is longer than a third", "v"),)), 60)
    assert [row.strip(" │") for row in shown[1:3]] == ["a name that is longer than a third", "v"]


def test_a_picture_stands_in_the_frame_in_place_of_its_name() -> None:
    card = Card("x", picture=Image("image/png", png(8, 8)))
    assert any("[picture: image/png, 1 kB]" in row for row in rows(card))
    shown = [text(line) for line in framed(card, 80, drawn(png(8, 8)))]
    assert [row for row in shown if "▀" in row] == [f"  │ {'▀' * 8} │"] * 4


def test_a_card_with_nothing_on_it_is_an_empty_frame() -> None:
    assert len({get_cwidth(row) for row in rows(Card(""))}) == 1


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
@pytest.mark.parametrize(
    "card",
    [
        PANCAKES,
        Card(EVIL, EVIL, (Field(EVIL, EVIL),), EVIL, EVIL),
        Card("柠檬糖薄饼" * 9, "又薄又烫。" * 30, (Field("时间", "二十分钟" * 12),)),
        Card("🥞" * 50, "🥞" * 300, (Field("🥞", "🥞" * 90),), Image("image/png", b"x")),
        Card("x" * 500, "y" * 20_000, tuple(Field("n" * 90, "v" * 3_000) for _ in range(40))),
        Card("t", "a\tb\tc\n\n\n  d", (Field("", "v"), Field("n", ""))),
    ],
)
def test_every_row_is_as_wide_as_the_others_and_fits(card: Card, columns: int) -> None:
    shown = rows(card, columns)
    widths = {get_cwidth(row) for row in shown}
    assert len(widths) == 1
    assert widths.pop() <= min(columns, 74)
    assert not any(DRIVING.search(row) for row in shown)
    assert len(shown) < 2_000


@given(
    st.text(max_size=80),
    st.text(max_size=300),
    st.text(max_size=40),
    st.text(max_size=200),
    st.integers(16, 120),
)
def test_no_card_breaks_its_frame_or_drives_the_terminal(
    title: str, words: str, name: str, value: str, columns: int
) -> None:
    card = Card(title, words, (Field(name, value),), title, value)
    assert len({get_cwidth(row) for row in rows(card, columns)}) == 1
    out = io.StringIO()
    asyncio.run(LinesChannel(out, io.StringIO()).card(card, nonce="1"))
    assert not any(DRIVING.search(row) for row in [*rows(card, columns), out.getvalue()])


# Pictures.


def test_a_picture_is_drawn_in_halves_of_blocks() -> None:
    file = io.BytesIO()
    picture = Pillow.new("RGB", (4, 4), "#ff0000")
    picture.paste("#0000ff", (0, 2, 4, 4))
    picture.save(file, "PNG")
    upper, lower = drawn(file.getvalue())
    assert [half for _, half in (*upper, *lower)] == ["▀"] * 8
    for style, _ in upper:  # reddish above and below
        assert re.fullmatch(r"fg:#f\w0\w0\w bg:#f\w0\w0\w", style)
    for style, _ in lower:
        assert re.fullmatch(r"fg:#0\w0\wf\w bg:#0\w0\wf\w", style)


@pytest.mark.parametrize(
    ("size", "columns", "high"), [((300, 200), 42, 14), ((1_000, 10), 48, 1), ((10, 1_000), 1, 14)]
)
def test_a_picture_stays_small_and_keeps_its_shape(size: tuple[int, int], columns: int, high: int) -> None:
    lines = drawn(png(*size))
    assert (len(lines[0]), len(lines)) == (columns, high)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\x00" * 40, png(9, 9)[:40]])
def test_what_cannot_be_read_is_not_drawn(data: bytes) -> None:
    with pytest.raises(PictureError):
        drawn(data)
