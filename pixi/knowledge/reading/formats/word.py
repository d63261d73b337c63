"""Word documents: paragraphs below headings, and tables, in the order of the page."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.archives import check_unpacked, opened
from pixi.knowledge.reading.formats.outline import Heading, outlined
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.table import Table
    from docx.text.paragraph import Paragraph

_BETWEEN_CELLS = " | "
_DEEPEST_TABLE = 5


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The text, as one document.

    Raises:
        SetAside: it is broken, or unpacks to too much.
    """
    del tell
    try:
        import docx
        from docx.opc.exceptions import OpcError
    except ImportError:
        raise SetAside("needs a library to read it; install pixi-persona[docs]") from None
    with opened(original.file, "Word document") as archive:
        check_unpacked(archive, original.limits)
    original.file.seek(0)
    try:
        return (_document(docx.Document(original.file)),)
    except (OpcError, SyntaxError, KeyError, ValueError):
        raise SetAside("is broken, or no Word document; save it anew") from None


def _document(word: "WordDocument") -> Document:
    from docx.table import Table

    levels = _levels(word)
    lines: list[str] = []
    headings: list[Heading] = []
    title = ""
    for part in word.iter_inner_content():
        if isinstance(part, Table):
            lines.extend(("", *_rows(part), ""))
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
    """The level of heading that each style stands for; 0: the document's title."""
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


def _rows(table: "Table", depth: int = 1) -> Iterator[str]:
    """Every row on a line."""
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
            yield from _rows(part, depth + 1)
