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
            tidy = Document(self._own_key(document.key), short(document.title, _LONGEST_TITLE), sections)
            if not sections:
                if not tidy.title:
                    continue
                tidy = replace(tidy, sections=(Section(tidy.title),))
            self._count(tidy)
            yield tidy

    def _own_key(self, key: str) -> str:
        """The key, made unlike those before: the second of the same name is `name#2`."""
        if not key:
            return key
        clean = one_line(key)
        if len(clean) > _LONGEST_KEY:
            clean = hashlib.sha256(sendable(key).encode()).hexdigest()[:32]
        times = self._keys.get(clean, 0) + 1
        self._keys[clean] = times
        return clean if times == 1 else f"{clean}#{times}"

    def _count(self, document: Document) -> None:
        self._characters += weight(document)
        self._records += 1
        if self._characters > self._limits.characters:
            raise SetAside(
                f"holds more than {self._limits.characters:,} characters of text; split it into smaller files"
            )
        if self._records > self._limits.records:
            raise SetAside(f"holds more than {self._limits.records:,} records; split it into smaller files")


def _tidy(section: Section) -> Section:
    text, heading = section.text, section.heading
    clean = sendable(text)
    if heading:
        heading = short(heading, _LONGEST_HEADING)
    if clean is text and heading == section.heading:
        return section
    return replace(section, text=clean, heading=heading)
