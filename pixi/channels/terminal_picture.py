"""A picture on a terminal: two of its dots in each character, the upper and the lower half of a block."""

from io import BytesIO

from pixi.channels.terminal_rows import Line
from pixi.models.pictures import fit_for_model

_COLUMNS, _ROWS = 48, 14
_HALF = "▀"


def drawn(data: bytes) -> list[Line]:
    """A picture as lines, at most 48 columns wide and 14 rows high. Takes long for a large one: a thread's.

    Raises:
        PictureError: it cannot be read.
    """
    from PIL import Image as Pillow

    small = fit_for_model(data, longest_side=2 * max(_COLUMNS, 2 * _ROWS))  # from here on it is our own
    with Pillow.open(BytesIO(small.data)) as opened:
        picture = opened.convert("RGBA")
    picture.thumbnail((_COLUMNS, 2 * _ROWS))
    ground = Pillow.new("RGBA", (picture.width, picture.height + picture.height % 2), "black")
    ground.alpha_composite(picture)
    dots = ground.convert("RGB").tobytes()

    def colour(column: int, row: int) -> str:
        at = 3 * (row * ground.width + column)
        return f"#{dots[at : at + 3].hex()}"

    return [
        [(f"fg:{colour(column, row)} bg:{colour(column, row + 1)}", _HALF) for column in range(ground.width)]
        for row in range(0, ground.height, 2)
    ]
