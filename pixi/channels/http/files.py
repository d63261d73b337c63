"""Files that people send: taken in piece by piece, kept on disk under ids, and given back to nobody else.

The store knows whose a file is; what is in it lies in a folder for the owner's eyes alone. A file is in the
store before it has its place in the folder. So whatever lies there and is not in the store was forgotten, and
is swept away: at the start, every half minute, and by whoever has a person forgotten.

Nothing of what a sender says of a file is believed. Its type is told by its bytes, a picture is drawn anew
(where it was taken is gone then), and its name is a text that is shown, never a path."""

import asyncio
import hashlib
import logging
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import aiofiles
import aiofiles.os
from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from pixi.channels.http import requests
from pixi.channels.http.access import Problem, joint_digest
from pixi.core.errors import StoreError
from pixi.core.untrusted import prompt_name
from pixi.models.pictures import PictureError, fit_for_model
from pixi.settings.rules import HttpRules
from pixi.store.kept import SentFile
from pixi.store.opening import file_of, is_postgres
from pixi.store.store import Store

_log = logging.getLogger("pixi.http")

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures, which are drawn anew."""

TEXT = "text/plain"
UNKNOWN = "application/octet-stream"
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

SUFFIXES: Mapping[str, str] = {
    "application/pdf": ".pdf",
    _DOCX: ".docx",
    "application/epub+zip": ".epub",
    "text/html": ".html",
    TEXT: ".txt",
}
"""Types that a model can be told as text, with the suffix by which a reader of documents knows each."""

_WORD = b"word/document.xml"
_EPUB = b"mimetypeapplication/epub+zip"
_ENDS = 65_536  # bytes at either end of a file that are looked at; a zip lists what it holds at its end
_BYTE_ORDER = (b"\xff\xfe", b"\xfe\xff")
_NOT_IN_TEXT = bytes(set(range(32)) - set(b"\t\n\f\r\x1b")) + b"\x7f"


class Sniffer:
    """Looks at a file as it comes.

    Attributes:
        size: bytes until now.
    """

    def __init__(self) -> None:
        self.size = 0
        self._begin = b""
        self._end = b""
        self._is_text = True

    def feed(self, piece: bytes) -> None:
        """Look at the next bytes."""
        if len(self._begin) < _ENDS:
            self._begin += piece[: _ENDS - len(self._begin)]
        self._end = (self._end + piece)[-_ENDS:]
        if self._is_text and not self._begin.startswith(_BYTE_ORDER):
            self._is_text = len(piece.translate(None, _NOT_IN_TEXT)) == len(piece)
        self.size += len(piece)

    @property
    def media_type(self) -> str:
        """Return the media type, once the whole file has come."""
        begin = self._begin
        if begin.startswith(b"\x89PNG\r\n\x1a\n"):
            return "image/png"
        if begin.startswith(b"\xff\xd8\xff"):
            return "image/jpeg"
        if begin.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif"
        if begin.startswith(b"RIFF") and begin[8:12] == b"WEBP":
            return "image/webp"
        if begin.startswith(b"PK\x03\x04"):
            return self._packed()
        if b"%PDF-" in begin[:1_024]:
            return "application/pdf"
        if not self._is_text:
            return UNKNOWN
        start = begin[:1_024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        return "text/html" if start.startswith((b"<!doctype html", b"<html")) else TEXT

    def _packed(self) -> str:
        """Return the type of a zip. It is not opened here: the names at its ends tell what it holds."""
        if _EPUB in self._begin[:200]:
            return "application/epub+zip"
        if _WORD in self._begin or _WORD in self._end:
            return _DOCX
        return "application/zip"


T = TypeVar("T")

SWEEP_SECONDS = 30.0
"""Seconds for which a forgotten file may lie in the folder."""

UPLOAD_SECONDS = 300.0
"""Seconds in which a file must arrive as a whole."""

_PIECE = 65_536
_AT_ONCE = 4  # files that one person may send at once
_PICTURE_SIDE = 2_048  # pixels of the longer side of a picture that is kept
_LONGEST_NAME = 100
_GIVEN_UP_SECONDS = 3_600.0  # a part of a file that is so old belongs to a process that is gone

_COMING = "coming-"
_OURS = re.compile(r"([0-9a-f]{32})(?:\.[a-z]+)?|coming-[0-9a-f]{32}(?:\.[a-z]+)?")
_MALFORMED = (ValueError, RuntimeError, AssertionError, LookupError, HttpProcessingError)
"""Errors of aiohttp's reader of forms over one that is cut or made up."""


def files_folder(folder: Path, store_url: str) -> Path:
    """Return where the files of a store lie: in a folder of its own, within the one of the settings."""
    if is_postgres(store_url):
        store = store_url.rpartition("@")[2]
    else:
        path = file_of(store_url)
        store = str(path.resolve()) if path is not None else ""
    return folder / hashlib.blake2b(store.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def shown_name(name: str) -> str:
    """Return a stranger's name of a file on one line: no folders, nothing invisible, not too long."""
    last = re.split(r"[/\\]", name)[-1]
    shown = prompt_name(last, 4 * _LONGEST_NAME).lstrip(". ")
    stem, dot, suffix = shown.rpartition(".")
    if len(shown) > _LONGEST_NAME and stem and len(suffix) <= 10:
        shown = stem[: _LONGEST_NAME - len(suffix) - 1] + dot + suffix
    return shown[:_LONGEST_NAME] or "file"


class Files:
    """The files of a server.

    Args:
        store: knows whose they are.
        folder: where they lie; made when the first one comes.
        rules: how large they may be.
    """

    def __init__(self, store: Store, folder: Path, rules: HttpRules) -> None:
        self._store = store
        self._folder = folder
        self._rules = rules
        self._coming: Counter[str] = Counter()  # files that are being sent, by person
        self._drawing = asyncio.Lock()  # a large picture takes much memory
        self._settling = asyncio.Lock()  # no file is swept away between being known and having its place

    async def take(self, request: web.Request, person: str, key: str = "") -> SentFile:
        """Take in the file of a form.

        Args:
            request: its body is not read yet.
            person: id of the author whose file it is.
            key: the same key is the same file; "" for none.

        Raises:
            Problem: it is no form with one file, is too large or too slow, or another came under this key.
            StoreError: it could not be recorded.
        """
        if self._coming[person] >= _AT_ONCE:
            raise Problem(
                429,
                "Too many files",
                f"{_AT_ONCE} files of yours are on their way. Wait for one.",
                headers={"Retry-After": "2"},
            )
        if not key and await self._store.file_bytes(person) >= self._rules.file_bytes_per_person:
            raise self._no_room()
        file_id = joint_digest(person, key) if key else uuid.uuid4().hex
        self._coming[person] += 1
        coming = self._place(f"{_COMING}{uuid.uuid4().hex}")
        try:
            await asyncio.to_thread(_make_private_folder, self._folder)
            name, digest, media_type, size = await self._receive(request, coming)
            if key and (known := await self._store.file(file_id)) is not None:
                return _same(known, digest)
            if media_type in PICTURES:
                media_type, size = await self._drawn(coming)
            file = SentFile(file_id, person, name, media_type, size, digest, time.time())
            return await self._settle(file, coming)
        except ConnectionError:
            raise  # whoever sent it is gone
        except OSError as error:
            _log.warning("a file could not be kept: %s", error.strerror or type(error).__name__)
            raise Problem(503, "Not now", "Files cannot be kept just now. Try again later.") from None
        finally:
            self._coming -= Counter({person: 1})
            with suppress(OSError):
                await asyncio.to_thread(coming.unlink, missing_ok=True)

    async def of(self, person: str, file_id: str) -> SentFile:
        """Return a file of a person.

        Raises:
            Problem: 404, they have none of that id.
        """
        file = await self._store.file(file_id)
        if file is None or file.person != person:
            raise Problem(404, "No such file", "You have no file of that id.")
        return file

    def path(self, file: SentFile) -> Path:
        """Return where a file lies, by a name from which a reader knows its kind."""
        return self._place(f"{file.id}{SUFFIXES.get(file.media_type, '')}")

    async def answer(self, file: SentFile) -> web.FileResponse:
        """Return a file as an answer that no browser takes for a page of this server.

        Raises:
            Problem: 404, it is not in the folder any more.
        """
        path = self.path(file)
        if not await aiofiles.os.path.isfile(path):
            _log.warning("the file %s is not in the folder", file.id)
            raise Problem(404, "No such file", "What was in this file is lost; send it again.")
        text = file.media_type.startswith("text/")
        return web.FileResponse(
            path,
            headers={
                # The encoding of a text is not known; what is no page needs none.
                "Content-Type": "text/plain; charset=utf-8" if text else file.media_type,
                "Content-Disposition": _disposition(file),
                "Content-Security-Policy": "sandbox; default-src 'none'",
                "Cross-Origin-Resource-Policy": "same-origin",
                "X-Content-Type-Options": "nosniff",
            },
        )

    async def drop(self, file: SentFile) -> None:
        """Keep a file no longer."""
        await self._store.drop_file(file.id)
        with suppress(OSError):  # what cannot be deleted now is swept away later
            await asyncio.to_thread(self.path(file).unlink, missing_ok=True)

    async def lay_down(self, data: bytes, media_type: str) -> Path:
        """Lay bytes down for a reader of documents; whoever asked deletes them.

        Raises:
            OSError: they cannot be written.
        """
        path = self._place(f"{_COMING}{uuid.uuid4().hex}{SUFFIXES[media_type]}")
        await asyncio.to_thread(_make_private_folder, self._folder)
        async with aiofiles.open(path, "xb", opener=_private) as file:
            await file.write(data)
        return path

    async def keep_swept(self) -> None:
        """Sweep again and again, until it is cancelled."""
        while True:
            try:
                await self.sweep()
            except (StoreError, OSError) as error:
                _log.warning("files that were forgotten could not be swept away: %s", error)
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Delete what lies in the folder and was forgotten; gives how many files.

        Raises:
            StoreError: nobody can tell what was.
            OSError: the folder cannot be read, or one of them not be deleted.
        """
        async with self._settling:
            lying = await asyncio.to_thread(_ours_in, self._folder)
            ids = {name: name.partition(".")[0] for name in lying if not name.startswith(_COMING)}
            known = await self._store.files_among(ids.values()) if ids else frozenset()
            gone = [name for name, file_id in ids.items() if file_id not in known]
            given_up = [name for name in lying if name not in ids]
            return await asyncio.to_thread(_delete, self._folder, gone, given_up)

    def _place(self, name: str) -> Path:
        return self._folder / name

    async def _receive(self, request: web.Request, path: Path) -> tuple[str, str, str, int]:
        """Write the file of a form to a path; return its name, digest, type and size."""
        if request.content_type != "multipart/form-data":
            raise Problem(415, "No form", "Send the file as multipart/form-data: curl -F file=@NAME.")
        try:
            async with asyncio.timeout(UPLOAD_SECONDS):
                form = await request.multipart()
                part = await _soon(form.next())
                if not isinstance(part, BodyPartReader) or part.filename is None:
                    raise _no_file()
                name = shown_name(part.filename)
                digest, sniffer = await self._write(part, path)
                if await _soon(form.next()) is not None:
                    raise Problem(422, "Several files", "Send one file at a time, and nothing beside it.")
        except TimeoutError:
            raise Problem(
                408, "Too slow", "The file came too slowly. Send it again, or a smaller one."
            ) from None
        except _MALFORMED:
            raise Problem(400, "No form", "The form is cut or broken. Send the file again.") from None
        if not sniffer.size:
            raise Problem(422, "Empty", "There is nothing in the file.")
        return name, digest, sniffer.media_type, sniffer.size

    async def _write(self, part: BodyPartReader, path: Path) -> tuple[str, Sniffer]:
        sniffer, digest = Sniffer(), hashlib.sha256()
        length = part.headers.get("Content-Length")
        if length is not None and not (length.isascii() and length.isdecimal()):
            raise ValueError("a length below zero would have all of the rest read at once")
        async with aiofiles.open(path, "xb", opener=_private) as file:
            while piece := await _soon(part.read_chunk(_PIECE)):
                sniffer.feed(piece)
                if sniffer.size > self._rules.max_file_bytes:
                    raise Problem(
                        413,
                        "Too large",
                        f"A file may have {self._rules.max_file_bytes:,} bytes; [http] max_file_bytes sets "
                        "the limit.",
                    )
                digest.update(piece)
                await file.write(piece)
        if length is not None and sniffer.size != int(length):
            raise ValueError("the file is cut")
        return digest.hexdigest(), sniffer

    async def _drawn(self, path: Path) -> tuple[str, int]:
        """Draw a picture anew in its place; return its type and size."""
        try:
            async with self._drawing:
                image = await asyncio.to_thread(fit_for_model, path, longest_side=_PICTURE_SIDE)
        except PictureError as error:
            raise Problem(422, "No picture", f"The picture was not kept: {error}.") from None
        async with aiofiles.open(path, "wb") as file:
            await file.write(image.data)
        return image.media_type, len(image.data)

    async def _settle(self, file: SentFile, coming: Path) -> SentFile:
        async with self._settling:
            if (known := await self._store.file(file.id)) is not None:  # the same key came twice at once
                return _same(known, file.digest)
            if not await self._store.add_file(file, self._rules.file_bytes_per_person):
                raise self._no_room()
            try:
                await asyncio.to_thread(os.replace, coming, self.path(file))
            except BaseException:
                await self._store.drop_file(file.id)
                raise
            return file

    def _no_room(self) -> Problem:
        most = self._rules.file_bytes_per_person
        return Problem(
            413,
            "No room",
            f"Your files may have {most:,} bytes together; delete some. [http] file_bytes_per_person sets "
            "the limit.",
        )


async def _soon(waited: Awaitable[T]) -> T:
    """Wait for a piece of a file, as long as for a body."""
    async with asyncio.timeout(requests.BODY_SECONDS):
        return await waited


def _no_file() -> Problem:
    return Problem(422, "No file", "The form must begin with the file: curl -F file=@NAME.")


def _same(known: SentFile, digest: str) -> SentFile:
    """Return a file that came before under the same key.

    Raises:
        Problem: 422, it was another one.
    """
    if known.digest != digest:
        raise Problem(
            422, "Used before", "This idempotency key came before with another file. Send a key of its own."
        )
    return known


def _disposition(file: SentFile) -> str:
    """Name the file in a header. A picture that was drawn anew may be shown; all else is saved."""
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", file.name)
    how = "inline" if file.media_type in PICTURES else "attachment"
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name, safe='', errors='replace')}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _ours_in(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if _OURS.fullmatch(name)]
    except FileNotFoundError:
        return []


def _delete(folder: Path, gone: Sequence[str], given_up: Sequence[str]) -> int:
    oldest = time.time() - _GIVEN_UP_SECONDS
    with suppress(FileNotFoundError):  # another process sweeps here too
        gone = [*gone, *(name for name in given_up if (folder / name).lstat().st_mtime < oldest)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    return len(gone)
