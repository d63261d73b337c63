"""Reads the attachments of a message: files that were sent before, and small ones in the request itself.

What becomes of them is what becomes of a file on Discord: a picture is shown to a model that sees, a text
follows the words of the message, and the rest is named. So it stands in the message, and stays in the history
when the file is gone. From an address a file is fetched only where the operator named its host: who writes
must not choose whom this server asks.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from yarl import URL

from pixi.channels.http.access import Problem
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.files import PICTURES, SUFFIXES, Files, Sniffer, shown_name
from pixi.core.errors import ConfigError
from pixi.core.message import Attached, Image, told_picture, told_size, told_text, why_not_shown
from pixi.documents import FileLimits, SetAside
from pixi.documents.formats.text import as_markdown
from pixi.documents.readers import Readers
from pixi.fetching.web import Web, WebError
from pixi.models.pictures import PictureError, fit_for_model
from pixi.settings.rules import HttpRules

MOST_ATTACHMENTS = 8
"""Attachments of one message at most."""

_PICTURES = 4  # that are shown of one message
_SIDE = 1_024  # pixels of the longer side of a picture that is shown
_READING = FileLimits(
    seconds=8.0, megabytes=768, unpacked_bytes=64_000_000, characters=5_000_000, records=5_000
)
_FETCH_SECONDS = 10.0
_TOGETHER_SECONDS = 20.0  # for all documents of one message

_OUR_URL = re.compile(r"(?:https?://[^/?#\s]+)?/api/files/([0-9a-f]{32})(?:\?[^#\s]*)?")


class Attachments:
    """Reads what goes with messages. `close` ends what it started; nothing is started before it is needed.

    Args:
        files: those that people sent.
        rules: how much of them is taken, and from which hosts they are fetched.
        web: fetches them, and no address of a private network; closed with this.
    """

    def __init__(self, files: Files, rules: HttpRules, web: Web) -> None:
        self._files = files
        self._hosts = frozenset(host.lower() for host in rules.attachment_hosts)
        self._web = web
        self._characters = rules.file_characters
        self._most_bytes = rules.max_file_bytes
        self._drawing = asyncio.Lock()
        self._readers: Readers | None = None

    async def close(self) -> None:
        """End what reads. Calling it twice does no harm."""
        if self._readers is not None:
            await self._readers.close()
        await self._web.close()

    async def read(self, asked: Sequence[Attachment], person: str, *, sees: bool) -> Attached:
        """Read what goes with a message; what cannot be read is named, with the reason.

        Args:
            asked: files of the person by their ids or addresses, `data:` URLs, or addresses of the web.
            person: id of the author.
            sees: pictures can be shown to the model; otherwise they are only named.

        Raises:
            Problem: 404, one is no file of theirs; 413, 422, it cannot be taken.
        """
        if len(asked) > MOST_ATTACHMENTS:
            raise Problem(422, "Too many files", f"A message may have {MOST_ATTACHMENTS} files.")
        found = [await self._opened(each, person) for each in asked]
        blocks: list[str] = []
        images: list[Image] = []
        deadline = asyncio.get_running_loop().time() + _TOGETHER_SECONDS
        for name, media_type, size, content in found:
            if media_type in PICTURES:
                wanted = sees and len(images) < _PICTURES
                image = await self._picture(content) if wanted else why_not_shown(sees)
                if isinstance(image, Image):
                    images.append(image)
                blocks.append(told_picture(name, why_not="" if isinstance(image, Image) else image))
            elif media_type in SUFFIXES:
                blocks.append(await self._document(name, media_type, content, deadline))
            else:
                blocks.append(f'[file "{name}", {told_size(size)}, not read]')
        return Attached("\n".join(blocks), tuple(images))

    async def _opened(self, asked: Attachment, person: str) -> tuple[str, str, int, Path | bytes]:
        """Return the name, the type and the size of a file, and where it lies or what is in it."""
        file_id = file_id_of(asked)
        if file_id:
            file = await self._files.of(person, file_id)
            return file.name, file.media_type, file.size, self._files.path(file)
        url, name = (asked.url or "").strip(), asked.name or ""
        if _is_web(url):
            data, name = await self._fetched(url), name or unquote(url.partition("?")[0].rpartition("/")[2])
        else:
            data = await asyncio.to_thread(_data_of, url, self._most_bytes)
        sniffer = Sniffer()
        sniffer.feed(data)
        return shown_name(name), sniffer.media_type, len(data), data

    async def _fetched(self, url: str) -> bytes:
        """Fetch the file behind an address of a host that the operator named, as long as it stays there.

        Raises:
            Problem: 422, it is another host's, or cannot be fetched.
        """

        async def check(following: URL) -> None:
            if (following.host or "").lower() not in self._hosts:
                raise WebError(f"It leads to {following.host}, from where nothing is fetched.")

        try:
            host = (urlsplit(url).hostname or "").lower()
        except ValueError:
            host = ""
        if host not in self._hosts:
            raise Problem(
                422,
                "No file",
                "Nothing is fetched from that address: send the file itself as a data: URL, or its id from "
                "POST /api/files; or name the host in [http] attachment_hosts.",
            )
        try:
            return (
                await self._web.get(url, most_bytes=self._most_bytes, seconds=_FETCH_SECONDS, onward=check)
            ).body
        except WebError as error:
            raise Problem(422, "No file", f"The file cannot be fetched: {error}") from error

    async def _picture(self, content: Path | bytes) -> Image | str:
        """Return the picture as a model is shown it, or in a few words why there is none."""
        try:
            async with self._drawing:
                return await asyncio.to_thread(fit_for_model, content, longest_side=_SIDE)
        except PictureError as error:
            return str(error)

    async def _document(self, name: str, media_type: str, content: Path | bytes, deadline: float) -> str:
        """Return the text of a document, read by a process that it cannot harm."""
        if self._readers is None:
            self._readers = Readers(limits=_READING)
        path: Path | None = None
        try:
            async with asyncio.timeout_at(deadline):
                path = (
                    await self._files.lay_down(content, media_type) if isinstance(content, bytes) else content
                )
                documents = await self._readers.read(path)
            text = await asyncio.to_thread(lambda: "\n\n".join(map(as_markdown, documents)))
        except SetAside as error:
            why = error.reason.partition(";")[0]
        except TimeoutError:
            why = "takes too long to read"
        except (ConfigError, OSError):
            why = "cannot be read just now"
        else:
            return (
                told_text(name, text, self._characters) if text.strip() else f'[file "{name}", without text]'
            )
        finally:
            if path is not None and isinstance(content, bytes):
                with suppress(OSError):
                    await asyncio.to_thread(path.unlink, missing_ok=True)
        return f'[file "{name}", not read: it {why}]'


def file_id_of(asked: Attachment) -> str:
    """Return the id of the file that is meant; "" for one that stands in the request, or on the web.

    Raises:
        Problem: 422, neither can be.
    """
    if (asked.id is None) == (asked.url is None):
        raise Problem(422, "No file", "Of each file send its id, or a url; not both.")
    if asked.id is not None:
        return asked.id
    url = (asked.url or "").strip()
    if found := _OUR_URL.fullmatch(url):
        return found[1]
    if not (url[:5].lower() == "data:" or _is_web(url)):
        raise Problem(
            422,
            "No file",
            "Send the file as a data: URL, by an address of the web, or its id from POST /api/files.",
        )
    return ""


def _is_web(url: str) -> bool:
    return url.lower().startswith(("https://", "http://"))


def attachments_in(parts: Any) -> tuple[Attachment, ...]:
    """Return the files among the parts of a message, as programs have them. All else is passed over.

    They are OpenAI's `image_url` and `file`, AI SDK's `file`, and AG-UI's `binary`, `image` and `document`.

    Raises:
        Problem: 422, one is no file that can be taken.
    """
    found: list[Attachment] = []
    for part in parts if isinstance(parts, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        match kind:
            case "image_url":
                told = part.get("image_url")
            case "file":
                told = part.get("file", part)
            case "binary":
                told = part
            case "image" | "document":
                told = part.get("source")
            case _:
                continue
        each = _attachment(told)
        if each is None:
            raise Problem(422, "No file", f"A part of the type {kind} holds no file.")
        file_id_of(each)
        found.append(each)
    return tuple(found)


def _attachment(told: Any) -> Attachment | None:
    """Return the file that a part of one of the programs tells of; None: it tells of none."""
    if isinstance(told, str):
        return Attachment(url=told)
    if not isinstance(told, dict):
        return None
    known = {key: value for key, value in told.items() if isinstance(value, str) and value}
    data = known.get("data") or (known.get("value") if known.get("type") == "data" else None)
    url = known.get("url") or known.get("file_data") or known.get("value")
    if data:
        url = f"data:{known.get('mimeType', '')};base64,{data}"
    file_id = None if url else known.get("file_id") or known.get("id")
    return Attachment(id=file_id, url=url, name=known.get("filename")) if url or file_id else None


def _data_of(url: str, most: int) -> bytes:
    """Return the bytes in a `data:` URL.

    Raises:
        Problem: 413, they are too many; 422, there are none.
    """
    head, comma, data = url.strip()[5:].partition(",")
    bad = Problem(422, "No file", "The data: URL is cut or broken: write data:TYPE;base64,DATA.")
    if not comma:
        raise bad
    try:
        is_base64 = head.lower().endswith(";base64")
        content = base64.b64decode(data, validate=True) if is_base64 else unquote_to_bytes(data)
    except (binascii.Error, ValueError):
        raise bad from None
    if len(content) > most:
        raise Problem(
            413, "Too large", f"A file may have {most:,} bytes; [http] max_file_bytes sets the limit."
        )
    if not content:
        raise Problem(422, "Empty", "There is nothing in the file.")
    return content
