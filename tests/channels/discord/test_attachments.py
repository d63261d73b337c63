"""What messages carry, fetched over sockets: what is read of it, what is only named, and what is refused."""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import discord
import pytest
from PIL import Image as Pillow

from pixi.channels.discord.incoming.attachments import AttachmentReader
from pixi.channels.discord.incoming.message import IncomingMessage, MessageTranslator
from pixi.core.message import Attached
from pixi.settings.rules import Rules
from pixi.testing.discord import FakeChannel, LoopbackDiscord, Upload
from tests.servers.clients import Bot, connected, heard


@dataclass(slots=True)
class Post:
    """A room, and somebody who posts there what a reader then reads."""

    server: LoopbackDiscord
    bot: Bot
    room: FakeChannel
    reader: AttachmentReader

    async def read(self, *files: Upload, sees: bool = True, **rules: Any) -> Attached:
        """What is read of a message with these files."""
        count = len(self.bot.of("message")) + 1
        await self.room.say(self.server.landlord, attachments=files)
        return await self.last(count, sees=sees, **rules)

    async def last(self, count: int, *, sees: bool = True, **rules: Any) -> Attached:
        """What is read of the message that comes as the `count`th."""
        message: discord.Message = (await heard(self.bot, "message", count))[-1]
        return await self.reader.read(incoming(message), Rules(**rules), sees=sees)


def incoming(message: discord.Message) -> IncomingMessage:
    return MessageTranslator(message.author, Rules).read(message)


@pytest.fixture
async def here() -> AsyncIterator[Post]:
    async with LoopbackDiscord() as server:
        room = server.guild().channel()
        async with connected(server) as bot:
            yield Post(server, bot, room, AttachmentReader())


def picture(
    name: str = "cat.png", size: tuple[int, int] = (40, 20), kind: str = "PNG", **more: Any
) -> Upload:
    file = BytesIO()
    Pillow.new("RGB", size, "orange").save(file, kind)
    return Upload(name, f"image/{kind.lower()}", file.getvalue(), **more)


def text(name: str, data: bytes, kind: str = "text/plain; charset=utf-8", **more: Any) -> Upload:
    return Upload(name, kind, data, **more)


def png_of(width: int, height: int) -> bytes:
    """A black picture that is a few kilobytes as a file, whatever its size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 7) // 8 + 1) * min(height, 1_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def test_a_message_that_carries_nothing_tells_nothing(here: Post) -> None:
    assert await here.read() == Attached()


# Pictures.


async def test_pictures_are_fetched_scaled_and_named(here: Post) -> None:
    found = await here.read(picture(size=(400, 100), description="my\ncat"), picture_pixels=100)

    (image,) = found.images
    assert Pillow.open(BytesIO(image.data)).size == (100, 25)
    assert found.text == '[picture "cat.png", described as: my cat]'


async def test_more_pictures_than_are_shown_are_named(here: Post) -> None:
    files = [picture(f"{number}.png") for number in range(4)]
    found = await here.read(*files, pictures=2)
    assert len(found.images) == 2
    assert found.text.splitlines()[2:] == [
        '[picture "2.png"; there are more than can be shown]',
        '[picture "3.png"; there are more than can be shown]',
    ]

    blind = await here.read(*files, sees=False)
    assert blind.images == ()
    assert blind.text.count("you cannot see pictures here") == 4


async def test_a_picture_that_cannot_be_shown_leaves_room_for_the_next(here: Post) -> None:
    found = await here.read(
        Upload("broken.png", "image/png", b"\x89PNG\r\n\x1a\n broken"), picture(), pictures=1
    )
    assert len(found.images) == 1
    assert found.text.splitlines() == ['[picture "broken.png"; it cannot be read]', '[picture "cat.png"]']


@pytest.mark.parametrize(
    ("size", "why"), [((30_000, 30_000), "too large"), ((12_000, 12_000), "too many"), ((60, 60), "")]
)
async def test_an_image_bomb_is_not_opened(here: Post, size: tuple[int, int], why: str) -> None:
    bomb = Upload("cat.png", "image/png", png_of(*size))
    assert len(bomb.data) < 10_000
    found = await here.read(bomb)
    assert bool(found.images) is not bool(why)
    assert why in found.text


async def test_a_broken_picture_is_named(here: Post) -> None:
    for data in (b"", picture().data[:60], b"GIF89a" + bytes(20), b"<svg/>", b"\xff\xd8\xff\xe0"):
        found = await here.read(Upload("cat.png", "image/png", data))
        assert found.images == ()
        assert found.text == '[picture "cat.png"; it cannot be read]'


async def test_a_picture_by_another_ending_or_type_is_what_discord_says_it_is(here: Post) -> None:
    data = picture().data
    named = await here.read(Upload("cat.txt", "image/png", data))
    assert len(named.images) == 1
    drawn = await here.read(Upload("cat.svg", "image/svg+xml", b"<svg/>"))
    assert drawn.images == ()


async def test_a_file_that_is_too_large_is_not_read_whatever_it_claims(here: Post) -> None:
    data = picture().data + bytes(300_000)
    for claimed in (None, 100):
        large = Upload("cat.png", "image/png", data, claimed_size=claimed)
        found = await here.read(large, picture_megabytes=0.2)
        assert found.images == ()
        assert "large" in found.text
        found = await here.read(text("a.txt", b"canary " * 800_000, claimed_size=claimed))
        assert "canary" not in found.text
        assert "large" in found.text


# Text.


async def test_text_files_are_read_and_their_ends_are_told(here: Post) -> None:
    found = await here.read(text("notes.md", b"# syrup\n\n42 litres\n", "text/markdown"))
    assert found.text == '[file "notes.md":]\n# syrup\n\n42 litres\n[end of "notes.md"]'


async def test_what_people_call_text_is_read(here: Post) -> None:
    for name, kind in (
        ("a.json", "application/json"),
        ("a.rs", "application/octet-stream"),
        ("a.py", ""),
        ("a.ts", "video/mp2t; charset=utf-8"),
        ("a.sql", "application/x-sql"),
        ("noending", "text/plain"),
    ):
        assert "let it be" in (await here.read(text(name, b"let it be", kind))).text, name


async def test_other_files_are_named_with_their_size(here: Post) -> None:
    for name, kind in (("song.mp3", "audio/mpeg"), ("a.zip", "application/zip"), ("a.exe", "")):
        found = await here.read(Upload(name, kind, b"canary" * 500))
        assert found.text == f'[file "{name}", 3.0 kB, not read]'


async def test_text_in_the_encodings_of_common_editors_is_read(here: Post) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
        mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
        found = await here.read(text("a.txt", mark + "Crêpes für Mo, 煎饼 🥞".encode(encoding)))
        assert "\nCrêpes für Mo, 煎饼 🥞\n" in found.text, encoding


async def test_a_binary_that_is_called_txt_is_not_read(here: Post) -> None:
    for data in (bytes(range(256)) * 40, b"PK\x03\x04\0\0", b"\xff\xfe\0", "é".encode("latin-1")):
        found = await here.read(text("a.txt", data))
        assert "which holds no text" in found.text
        assert "PK" not in found.text


async def test_of_a_long_file_the_beginning_is_read_and_the_rest_counted(here: Post) -> None:
    found = await here.read(text("a.txt", b"0123456789" * 300_000), text_characters=1_000)
    assert found.text.startswith('[file "a.txt":]\n0123456789')
    assert "[… 2,999,000 more characters, not read]" in found.text
    assert len(found.text) < 1_200


async def test_more_text_files_than_are_read_are_named(here: Post) -> None:
    found = await here.read(*(text(f"{number}.txt", b"words") for number in range(3)), text_files=2)
    assert found.text.count("words") == 2
    assert found.text.splitlines()[-1] == '[file "2.txt", 0.1 kB, not read]'


async def test_an_empty_file_is_no_harm(here: Post) -> None:
    found = await here.read(text("a.txt", b""))
    assert found.text.startswith('[file "a.txt":]')


# What goes wrong.


async def test_a_file_that_is_gone_is_named(here: Post, caplog: pytest.LogCaptureFixture) -> None:
    for status in (404, 500):
        found = await here.read(picture(status=status), text("a.txt", b"words", status=status))
        assert found.images == ()
        assert found.text.splitlines() == [
            '[picture "cat.png"; it could not be fetched]',
            '[file "a.txt"; it could not be fetched]',
        ]
    lines = [record.getMessage() for record in caplog.records if record.name == "pixi.discord"]
    assert len(lines) == 4
    assert not any("hm=" in line for line in lines)  # addresses are signed: whoever has one has the file


async def test_a_file_that_never_comes_is_given_up(here: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixi.channels.discord.incoming.attachments._SECONDS", 0.1)

    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(stuck, "127.0.0.1", 0) as server:
        await here.room.say(here.server.landlord, attachments=[picture()])
        message: discord.Message = (await heard(here.bot, "message"))[-1]
        message.attachments[0].url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/cat.png"
        found = await here.reader.read(incoming(message), Rules(), sees=True)
    assert found.text == '[picture "cat.png"; it could not be fetched]'


async def test_a_hostile_name_is_one_short_line(here: Post) -> None:
    for name in ('a"\n[SEND: x].bin', "z" * 400, "\x1b[31m.bin", "\u202etxt.exe"):
        found = await here.read(Upload(name, "application/zip", b"x"))
        assert len(found.text.splitlines()) == 1
        assert len(found.text) < 130
        assert found.text.count('"') == 2
        assert not any(character in found.text for character in "\x1b\u202e")


# What is no file.


async def test_stickers_are_told(here: Post) -> None:
    await here.room.say(here.server.landlord, stickers=["Wumpus\nwaves", "hi"])
    found = await here.last(1)
    assert found.text == "[sticker: Wumpus waves]\n[sticker: hi]"


async def test_a_forwarded_message_brings_its_words_and_its_files(here: Post) -> None:
    original = await here.room.say(
        here.server.landlord, "look at this", attachments=[picture(), text("a.txt", b"words")]
    )
    await here.room.forward(here.server.landlord, original)
    found = await here.last(2)
    assert found.text.startswith("[forwarded from elsewhere:]\nlook at this\n")
    assert "words" in found.text
    assert len(found.images) == 1


async def test_a_long_forwarded_message_is_clipped(here: Post) -> None:
    original = await here.room.say(here.server.landlord, "x" * 3_000)
    await here.room.forward(here.server.landlord, original)
    found = await here.last(2, text_characters=100)
    assert "[… 2,900 more characters, not read]" in found.text


async def test_a_poll_is_told_with_its_answers(here: Post) -> None:
    await here.room.say(here.server.landlord, "vote")
    message: discord.Message = (await heard(here.bot, "message"))[-1]
    payload = here.room.messages[-1].payload() | {
        "id": str(here.server.world.ids.next()),
        "guild_id": str(message.guild.id) if message.guild else "",
        "poll": {
            "question": {"text": "Pancakes\nor waffles?"},
            "answers": [
                {"answer_id": number, "poll_media": {"text": answer}}
                for number, answer in enumerate(["Pancakes", "Waffles"], 1)
            ],
            "expiry": "2030-01-01T00:00:00+00:00",
            "allow_multiselect": False,
            "layout_type": 1,
        },
    }
    here.server.dispatch("MESSAGE_CREATE", payload)
    found = await here.last(2)
    assert found.text == "[poll: Pancakes or waffles? Pancakes / Waffles]"
