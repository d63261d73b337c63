"""PDF: a section for every page."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.outline import BETWEEN_HEADINGS
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

if TYPE_CHECKING:
    from pypdf import PdfReader

_BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What the library lets through of a page that is not as it should be."""

_TOLD_PAGES = 5
_PRINTED_BY = ("Microsoft Word - ", "Microsoft PowerPoint - ", "untitled")


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The pages, as one document.

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
        sections = tuple(_sections(reader, tell))
        title = _title(reader)
    except DependencyError:
        raise SetAside("is encrypted; save a copy without a password") from None
    except PyPdfError:
        raise SetAside("is broken, or no PDF; save it anew") from None
    if not sections:
        raise SetAside("has no text, only pictures of it; have its text recognised (OCR), and save that")
    return (Document("", title, sections),)


def _sections(reader: "PdfReader", tell: Tell) -> Iterator[Section]:
    from pypdf.errors import PyPdfError

    headings = _headings(reader)
    heading = ""
    lost: list[int] = []
    for number, page in enumerate(reader.pages, 1):
        heading = headings.get(number, heading)
        try:
            text = page.extract_text()
        except (PyPdfError, *_BROKEN):
            lost.append(number)
            continue
        if text.strip():
            yield Section(text.strip("\n"), heading, page=number)
    if lost:
        pages = ", ".join(map(str, lost[:_TOLD_PAGES])) + (" and others" if len(lost) > _TOLD_PAGES else "")
        tell(f"the text of page {pages} cannot be read and was passed over; save it anew")


def _headings(reader: "PdfReader") -> dict[int, str]:
    """The chapter that each page begins with or lies in, by the file's own table of contents."""
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
    except (PyPdfError, *_BROKEN):
        return {}  # pages can be cited without it
    return headings


def _outline(entries: Iterable[object], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The paths of headings, each with the number of the object that is its page."""
    from pypdf.generic import Destination, IndirectObject

    last = above
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(entry, last)
        elif isinstance(entry, Destination):
            last = (*above, " ".join(str(entry.title).split()))
            if isinstance(entry.page, IndirectObject):
                yield last, entry.page.idnum


def _title(reader: "PdfReader") -> str:
    from pypdf.errors import PyPdfError

    try:
        title = reader.metadata.title if reader.metadata is not None else None
    except (PyPdfError, *_BROKEN):
        return ""
    text = title if isinstance(title, str) else ""
    for mark in _PRINTED_BY:
        text = text.removeprefix(mark)
    return text
