"""Frames of typed messages, never pickles, for the pipes to and from a process that reads.

A frame is four bytes of length, the highest first, and so many bytes of MessagePack. Where a process can be
handed files that are open (everywhere but on Windows), it is asked through a socket: a frame holds the names
of files, and the files go along with its first byte (SCM_RIGHTS), in the same order. On Windows a frame holds
their paths."""

import hashlib
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from pixi.documents.confinement import Confinement
from pixi.documents.files import Document, FileLimits, Section, SetAside

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_TITLE = 300
_LONGEST_HEADING = 600
_LONGEST_KEY = 200


def one_line(text: str) -> str:
    """Return the text on one line, without control characters and halves of surrogate pairs."""
    return " ".join(_CONTROLS.sub(" ", sendable(text)).split())


def sendable(text: str) -> str:
    """Return the text with NULs and halves of surrogate pairs replaced; its length stays."""
    return _UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text) if not text.isascii() or "\0" in text else text


def short(text: str, longest: int) -> str:
    """Return the text on one line, cut off with an ellipsis where it is too long."""
    line = one_line(text[: longest * 4])
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


class DocumentCleaner:
    """Tidies the documents of one file and counts them."""

    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits
        self._characters = 0
        self._records = 0
        self._keys: dict[str, int] = {}  # how often each was given

    def last_weight(self) -> int:
        """Return a bound of the weight of the last piece: what the file has come to, or a whole piece."""
        return min(self._characters, PIECE_CHARACTERS)

    def tidied(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the documents, as they may be sent.

        Raises:
            SetAside: there are too many, or too much text in them.
        """
        for document in documents:
            sections = tuple(_tidy(section) for section in document.sections if section.text.strip())
            key = self._own_key(document) if document.key else ""
            tidy = Document(key, short(document.title, _LONGEST_TITLE), sections)
            if not sections:
                if not tidy.title:
                    continue
                tidy = replace(tidy, sections=(Section(tidy.title),))
            self._count(tidy)
            yield tidy

    def _own_key(self, document: Document) -> str:
        """Return the key, made unlike those before: by the content, then by counting; an edit changes few."""
        key = one_line(document.key)
        if len(key) > _LONGEST_KEY:
            key = _digest(document.key)
        if key in self._keys:
            key = f"{key}#{_digest(*(section.text for section in document.sections))[:8]}"
        times = self._keys.get(key, 0) + 1
        self._keys[key] = times
        return key if times == 1 else f"{key}#{times}"

    def _count(self, document: Document) -> None:
        self._characters += weight(document)
        self._records += 1
        if self._characters > self._limits.characters:
            raise SetAside(
                f"holds more than {self._limits.characters:,} characters of text; split it into smaller files"
            )
        if self._records > self._limits.records:
            raise SetAside(f"holds more than {self._limits.records:,} records; split it into smaller files")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(map(sendable, texts)).encode()).hexdigest()[:32]


def _tidy(section: Section) -> Section:
    text, heading = section.text, section.heading
    clean = sendable(text)
    if heading:
        heading = short(heading, _LONGEST_HEADING)
    if clean is text and heading == section.heading:
        return section
    return replace(section, text=clean, heading=heading)


LENGTH = struct.Struct(">I")
LONGEST_FRAME = 8 * 1024 * 1024
PIECE_CHARACTERS = 131_072
MOST_FILES = 64
"""Limit of one frame: all of them are open in the process that is asked."""
HANDS_OVER = sys.platform != "win32"
"""True where a process can be handed files that are open."""
OVERHEAD = 48  # what a piece, a document or a section costs on the wire besides its texts, about


class WorkerReady(msgspec.Struct, array_like=True, frozen=True, tag="ready"):
    """The process is up and waits for files.

    Attributes:
        confinement: what the kernel refuses it.
    """

    confinement: Confinement = Confinement()


class Piece(msgspec.Struct, array_like=True, frozen=True, tag="piece"):
    """Some of the documents of a file, or all.

    Attributes:
        file: which of those asked for, from 0.
        documents: in order.
        joins: 0: they begin anew; 1: the first one's sections belong to the last document before; 2: and
            its first section's text belongs to the last section before.
        last: nothing more comes of this file.
        note: see `Documents`.
    """

    file: int
    documents: tuple[Document, ...]
    joins: int = 0
    last: bool = True
    note: str = ""


class FileRefused(msgspec.Struct, array_like=True, frozen=True, tag="refused"):
    """A file is set aside, whatever came of it before."""

    file: int
    reason: str
    again: bool = False


class WorkerSpent(msgspec.Struct, array_like=True, frozen=True, tag="spent"):
    """The process ends: it has used too much to go on."""


Message = WorkerReady | Piece | FileRefused | WorkerSpent

MESSAGES: msgspec.msgpack.Decoder[list[Message]] = msgspec.msgpack.Decoder(list[Message])
PATHS: msgspec.msgpack.Decoder[list[bytes]] = msgspec.msgpack.Decoder(list[bytes])
LIMITS: msgspec.msgpack.Decoder[FileLimits] = msgspec.msgpack.Decoder(FileLimits)
_ENCODER = msgspec.msgpack.Encoder()


def framed(content: Sequence[Message] | Sequence[bytes] | FileLimits) -> bytes:
    """Return a frame that holds it."""
    body = _ENCODER.encode(content)
    return LENGTH.pack(len(body)) + body


def weight(document: Document) -> int:
    """Return the characters of a document, and a little for each of its parts."""
    total = OVERHEAD + len(document.key) + len(document.title)
    for section in document.sections:
        total += OVERHEAD + len(section.text) + len(section.heading)
    return total


def pieces(file: int, documents: Iterable[Document]) -> Iterator[Piece]:
    """Yield the documents in pieces that are small enough to send; the caller marks the last one."""
    waiting: list[Document] = []
    total = 0
    for document in documents:
        size = weight(document)
        if waiting and total + size > PIECE_CHARACTERS:
            yield Piece(file, tuple(waiting), last=False)
            waiting, total = [], 0
        if size > PIECE_CHARACTERS:
            yield from _cut(file, document)
        else:
            waiting.append(document)
            total += size
    if waiting:
        yield Piece(file, tuple(waiting), last=False)


def _cut(file: int, document: Document) -> Iterator[Piece]:
    """Yield one long document, in pieces."""
    joins = 0
    waiting: list[Section] = []
    total = 0
    for section in document.sections:
        for start in range(0, max(len(section.text), 1), PIECE_CHARACTERS):
            part = replace(section, text=section.text[start : start + PIECE_CHARACTERS])
            size = OVERHEAD + len(part.text) + len(part.heading)
            if waiting and (start or total + size > PIECE_CHARACTERS):
                yield Piece(file, (Document(document.key, document.title, tuple(waiting)),), joins, False)
                waiting, total = [], 0
                joins = 1
            if start:
                joins = 2
            waiting.append(part)
            total += size
    yield Piece(file, (Document(document.key, document.title, tuple(waiting)),), joins, False)


def joined(pieces: Iterable[Piece]) -> list[Document]:
    """Return the documents of a file, put together again from its pieces."""
    documents: list[Document] = []
    parts: list[tuple[Section, list[str]]] = []  # of the last document, where it came in several pieces

    def close() -> None:
        if parts:
            sections = (replace(section, text="".join(texts)) for section, texts in parts)
            documents[-1] = replace(documents[-1], sections=tuple(sections))
            parts.clear()

    for piece in pieces:
        for at, document in enumerate(piece.documents):
            if at or not piece.joins or not documents:
                close()
                documents.append(document)
                continue
            parts = parts or [(section, [section.text]) for section in documents[-1].sections]
            sections = document.sections
            if piece.joins == 2 and parts and sections:
                parts[-1][1].append(sections[0].text)
                sections = sections[1:]
            parts += [(section, [section.text]) for section in sections]
    close()
    return documents
