"""What every reader's documents go through: text that can be sent and stored, within the limits."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.reading.limits import Limits
from pixi.knowledge.reading.outcome import SetAside
from pixi.knowledge.reading.wire import weight

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_TITLE = 300
_LONGEST_HEADING = 600
_LONGEST_KEY = 200


def one_line(text: str) -> str:
    """The text on one line: no control characters, every run of white space one space, no broken halves."""
    return " ".join(_CONTROLS.sub(" ", sendable(text)).split())


def sendable(text: str) -> str:
    """The text with NULs and halves of surrogate pairs replaced; everything else stays, and its length."""
    return _UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text) if not text.isascii() or "\0" in text else text


def short(text: str, longest: int) -> str:
    """The text on one line, cut off with an ellipsis where it is too long."""
    line = one_line(text[: longest * 4])
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


class Tidier:
    """Tidies the documents of one file and counts them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._characters = 0
        self._records = 0
        self._keys: dict[str, int] = {}

    def unsent(self) -> int:
        """What the file has come to, in characters, at most what one piece holds."""
        return min(self._characters, 131_072)

    def tidied(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents, as they may be sent.

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
        """The key, made unlike those before: by the content, then by counting, that few change by an edit."""
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
