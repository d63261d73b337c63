"""The words that documents hold, on disk, and those among them that an unknown word was meant for."""

import errno
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.core.errors import PixiError
from pixi.text.terms import is_corrigible

if TYPE_CHECKING:
    import tantivy


class IndexDamaged(PixiError):
    """The folder holds no index that can be used: broken, of another make, or of another version of Pixi.

    Delete the folder and build the index again; nothing is lost by it.
    """


@contextmanager
def reading() -> Iterator[None]:
    """Turn what the search library raises over broken files into `IndexDamaged`."""
    try:
        yield
    except BaseException as error:
        if _is_of_the_library(error):
            raise IndexDamaged(f"the index cannot be read ({_brief(error)})") from error
        raise


@contextmanager
def writing() -> Iterator[None]:
    """Turn what the search library raises while it writes into an `OSError`."""
    try:
        yield
    except BaseException as error:
        if _is_of_the_library(error):
            raise OSError(errno.EIO, f"the index cannot be written: {_brief(error)}") from error
        raise


def _is_of_the_library(error: BaseException) -> bool:
    """Return True for what the search library raises: ValueError for everything.

    Over files that were tampered with, its Rust code may panic: that derives from BaseException, and cannot
    be imported.
    """
    return isinstance(error, ValueError) or type(error).__name__ == "PanicException"


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


_LONG = 8
"""From so many letters on a word may hold two mistakes."""

_LOOKED_AT = 200
_CANDIDATES = 3
_HEAP = 15_000_000


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A word that may have been meant.

    Attributes:
        word: as documents hold it, normalised.
        weight: 0 to 1: how near it is, and how frequent among those as near.
    """

    word: str
    weight: float


class WordIndex:
    """An index whose documents are words: an automaton finds those near to another among any number.

    Words are added and stay: those that no document holds any longer have no frequency, and are passed over.
    """

    def __init__(self, index: "tantivy.Index") -> None:
        self._index = index
        self._schema = index.schema
        self._writer: tantivy.IndexWriter | None = None
        index.config_reader("manual")

    @classmethod
    def make(cls, folder: Path) -> "WordIndex":
        """Return an empty one in an empty folder."""
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("word", stored=True, tokenizer_name="raw", index_option="basic")
        with writing():
            return cls(tantivy.Index(builder.build(), str(folder)))

    @classmethod
    def open(cls, folder: Path) -> "WordIndex":
        """Return one that is there.

        Raises:
            IndexDamaged: it cannot be read.
        """
        import tantivy

        with reading():
            return cls(tantivy.Index.open(str(folder)))

    def add(self, words: Iterable[str]) -> None:
        """Learn words. They are on disk when this returns.

        Raises:
            OSError: they cannot be written.
        """
        import tantivy

        searcher = self._index.searcher()
        new = [word for word in words if not searcher.doc_freq("word", word)]
        if not new:
            return
        with writing():
            writer = self._writer = self._writer or self._index.writer(_HEAP, 1)
            for word in new:
                document = tantivy.Document()
                document.add_text("word", word)
                writer.add_document(document)
            writer.commit()
            self._index.reload()

    def meant(self, word: str, frequency: Callable[[str], int]) -> list[Suggestion]:
        """Return what an unknown word may have been meant for, the likeliest first.

        Args:
            frequency: in how many passages a word stands, 0 for none.
        """
        if not is_corrigible(word):
            return []
        for distance in range(1, 3 if len(word) >= _LONG else 2):
            # Two mistakes are thought of only where one explains nothing.
            if found := self._near(word, distance, frequency):
                return found
        return []

    def _near(self, word: str, distance: int, frequency: Callable[[str], int]) -> list[Suggestion]:
        from rapidfuzz.distance import OSA
        from tantivy import Query

        searcher = self._index.searcher()
        query = Query.fuzzy_term_query(self._schema, "word", word, distance=distance)
        hits = searcher.search(query, limit=_LOOKED_AT, count=False).hits
        near = {str(searcher.doc(address).get_first("word")) for _, address in hits}
        # Who types another number means another thing: p53 is not p63, but MD5A may be MDA5.
        number = _digits(word)
        alike = (other for other in near if _digits(other) == number)
        frequencies = {other: count for other in alike if (count := frequency(other))}
        total = sum(frequencies.values())
        likely = [
            Suggestion(other, (1 - OSA.distance(word, other) / len(word)) * math.sqrt(count / total))
            for other, count in frequencies.items()
        ]
        return sorted(likely, key=lambda meant: (-meant.weight, meant.word))[:_CANDIDATES]

    def close(self) -> None:
        """Let go of the lock."""
        self._writer = None


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))
