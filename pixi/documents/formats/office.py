"""Documents of other programs: Word, EPUB, PDF."""

import posixpath
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urldefrag

from pixi.core.errors import Reporter
from pixi.documents.files import BROKEN, Document, FileLimits, Original, Section, SetAside, mib
from pixi.documents.formats.html import HtmlLines, closed_elements, page_of
from pixi.documents.formats.text import BETWEEN_HEADINGS, Heading, decoded, outlined

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.table import Table
    from docx.text.paragraph import Paragraph
    from pypdf import PdfReader


_MEMBERS = 20_000
_ENCRYPTED = 1  # bit of a member's flags
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"  # begins an office file of before 2007, and one with a password


@contextmanager
def opened(file: BinaryIO, kind: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive.

    Args:
        file: to read it from.
        kind: what it should be, for people: "Word document".

    Raises:
        SetAside: it is broken, encrypted, or none; also for what is found out while it is read.
    """
    if file.read(len(_OLD_OFFICE)) == _OLD_OFFICE:
        raise SetAside(f"is an old {kind}, or has a password; save a copy in the new format, without one")
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MEMBERS:
                raise SetAside(f"holds more than {_MEMBERS:,} files; save it anew")
            if any(member.flag_bits & _ENCRYPTED for member in members):
                raise SetAside("is encrypted; save a copy without a password")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        raise SetAside(f"is broken, or no {kind}; save it anew") from None


def check_unpacked(archive: zipfile.ZipFile, limits: FileLimits) -> None:
    """See that everything inside comes to no more than it may. Nobody unpacks more than is declared.

    Raises:
        SetAside: it does.
    """
    if sum(member.file_size for member in archive.infolist()) > limits.unpacked_bytes:
        raise SetAside(f"unpacks to more than {mib(limits.unpacked_bytes)}; save it with fewer pictures")


_BETWEEN_CELLS = " | "
_DEEPEST_TABLE = 5


def read_word(original: Original, _: Reporter) -> Iterable[Document]:
    """Return the text, as one document.

    Raises:
        SetAside: it is broken, or unpacks to too much.
    """
    try:
        import docx
        from docx.opc.exceptions import OpcError
    except ImportError:
        raise SetAside("needs a library to read it; install pixi-persona[docs]") from None
    with opened(original.file, "Word document") as archive:
        check_unpacked(archive, original.limits)
    original.file.seek(0)
    try:
        return (_word_document(docx.Document(original.file)),)
    except (OpcError, SyntaxError, KeyError, ValueError):
        raise SetAside("is broken, or no Word document; save it anew") from None


def _word_document(word: "WordDocument") -> Document:
    from docx.table import Table

    levels = _levels(word)
    lines: list[str] = []
    headings: list[Heading] = []
    title = ""
    for part in word.iter_inner_content():
        if isinstance(part, Table):
            lines.extend(("", *_table_rows(part), ""))
            continue
        level = _level(part, levels)
        text = part.text.strip()
        if level is None or not text:
            lines.extend(part.text.split("\n"))
        elif level == 0:
            title = title or text
        else:
            headings.append(Heading(level, " ".join(text.split()), len(lines), len(lines) + 1))
            lines.append(text)
    made = outlined(lines, headings, title)
    sections = tuple(replace(section, line=0) for section in made.sections)
    return Document("", made.title or word.core_properties.title or "", sections)


def _levels(word: "WordDocument") -> dict[str, int]:
    """Return the level of heading that each style stands for; 0: the document's title."""
    levels: dict[str, int] = {}
    for style in word.styles:
        # In the file the built-in styles have English names in every language.
        kind, _, number = (style.name or "").lower().partition(" ")
        if kind == "title" and not number:
            levels[style.style_id] = 0
        elif kind == "heading" and number.isdecimal():
            levels[style.style_id] = int(number)
    return levels


def _level(paragraph: "Paragraph", levels: dict[str, int]) -> int | None:
    style = paragraph._p.style  # the style's id: `paragraph.style` would search all styles for each paragraph
    return levels.get(style) if style else None


def _table_rows(table: "Table", depth: int = 1) -> Iterator[str]:
    """Yield every row on a line."""
    for row in table.rows:
        cells: list[str] = []
        last = None
        for cell in row.cells:
            if cell._tc is not last:  # a cell that spans columns comes once for each
                cells.append(" ".join(" ".join(_cell(cell.iter_inner_content(), depth)).split()))
            last = cell._tc
        if any(cells):
            yield _BETWEEN_CELLS.join(cells)


def _cell(parts: "Iterable[Paragraph | Table]", depth: int) -> Iterator[str]:
    from docx.table import Table

    for part in parts:
        if not isinstance(part, Table):
            yield part.text
        elif depth < _DEEPEST_TABLE:
            yield from _table_rows(part, depth + 1)


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


def read_epub(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the book, as one document.

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
    """The package's description of itself.

    Attributes:
        title: of the book; "" where it is not told.
    """

    def __init__(self, archive: zipfile.ZipFile, limits: FileLimits) -> None:
        self._archive = archive
        self._left = limits.unpacked_bytes
        self._limits = limits
        roots = [element for element in self._elements(_CONTAINER) if element.name == "rootfile"]
        self._package = roots[0].attribute("full-path") if roots else ""
        self._parts = list(self._elements(self._package))
        titles = [element.text for element in self._parts if element.name == "title" and element.text]
        self.title = titles[0] if titles else ""

    def pages(self, tell: Reporter) -> Iterator[tuple[str, HtmlLines]]:
        """Yield the chapters, each with the name that the table of contents has for it."""
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
        """Return what the table of contents calls each file, old form or new."""
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
        """Return the files that only one reading program can read; scrambled fonts do no harm."""
        if _ENCRYPTION not in self._archive.NameToInfo:
            return set()
        references = self._elements(_ENCRYPTION)
        return {unquote(part.attribute("uri")) for part in references if part.name == "cipherreference"}

    def _path(self, href: str, beside: str = "") -> str:
        """Return where in the archive a reference leads; it is looked up there and nowhere else."""
        folder = posixpath.dirname(beside or self._package)
        return posixpath.normpath(posixpath.join(folder, unquote(urldefrag(href).url)))

    def _elements(self, path: str) -> Iterator[_Element]:
        """Yield all elements of an XML file, read as HTML: without entities to blow up, without fetching."""
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


_TOLD_PAGES = 5
_PRINTED_BY = ("Microsoft Word - ", "Microsoft PowerPoint - ", "untitled")


def read_pdf(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the pages, as one document.

    Raises:
        SetAside: it has a password, or pictures of pages instead of text, or is broken.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, PyPdfError
    except ImportError:
        raise SetAside("needs a library to read it; install pixi-persona[docs]") from None
    try:
        reader = PdfReader(original.file, strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise SetAside("is encrypted; save a copy without a password")
        sections = tuple(_pages(reader, tell))
        title = _pdf_title(reader)
    except DependencyError:
        raise SetAside("is encrypted; save a copy without a password") from None
    except PyPdfError:
        raise SetAside("is broken, or no PDF; save it anew") from None
    if not sections:
        raise SetAside("has no text, only pictures of it; have its text recognised (OCR), and save that")
    return (Document("", title, sections),)


def _pages(reader: "PdfReader", tell: Reporter) -> Iterator[Section]:
    from pypdf.errors import PyPdfError

    headings = _headings(reader)
    heading = ""
    lost: list[int] = []
    for number, page in enumerate(reader.pages, 1):
        heading = headings.get(number, heading)
        try:
            text = page.extract_text()
        except (PyPdfError, *BROKEN):
            lost.append(number)
            continue
        if text.strip():
            yield Section(text.strip("\n"), heading, page=number)
    if lost:
        pages = ", ".join(map(str, lost[:_TOLD_PAGES])) + (" and others" if len(lost) > _TOLD_PAGES else "")
        tell(f"the text of page {pages} cannot be read and was passed over; save it anew")


def _headings(reader: "PdfReader") -> dict[int, str]:
    """Return the chapter that each page begins with or lies in, by the file's own table of contents."""
    from pypdf.errors import PyPdfError

    headings: dict[int, str] = {}
    try:
        numbers = {
            page.indirect_reference.idnum: at
            for at, page in enumerate(reader.pages, 1)
            if page.indirect_reference is not None
        }
        for path, page in _outline(reader.outline, ()):
            number = numbers.get(page)
            if number is not None:
                headings[number] = BETWEEN_HEADINGS.join(path)
    except (PyPdfError, *BROKEN):
        return {}  # pages can be cited without it
    return headings


def _outline(entries: Iterable[object], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the paths of headings, each with the number of the object that is its page."""
    from pypdf.generic import Destination, IndirectObject

    last = above
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(entry, last)
        elif isinstance(entry, Destination):
            last = (*above, " ".join(str(entry.title).split()))
            if isinstance(entry.page, IndirectObject):
                yield last, entry.page.idnum


def _pdf_title(reader: "PdfReader") -> str:
    from pypdf.errors import PyPdfError

    try:
        title = reader.metadata.title if reader.metadata is not None else None
    except (PyPdfError, *BROKEN):
        return ""
    text = title if isinstance(title, str) else ""
    for mark in _PRINTED_BY:
        text = text.removeprefix(mark)
    return text
