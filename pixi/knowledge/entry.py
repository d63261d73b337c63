"""What a database holds: entries made of sections, each with its place in the file it came from."""

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


@dataclass(frozen=True, slots=True)
class Entry:
    """A document in a database.

    Attributes:
        id: by which it is asked for; stays the same across restarts and edits.
        path: of its file, within the folder, with `/` between the parts.
        key: see `Document`.
        title: never empty: the file's name where the file tells none.
        digest: of its content, in hex: the same as long as title and sections are.
    """

    id: int
    path: str
    key: str
    title: str
    sections: tuple[Section, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where something stands: what a person needs to find it again.

    Attributes:
        entry: its id.
        title: of the entry.
        path: of its file within the folder.
        section: the headings above; "" where there are none.
        line: from 1; 0: not known.
        page: from 1; 0: not known.
    """

    entry: int
    title: str
    path: str
    section: str = ""
    line: int = 0
    page: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that a search found.

    Attributes:
        source: the entry, and where in it the best passage begins.
        snippet: the stretch of that passage which says most about the query, on one line.
        score: higher is better; comparable within one search alone.
    """

    source: Source
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes:
        hits: best first, one for each entry.
        read_as: words of the query that no document holds, and what they were taken for.
    """

    hits: tuple[Hit, ...]
    read_as: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that was set aside. `reason` is one line for people: what is wrong and what mends it."""

    path: str
    reason: str
