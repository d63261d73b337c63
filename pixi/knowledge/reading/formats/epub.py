"""EPUB: the chapters of a book in the order of reading."""

import posixpath
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote, urldefrag

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.archives import opened
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.html import Page, closed_elements, page_of
from pixi.knowledge.reading.formats.outline import Heading, outlined
from pixi.knowledge.reading.limits import Limits, mib
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = frozenset({"application/xhtml+xml", "text/html"})


@dataclass(frozen=True, slots=True)
class _Element:
    name: str
    text: str
    attributes: dict[str, str | None]

    def attribute(self, name: str) -> str:
        return self.attributes.get(name) or ""


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The book, as one document.

    Raises:
        SetAside: it is broken, protected against copying, or unpacks to too much.
    """
    with opened(original.file, "EPUB") as archive:
        book = _Book(archive, original.limits)
        pages = list(book.pages(tell))
    lines: list[str] = []
    headings: list[Heading] = []
    for name, page in pages:
        start = len(lines)
        if name and not page.headings:
            headings.append(Heading(1, name, start, start))
        headings.extend(
            replace(heading, start=heading.start + start, end=heading.end + start)
            for heading in page.headings
        )
        lines.extend((*page.lines, ""))
    made = outlined(lines, headings, book.title)
    return (Document("", made.title, tuple(replace(section, line=0) for section in made.sections)),)


class _Book:
    """What the package says of itself.

    Attributes:
        title: of the book; "" where it is not told.
    """

    def __init__(self, archive: zipfile.ZipFile, limits: Limits) -> None:
        self._archive = archive
        self._left = limits.unpacked_bytes
        self._limits = limits
        roots = [element for element in self._elements(_CONTAINER) if element.name == "rootfile"]
        self._package = roots[0].attribute("full-path") if roots else ""
        self._parts = list(self._elements(self._package))
        titles = [element.text for element in self._parts if element.name == "title" and element.text]
        self.title = titles[0] if titles else ""

    def pages(self, tell: Tell) -> Iterator[tuple[str, Page]]:
        """The chapters, each with the name that the table of contents has for it."""
        items = {part.attribute("id"): part for part in self._parts if part.name == "item"}
        names = self._names(items.values())
        protected = self._protected()
        lost = 0
        for reference in self._parts:
            item = items.get(reference.attribute("idref")) if reference.name == "itemref" else None
            if item is None or item.attribute("media-type") not in _CHAPTERS:
                continue
            path = self._path(item.attribute("href"))
            if path in protected:
                raise SetAside("is protected against copying; use a copy without that")
            if path not in self._archive.NameToInfo:
                lost += 1
                continue
            yield names.get(path, ""), page_of(decoded(self._bytes(path)))
        if lost:
            tell(f"{lost} of its chapters are missing; save it anew")

    def _names(self, items: Iterable[_Element]) -> dict[str, str]:
        """What the table of contents calls each file, old form or new."""
        names: dict[str, str] = {}
        for item in items:
            path = self._path(item.attribute("href"))
            is_old = item.attribute("media-type") == "application/x-dtbncx+xml"
            is_new = "nav" in item.attribute("properties").split()
            if not (is_old or is_new) or path not in self._archive.NameToInfo:
                continue
            label = ""
            for element in self._elements(path):
                if is_old and element.name == "text":
                    label = element.text
                target = element.attribute("src" if is_old else "href")
                if target and element.name == ("content" if is_old else "a"):
                    chapter = self._path(target, path)
                    names.setdefault(chapter, label if is_old else element.text)
        return names

    def _protected(self) -> set[str]:
        """The files that only one reading programme can read. Scrambled fonts are not in anybody's way."""
        if _ENCRYPTION not in self._archive.NameToInfo:
            return set()
        references = self._elements(_ENCRYPTION)
        return {unquote(part.attribute("uri")) for part in references if part.name == "cipherreference"}

    def _path(self, href: str, beside: str = "") -> str:
        """Where in the archive a reference leads; it is looked up there and nowhere else."""
        folder = posixpath.dirname(beside or self._package)
        return posixpath.normpath(posixpath.join(folder, unquote(urldefrag(href).url)))

    def _elements(self, path: str) -> Iterator[_Element]:
        """Everything in an XML file, read as HTML: that has no entities to blow up, and fetches nothing."""
        from selectolax.lexbor import LexborHTMLParser

        if path not in self._archive.NameToInfo:
            raise SetAside("is broken, or no EPUB; save it anew")
        tree = LexborHTMLParser(closed_elements(decoded(self._bytes(path))))
        for node in tree.css("*"):
            name = (node.tag or "").rpartition(":")[2]
            yield _Element(
                name, " ".join(node.text(deep=name in ("a", "text", "title")).split()), node.attributes
            )

    def _bytes(self, path: str) -> bytes:
        with self._archive.open(path) as member:
            data = member.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise SetAside(f"unpacks to more than {mib(self._limits.unpacked_bytes)}; split it")
        return data
