"""Pictures from strangers: what is shown of them, what is left out, and what is refused."""

import struct
import zlib
from contextlib import suppress
from io import BytesIO

import pytest
from PIL import Image as Pillow

from pixi.core.message import Image
from pixi.models import pictures
from pixi.models.pictures import PictureError, fit_for_model, redrawn


def encoded(picture: Pillow.Image, kind: str, **options: object) -> bytes:
    file = BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def decoded(image: Image) -> Pillow.Image:
    return Pillow.open(BytesIO(image.data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_each_common_format_is_read(kind: str) -> None:
    picture = Pillow.new("RGB", (40, 20), "orange")

    shown = decoded(fit_for_model(encoded(picture, kind), longest_side=100))

    assert shown.size == (40, 20)
    red, _, blue = shown.convert("RGB").getpixel((10, 10))  # type: ignore[misc]
    assert red > 200
    assert blue < 60


def test_a_large_picture_is_scaled_down_and_keeps_its_shape() -> None:
    picture = Pillow.new("RGB", (3_000, 1_500), "teal")

    shown = decoded(fit_for_model(encoded(picture, "JPEG"), longest_side=512))

    assert shown.size == (512, 256)


def test_a_picture_taken_sideways_is_turned_upright() -> None:
    picture = Pillow.new("RGB", (60, 30), "navy")
    picture.paste("white", (0, 0, 30, 30))  # the left half
    exif = Pillow.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90° clockwise

    shown = decoded(fit_for_model(encoded(picture, "JPEG", exif=exif), longest_side=100)).convert("L")

    assert shown.size == (30, 60)
    assert shown.getpixel((15, 10)) > 200  # type: ignore[operator]
    assert shown.getpixel((15, 50)) < 60  # type: ignore[operator]


def test_where_it_was_taken_and_what_was_noted_in_it_is_gone() -> None:
    exif = Pillow.Exif()
    exif[0x010E] = "canary in the description"
    exif[0x9286] = b"ASCII\0\0\0canary in a comment"
    data = encoded(Pillow.new("RGB", (8, 8)), "JPEG", exif=exif, comment=b"canary in the file")
    assert data.count(b"canary") >= 2

    assert b"canary" not in fit_for_model(data, longest_side=100).data


def test_a_transparent_picture_stays_transparent() -> None:
    picture = Pillow.new("RGBA", (10, 10), (255, 0, 0, 0))

    image = fit_for_model(encoded(picture, "PNG"), longest_side=100)

    assert image.media_type == "image/png"
    assert decoded(image).getpixel((5, 5))[3] == 0  # type: ignore[index]


def test_of_an_animation_it_is_the_first_frame() -> None:
    frames = [Pillow.new("RGB", (10, 10), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])

    shown = decoded(fit_for_model(data, longest_side=100)).convert("RGB")

    assert shown.getpixel((5, 5))[0] > 200  # type: ignore[index]


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it holds so many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(10_000, 9_000), (60_000, 60_000), (65_535, 1_000)])
def test_a_bomb_is_refused_before_it_is_unpacked(width: int, height: int) -> None:
    with pytest.raises(PictureError, match="too"):
        fit_for_model(bomb(width, height), longest_side=100)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\x89PNG\r\n\x1a\n",
        bomb(2_000, 2_000),
        encoded(Pillow.new("RGB", (100, 100), "red"), "PNG")[:-40],
        encoded(Pillow.new("RGB", (100, 100)), "TIFF"),
        encoded(Pillow.new("RGB", (100, 100)), "PDF"),
    ],
    ids=["empty", "text", "svg", "head", "too little", "cut", "tiff", "pdf"],
)
def test_what_is_broken_or_no_picture_is_told_in_words(data: bytes) -> None:
    with pytest.raises(PictureError, match="cannot be read"):
        fit_for_model(data, longest_side=100)


def test_no_cut_and_no_changed_byte_raises_anything_else() -> None:
    whole = encoded(Pillow.effect_noise((24, 24), 60), "GIF")
    for at in range(0, len(whole), 7):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            with suppress(PictureError):
                fit_for_model(data, longest_side=16)


def moving(count: int, size: tuple[int, int] = (40, 20)) -> bytes:
    frames = [Pillow.new("RGB", size, (number * 90 % 256, number * 50 % 256, 9)) for number in range(count)]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50, comment=b"secret")


def test_what_moves_goes_on_moving_where_it_is_drawn_anew() -> None:
    shown = redrawn(moving(5, (900, 450)), longest_side=1_024)
    picture = decoded(shown)
    assert (shown.media_type, picture.n_frames, picture.size) == ("image/webp", 5, (480, 240))  # type: ignore[attr-defined]
    assert b"secret" not in shown.data
    assert redrawn(encoded(Pillow.new("RGB", (9, 9)), "PNG"), longest_side=99).media_type == "image/jpeg"


def test_of_an_animation_so_much_is_drawn_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_MOST_FRAMES", 7)
    assert decoded(redrawn(moving(9), longest_side=99)).n_frames == 7  # type: ignore[attr-defined]
    monkeypatch.setattr(pictures, "_MOST_MOVING_PIXELS", 40 * 20 * 3)
    assert decoded(redrawn(moving(9), longest_side=99)).n_frames == 3  # type: ignore[attr-defined]
    with pytest.raises(PictureError):
        redrawn(moving(9)[:60], longest_side=99)
