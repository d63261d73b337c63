"""Entries of a database, made of sections, each with its place in the file it came from."""

from msgspec import Struct

from pixi.documents.files import Section


class Entry(Struct, frozen=True):
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


class Source(Struct, frozen=True):
    """The place of a text: what a person needs to find it again.

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


class Hit(Struct, frozen=True):
    """An entry that a search found.

    Attributes:
        source: the entry, and where in it the best passage begins.
        snippet: the stretch of that passage which says most about the query, on one line.
        score: higher is better; comparable within one search alone.
    """

    source: Source
    snippet: str
    score: float


class Found(Struct, frozen=True):
    """The result of a search.

    Attributes:
        hits: best first, one for each entry.
        read_as: words of the query that no document holds, and what they were taken for.
    """

    hits: tuple[Hit, ...]
    read_as: tuple[tuple[str, str], ...] = ()


class Fault(Struct, frozen=True):
    """A file that was set aside. `reason` is one line for people: what is wrong and what mends it."""

    path: str
    reason: str
