"""Pictures from strangers, made fit for a model: checked, turned upright, scaled down, written anew."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import PixiError
from pixi.core.message import Image

if TYPE_CHECKING:
    from PIL import Image as Pillow

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
"""Formats that are opened. Pillow knows many more, and most holes in it were in those that nobody sends."""

_MOST_PIXELS = 40_000_000  # before scaling: some 160 MB while it is decoded
_MOST_BYTES = 400_000  # a picture with transparency above this is written as JPEG on white
_QUALITY = 85
_MOST_FRAMES = 100  # of an animation
_MOST_MOVING_PIXELS = 60_000_000  # of all of them, before scaling
_MOVING_SIDE = 480


class PictureError(PixiError):
    """A picture that will not be shown. The text says why in a few words, fit to stand after a name."""


def fit_for_model(file: bytes | Path, *, longest_side: int) -> Image:
    """Decode a picture and write it anew: what else was in the file, such as where it was taken, is gone.

    Takes up to a second for a large picture: call it in a thread. Of an animation it is the first frame.

    Args:
        file: as somebody sent it; or where it lies.
        longest_side: in pixels; larger pictures are scaled down, smaller ones stay as they are.

    Raises:
        PictureError: it is of no known format, broken, or too large to be decoded.
    """
    with _opened(file) as picture:
        return _written(_upright(picture, longest_side))


def redrawn(file: bytes | Path, *, longest_side: int) -> Image:
    """Decode a picture and write it anew as `fit_for_model` does; what moves in it goes on moving.

    Of an animation there are 100 frames of 480 pixels at most; takes a few seconds for that: call it in a
    thread.

    Raises:
        PictureError: as `fit_for_model`.
    """
    with _opened(file) as picture:
        if not getattr(picture, "is_animated", False):
            return _written(_upright(picture, longest_side))
        side = min(longest_side, _MOVING_SIDE)
        frames: list[Pillow.Image] = []
        milliseconds: list[int] = []
        room = max(1, _MOST_MOVING_PIXELS // (picture.width * picture.height))
        for frame in range(min(getattr(picture, "n_frames", 1), _MOST_FRAMES, room)):
            picture.seek(frame)
            frames.append(picture.convert("RGBA"))
            frames[-1].thumbnail((side, side))
            milliseconds.append(max(20, int(picture.info.get("duration", 100))))
        for each in frames:
            each.info = {}
        moving = {"save_all": True, "append_images": frames[1:], "duration": milliseconds, "loop": 0}
        written = BytesIO()
        frames[0].save(written, "WEBP", quality=70, method=0, **moving)
        return Image("image/webp", written.getvalue())


@contextmanager
def _opened(file: bytes | Path) -> Iterator["Pillow.Image"]:
    """Open a picture that may be anything.

    Raises:
        PictureError: it is none, or is found to be broken while it is read.
    """
    from PIL import Image as Pillow

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large pictures; here they are refused or read
            with Pillow.open(BytesIO(file) if isinstance(file, bytes) else file, formats=FORMATS) as picture:
                width, height = picture.size
                if width * height > _MOST_PIXELS:
                    raise PictureError(f"{width} × {height} pixels are too many")
                yield picture
    except PictureError:
        raise
    except Pillow.DecompressionBombError as error:
        raise PictureError("it is too large") from error
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, KeyError, IndexError) as error:
        # All of these are what Pillow's decoders raise on files that are cut or made up.
        raise PictureError("it cannot be read") from error


def _upright(picture: "Pillow.Image", longest_side: int) -> "Pillow.Image":
    from PIL import ImageOps

    picture.draft("RGB", (longest_side, longest_side))  # lets a JPEG be decoded small at once
    upright = ImageOps.exif_transpose(picture)
    upright.thumbnail((longest_side, longest_side))
    return upright


def _written(picture: "Pillow.Image") -> Image:
    """Write it as PNG where it has transparency and is small that way, else as JPEG on white."""
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        data = _encoded(picture, "PNG", optimize=True)
        if len(data) <= _MOST_BYTES:
            return Image("image/png", data)
        from PIL import Image as Pillow

        white = Pillow.new("RGBA", picture.size, "white")
        picture = Pillow.alpha_composite(white, picture)
    return Image("image/jpeg", _encoded(picture.convert("RGB"), "JPEG", quality=_QUALITY))


def _encoded(picture: "Pillow.Image", kind: str, **options: int) -> bytes:
    file = BytesIO()
    clean = picture.copy()
    clean.info = {}  # comments, colour profiles and EXIF would be written along
    clean.save(file, kind, **options)
    return file.getvalue()
