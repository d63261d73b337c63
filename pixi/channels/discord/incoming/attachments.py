"""Reads what a message has besides words: pictures, text files, stickers, forwarded messages, polls."""

import asyncio
import logging
from pathlib import PurePath

import aiohttp

from pixi.channels.discord.formatting import one_line
from pixi.channels.discord.incoming.message import IncomingAttachment, IncomingMessage
from pixi.core.message import Attached, Image, read_part, told_picture, told_size, told_text, why_not_shown
from pixi.models.pictures import PictureError, fit_for_model
from pixi.settings.rules import Rules

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

    async def read(self, message: IncomingMessage, rules: Rules, *, sees: bool) -> Attached:
        """Read what a message carries. What cannot be had is named, with the reason; nothing is raised.

        Args:
            message: what carries it.
            rules: how many files are read, and how much of each.
            sees: pictures can be shown to the model; otherwise they are only named.
        """
        forwarded = (read_part(each, rules.text_characters) for each in message.forwarded)
        blocks = [f"[forwarded from elsewhere:]\n{text}" for text in forwarded]
        blocks += [f"[sticker: {_shown(sticker)}]" for sticker in message.stickers]
        blocks += [f"[poll: {message.poll}]"] if message.poll else []
        images: list[Image] = []
        texts = 0
        for file in message.attachments:
            if file.media_type in _PICTURE_TYPES:
                wanted = sees and len(images) < rules.pictures
                found = await self._picture(file, rules) if wanted else why_not_shown(sees)
                if isinstance(found, Image):
                    images.append(found)
                why_not = "" if isinstance(found, Image) else found
                blocks.append(told_picture(_shown(file.name), _shown(file.description), why_not))
            elif _is_text(file) and texts < rules.text_files:
                texts += 1
                blocks.append(await _text_file(file, rules.text_characters))
            else:
                blocks.append(f'[file "{_shown(file.name)}", {told_size(file.size)}, not read]')
        return Attached("\n".join(blocks), tuple(images))

    async def _picture(self, file: IncomingAttachment, rules: Rules) -> Image | str:
        """Fetch a picture, or tell in a few words why there is none."""
        if file.size > rules.picture_megabytes * 1_000_000:
            return f"{told_size(file.size)} is too large"
        data = await _fetched(file, int(rules.picture_megabytes * 1_000_000))
        if isinstance(data, str):
            return data
        try:
            async with self._decoding:
                return await asyncio.to_thread(fit_for_model, data, longest_side=rules.picture_pixels)
        except PictureError as error:
            return str(error)


def _is_text(file: IncomingAttachment) -> bool:
    kind = file.media_type
    if kind.startswith("text/") or kind in _TEXT_TYPES:
        return True
    # Discord guesses the type by the ending, and knows fewer of them than people send.
    unknown = kind in _MISTAKEN or not kind.startswith(("image/", "video/", "audio/"))
    return unknown and PurePath(file.name).suffix.lower() in _TEXT_ENDINGS


async def _text_file(file: IncomingAttachment, characters: int) -> str:
    head = f'file "{_shown(file.name)}"'
    if file.size > _TEXT_BYTES:
        return f"[{head}, {told_size(file.size)}, too large to be read]"
    data = await _fetched(file, _TEXT_BYTES)
    if isinstance(data, str):
        return f"[{head}; {data}]"
    text = _decoded(data)
    if text is None:
        return f"[{head}, {told_size(file.size)}, which holds no text]"
    return told_text(_shown(file.name), text, characters)


def _decoded(data: bytes) -> str | None:
    """Return the text of a file; None where it is none."""
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


async def _fetched(file: IncomingAttachment, most: int) -> bytes | str:
    """Fetch a file of so many bytes at most, whatever its message claims; else tell why not."""
    data = bytearray()
    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(headers=_AS_IT_IS, auto_decompress=False) as session,
            session.get(file.url, raise_for_status=True) as response,
        ):
            async for piece in response.content.iter_chunked(_PIECE_BYTES):
                data += piece
                if len(data) > most:
                    return "it is larger than was said"
    except (aiohttp.ClientError, OSError) as error:  # OSError: a timeout too
        _log.warning("attachment %s could not be fetched: %s", file.id, type(error).__name__)
        return "it could not be fetched"
    return bytes(data)


def _shown(text: str) -> str:
    return one_line(text).replace('"', "'")
