import pytest

from pixi.channels.discord.slash.channel_commands import Choice, find, nearest, suggest

PIXI = Choice("pixi", "Pixi", "an art student who loves pancakes")
EDDA = Choice("edda", "Edda Storm", "a watcher of the sea")
QIN = Choice("lao-qin", "老秦", "runs a tea house in the rain")
ALL = (PIXI, EDDA, QIN)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [PIXI, EDDA, QIN]),
        ("p", [PIXI]),
        ("PIX", [PIXI]),
        ("pxi", [PIXI]),
        ("storm", [EDDA]),
        ("pancakes", [PIXI]),
        ("tea hous", [QIN]),
        ("老", [QIN]),
        ("zzzz", []),
        ("p" * 5_000, []),
    ],
)
def test_what_is_typed_finds_names_and_what_is_told_of_them(typed: str, found: list[Choice]) -> None:
    assert suggest(typed, ALL, 25) == found


def test_no_more_is_suggested_than_fits() -> None:
    many = [Choice(f"pixi{n}", f"Pixi {n}") for n in range(60)]
    assert suggest("pixi", many, 25) == many[:25]
    assert suggest("", many, 25) == many[:25]


@pytest.mark.parametrize(
    ("typed", "found"),
    [("pixi", PIXI), (" EDDA  storm ", EDDA), ("ＥＤＤＡ", EDDA), ("老秦", QIN), ("pix", None), ("", None)],
)
def test_a_name_is_found_without_regard_to_case_and_spaces(typed: str, found: Choice | None) -> None:
    assert find(typed, ALL) == found


def test_a_value_goes_before_the_name_of_another() -> None:
    first, second = Choice("a", "b"), Choice("b", "a")
    assert find("b", (first, second)) == second


def test_what_is_written_exactly_so_goes_first() -> None:
    small, large = Choice("gpt", "gpt"), Choice("GPT", "GPT")
    assert find("GPT", (small, large)) == large


@pytest.mark.parametrize(("typed", "found"), [("pixie", PIXI), ("eda storm", EDDA), ("xxxxxx", None)])
def test_the_nearest_name_is_known(typed: str, found: Choice | None) -> None:
    assert nearest(typed, ALL) == found


def test_where_there_is_nobody_nobody_is_near() -> None:
    assert nearest("pixi", ()) is None
