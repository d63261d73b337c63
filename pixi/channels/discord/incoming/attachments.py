"""What a message carries besides its words: pictures, text files, stickers, forwarded messages, polls."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import aiohttp
import discord

from pixi.channels.carried import Carried, clipped, told_picture, told_size, told_text, why_not_shown
from pixi.channels.discord.incoming.wording import one_line
from pixi.channels.discord.rules import Rules
from pixi.channels.pictures import PictureError, fit_for_model
from pixi.core.message import Image

_log = logging.getLogger("pixi.discord")

_SECONDS = 15.0  # for one file to come
_TEXT_BYTES = 4_000_000  # of a text file that is fetched, in order to read its beginning
_PIECE_BYTES = 65_536
_AS_IT_IS = {"Accept-Encoding": "identity"}  # what is unpacked on its way could be of any size
_TEXT_TYPES = ("application/json", "application/xml", "application/x-yaml", "application/toml")
_TEXT_ENDINGS = frozenset(
    (
        ".c", ".cfg", ".cpp", ".cs", ".css", ".csv", ".go", ".h", ".html", ".ini", ".java", ".js", ".json",
        ".jsonl", ".kt", ".log", ".lua", ".md", ".php", ".py", ".rb", ".rs", ".rst", ".sh", ".sql", ".srt",
        ".svg", ".tex", ".toml", ".ts", ".tsv", ".txt", ".xml", ".yaml", ".yml",
    )
)  # fmt: skip
_MISTAKEN = ("video/mp2t", "video/vnd.dlna.mpeg-tts")  # for these Discord takes TypeScript
_PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class AttachmentReader:
    """Fetches and reads what messages carry. One for a bot: large pictures are decoded one at a time."""

    def __init__(self) -> None:
        self._decoding = asyncio.Lock()

    async def read(self, message: discord.Message, rules: Rules, *, sees: bool) -> Carried:
        """What the message carries. Whatever cannot be had is named, with the reason; nothing is raised.

        Args:
            message: as it came from Discord.
            rules: how many files are read, and how much of each.
            sees: pictures can be shown to the model; otherwise they are only named.
        """
        blocks = [*_forwarded(message, rules), *_stickers(message), *_poll(message)]
        images: list[Image] = []
        texts = 0
        for attachment in _attachments(message):
            if _is_picture(attachment):
                wanted = sees and len(images) < rules.pictures
                found = await self._picture(attachment, rules) if wanted else why_not_shown(sees)
                if isinstance(found, Image):
                    images.append(found)
                blocks.append(_told_picture(attachment, "" if isinstance(found, Image) else found))
            elif _is_text(attachment) and texts < rules.text_files:
                texts += 1
                blocks.append(await _text_file(attachment, rules.text_characters))
            else:
                blocks.append(f"[file {_name(attachment)}, {_size(attachment)}, not read]")
        return Carried("\n".join(blocks), tuple(images))

    async def _picture(self, attachment: discord.Attachment, rules: Rules) -> Image | str:
        """The picture, or in a few words why there is none."""
        if attachment.size > rules.picture_megabytes * 1_000_000:
            return f"{_size(attachment)} is too large"
        data = await _fetched(attachment, int(rules.picture_megabytes * 1_000_000))
        if isinstance(data, str):
            return data
        try:
            async with self._decoding:
                return await asyncio.to_thread(fit_for_model, data, longest_side=rules.picture_pixels)
        except PictureError as error:
            return str(error)


def _attachments(message: discord.Message) -> Iterator[discord.Attachment]:
    yield from message.attachments
    for snapshot in message.message_snapshots:
        yield from snapshot.attachments


def _forwarded(message: discord.Message, rules: Rules) -> Iterator[str]:
    for snapshot in message.message_snapshots:
        if snapshot.content.strip():
            yield f"[forwarded from elsewhere:]\n{clipped(snapshot.content, rules.text_characters)}"


def _stickers(message: discord.Message) -> Iterator[str]:
    for sticker in message.stickers:
        yield f"[sticker: {_shortened(sticker.name)}]"


def _poll(message: discord.Message) -> Iterator[str]:
    if message.poll is not None:
        answers: Sequence[discord.PollAnswer] = message.poll.answers
        choices = " / ".join(_shortened(answer.text) for answer in answers)
        yield f"[poll: {_shortened(message.poll.question)} {choices}]"


def _is_picture(attachment: discord.Attachment) -> bool:
    return _media_type(attachment) in _PICTURE_TYPES


def _is_text(attachment: discord.Attachment) -> bool:
    kind = _media_type(attachment)
    if kind.startswith("text/") or kind in _TEXT_TYPES:
        return True
    # Discord guesses the type by the ending, and knows fewer of them than people send.
    unknown = kind in _MISTAKEN or not kind.startswith(("image/", "video/", "audio/"))
    return unknown and PurePath(attachment.filename).suffix.lower() in _TEXT_ENDINGS


def _media_type(attachment: discord.Attachment) -> str:
    return (attachment.content_type or "").partition(";")[0].strip().lower()


def _told_picture(attachment: discord.Attachment, why_not: str) -> str:
    described = _shortened(attachment.description) if attachment.description else ""
    return told_picture(_shortened(attachment.filename), described, why_not)


async def _text_file(attachment: discord.Attachment, characters: int) -> str:
    head = f"file {_name(attachment)}"
    if attachment.size > _TEXT_BYTES:
        return f"[{head}, {_size(attachment)}, too large to be read]"
    data = await _fetched(attachment, _TEXT_BYTES)
    if isinstance(data, str):
        return f"[{head}; {data}]"
    text = _decoded(data)
    if text is None:
        return f"[{head}, {_size(attachment)}, which holds no text]"
    return told_text(_shortened(attachment.filename), text, characters)


def _decoded(data: bytes) -> str | None:
    """The text of a file; None where it is none."""
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


async def _fetched(attachment: discord.Attachment, most: int) -> bytes | str:
    """The file if it has so many bytes at most, whatever its message claims; else in a few words why not."""
    data = bytearray()
    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(headers=_AS_IT_IS, auto_decompress=False) as session,
            session.get(attachment.url, raise_for_status=True) as response,
        ):
            async for piece in response.content.iter_chunked(_PIECE_BYTES):
                data += piece
                if len(data) > most:
                    return "it is larger than was said"
    except (aiohttp.ClientError, OSError) as error:  # OSError: a timeout too
        _log.warning("attachment %s could not be fetched: %s", attachment.id, type(error).__name__)
        return "it could not be fetched"
    return bytes(data)


def _name(attachment: discord.Attachment) -> str:
    return f'"{_shortened(attachment.filename)}"'


def _shortened(text: str) -> str:
    return one_line(text).replace('"', "'")


def _size(attachment: discord.Attachment) -> str:
    return told_size(attachment.size)
