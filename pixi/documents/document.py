"""What a reader makes of a file: a document of sections, each with its place in the file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a document, in reading order.

    Attributes:
        text: as it stands in the file, with its line breaks where `line` is told.
        heading: the headings above it, outermost first, joined by ` › `; "" where there are none.
        line: the number, from 1, of the file's line on which `text` begins; 0: lines mean nothing there.
        page: the page, from 1; 0: there are no pages.
        on_one_line: all of `text` stands on `line`, and its line breaks are not the file's: a record of JSON
            Lines, a row of a table.
    """

    text: str
    heading: str = ""
    line: int = 0
    page: int = 0
    on_one_line: bool = False

    def line_at(self, position: int) -> int:
        """Return on which line of the file the character at `position` of `text` stands; 0: not known."""
        if not self.line or self.on_one_line:
            return self.line
        return self.line + self.text.count("\n", 0, position)


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader makes of a file, or of one record of it.

    Attributes:
        key: names the record within its file, unchanged by edits elsewhere in it; "" where the file is one
            document.
        title: for people, one line; "" where the file tells none.
        sections: in reading order.
    """

    key: str
    title: str
    sections: tuple[Section, ...]
