"""The index of a database: passages on disk, found by their words in any language, mistakes forgiven."""

import json
import math
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field

from pixi.knowledge.entry import Entry, Found, Hit, Source
from pixi.knowledge.evidence import Excerpt, Judge, Passage, in_order, passages_of, question_in
from pixi.knowledge.query import (
    IndexDamaged,
    QueryParser,
    Scored,
    WordIndex,
    ranked,
    reading,
    writing,
)
from pixi.text.relevance import Cutter
from pixi.text.terms import Analysis, clean, language_of, normalise, pieces

if TYPE_CHECKING:
    import tantivy

FORMAT = 4
"""Version of the format, and of the analysis that made it: raise it when either changes."""

_HEAP = 64_000_000
"""Bytes that the writer may fill before it writes a part of the index."""

_AT_ONCE = 500
"""Entries whose languages are looked at together."""

_SAMPLE = 2_000
"""Characters of an entry that tell its language."""

_MOST_LANGUAGES = 4
_FEWEST = 0.03
"""A query's words are looked up in the languages of at least this share of the entries."""

_MOST = 2_000
"""Passages that a query brings at most."""

_JUDGED = 8
"""Passages, of the best, of which it is judged whether they surely fit."""

_MET = 200_000
"""Words that are held in memory before the vocabulary learns them."""


class IndexedPassage(Struct, frozen=True):
    """A passage's text. Its number is never given to another, and changes when the entry is replaced."""

    number: int
    entry: int
    text: str


class Candidates(Struct, frozen=True):
    """Candidates for the words of a query.

    Attributes:
        passages: best first.
        read_as: words that no document holds, and what they were taken for.
        reading: the query with these corrected.
        weights: what each term is worth in a snippet.
    """

    passages: tuple[Scored, ...]
    read_as: tuple[tuple[str, str], ...] = ()
    reading: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)


class Index:
    """Made by `open`. One thread at a time may call `change`; everything else, any thread at any time.

    What a search sees is the last commit: a change is seen whole or not at all.

    Attributes:
        entries: how many there are.
    """

    def __init__(self, folder: Path, index: "tantivy.Index", vocabulary: WordIndex, following: int) -> None:
        self._folder = folder
        self._index = index
        self._schema = index.schema
        self._vocabulary = vocabulary
        self._next = following
        self._writer: tantivy.IndexWriter | None = None
        self._writing = Analysis()
        self._threads = threading.local()
        index.config_reader("manual")  # else a thread would look at the folder for ever
        with reading():
            self._count_entries()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Return the index in a folder, made if there is none.

        Raises:
            IndexDamaged: what lies there cannot be used.
            OSError: the folder cannot be made or read.
        """
        if not folder.is_dir() or not any(folder.iterdir()):
            return cls._make(folder)
        try:
            note = json.loads((folder / "format.json").read_bytes())
            written, following = note["format"], int(note["next"])
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            raise IndexDamaged(f"{folder.name}: the folder holds no index") from error
        if written != FORMAT:
            raise IndexDamaged(
                f"{folder.name}: the index is of another version (format {written}, not {FORMAT})"
            )
        import tantivy

        vocabulary = WordIndex.open(folder / "vocabulary")
        with reading():
            index = tantivy.Index.open(str(folder / "passages"))
        return cls(folder, index, vocabulary, following)

    @classmethod
    def _make(cls, folder: Path) -> Self:
        import tantivy

        for part in ("vocabulary", "passages"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        vocabulary = WordIndex.make(folder / "vocabulary")
        builder = tantivy.SchemaBuilder()
        for name in ("number", "entry", "ordinal"):
            builder.add_integer_field(name, indexed=True, fast=True)
        builder.add_text_field("words", tokenizer_name="whitespace", index_option="position")
        for name in ("title", "grams"):
            builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field("language", tokenizer_name="raw", index_option="basic")
        builder.add_bytes_field("stored", stored=True)
        with writing():
            index = tantivy.Index(builder.build(), str(folder / "passages"))
        _note(folder, 1)  # last: a folder without it was never finished
        return cls(folder, index, vocabulary, 1)

    def change(self, add: Iterable[Entry], remove: Iterable[int]) -> None:
        """Put entries in and take others out, in one commit. One whose id is known already is replaced.

        Raises:
            OSError: it cannot be written; nothing has changed.
        """
        written = False
        try:
            with writing():
                writer = self._writer = self._writer or self._index.writer(_HEAP, 1)
                for each in remove:
                    writer.delete_documents_by_term("entry", each)
                self._add(writer, iter(add))
                self._learn()
                _note(self._folder, self._next)
                writer.commit()
                self._index.reload()
            written = True
        finally:
            if not written:
                # What was not committed now must not be with the next commit, nor words be taken for learnt.
                self._writer, self._writing = None, Analysis()
        with reading():
            self._count_entries()

    def candidates(self, query: str, limit: int) -> Candidates:
        """Return the passages that the query's words find, best first.

        Raises:
            IndexDamaged: the files were harmed while they were open.
        """
        with reading():
            searcher = self._index.searcher()
            asked = self._parser(searcher).parse(query)
            passages = ranked(searcher, self._schema, asked, min(limit, _MOST)) if limit > 0 else []
        weights = {
            term: weight * math.log(1 + self._passages / (1 + asked.frequencies[term]))
            for term, weight in asked.words.items()
        }
        return Candidates(tuple(passages), asked.read_as, asked.reading, weights)

    def hits(self, query: Candidates, scored: Sequence[Scored], limit: int) -> Found:
        """Return the best passage of each entry, best entry first, with snippets.

        Args:
            scored: passages in any order; those that are gone by now are passed over.
        """
        best: dict[int, Scored] = {}
        for each in sorted(scored, key=lambda each: (-each.score, each.passage)):
            best.setdefault(each.entry, each)
        with reading():
            searcher = self._index.searcher()
            cutter = Cutter(query.weights, self._analysis(), self._languages)
            shown = (self._hit(searcher, cutter, each) for each in best.values())
            return Found(tuple(islice(filter(None, shown), max(limit, 0))), query.read_as)

    def search(self, query: str, limit: int) -> Found:
        """Return the entries that a query's words find, best first."""
        wanted = max(50, limit * 5)
        found = self.candidates(query, wanted)
        # Where long entries take all places, more passages are looked at.
        while len({each.entry for each in found.passages}) < limit and wanted < _MOST:
            if len(found.passages) < wanted:
                break
            wanted *= 4
            found = self.candidates(query, wanted)
        return self.hits(found, found.passages, limit)

    def sure(self, text: str, limit: int) -> list[Excerpt]:
        """Return what passages surely say on what a message asks, those that cover most first.

        Raises:
            IndexDamaged: the files were harmed while they were open.
        """
        with reading():
            searcher = self._index.searcher()
            question = question_in(text, self._parser(searcher))
            if question is None:
                return []
            asked = self._parser(searcher).parse(text)
            judge = Judge(question, self._analysis(), self._languages)
            found: list[Excerpt] = []
            for each in ranked(searcher, self._schema, asked, _JUDGED):
                passage = self._stored_passage(searcher, each)
                if passage and (excerpt := judge.excerpt(passage)):
                    found.append(excerpt)
        return in_order(found)[:limit]

    def passages(self, entries: Iterable[int]) -> Iterator[IndexedPassage]:
        """Yield the passages of entries, in no order. An id that is not known has none."""
        from tantivy import Query

        with reading():
            searcher = self._index.searcher()
            for entry in entries:
                query = Query.term_query(self._schema, "entry", entry)
                most = max(1, _count(searcher, query))
                addresses = [address for _, address in searcher.search(query, limit=most, count=False).hits]
                numbers = searcher.fast_field_values("number", addresses)
                for number, address in zip(numbers, addresses, strict=True):
                    yield IndexedPassage(int(number or 0), entry, _stored(searcher.doc(address), entry).text)

    def close(self) -> None:
        """Let another process write. Calling it twice does no harm."""
        self._writer = None
        self._vocabulary.close()

    def _count_entries(self) -> None:
        from tantivy import Query

        searcher = self._index.searcher()
        self._passages = searcher.num_docs
        first = Query.term_query(self._schema, "ordinal", 0)
        self.entries = _count(searcher, first)
        counted = Counter(dict(searcher.terms_with_prefix("language", "")))
        least = max(1, sum(counted.values()) * _FEWEST)
        common = counted.most_common(_MOST_LANGUAGES)
        self._languages = tuple("" if name == "none" else name for name, count in common if count >= least)

    def _parser(self, searcher: "tantivy.Searcher") -> QueryParser:
        known: dict[tuple[str, str], int] = {}

        def frequency(name: str, term: str) -> int:
            count = known.get((name, term))
            if count is None:
                count = known[name, term] = searcher.doc_freq(name, term)
            return count

        return QueryParser(self._passages, self._languages, frequency, self._vocabulary, self._analysis())

    def _analysis(self) -> Analysis:
        """Return the analysis of this thread."""
        analysis = getattr(self._threads, "analysis", None)
        if not isinstance(analysis, Analysis):
            analysis = self._threads.analysis = Analysis()
        return analysis

    def _hit(self, searcher: "tantivy.Searcher", cutter: Cutter, each: Scored) -> Hit | None:
        passage = self._stored_passage(searcher, each)
        return Hit(passage.source, cutter.snippet(passage.text), each.score) if passage else None

    def _stored_passage(self, searcher: "tantivy.Searcher", each: Scored) -> Passage | None:
        """Return the passage, without its headings; None where it is gone by now."""
        from tantivy import Query

        query = Query.term_query(self._schema, "number", each.passage)
        found = searcher.search(query, limit=1, count=False).hits
        return _stored(searcher.doc(found[0][1]), each.entry) if found else None

    def _add(self, writer: "tantivy.IndexWriter", entries: Iterator[Entry]) -> None:
        while some := list(islice(entries, _AT_ONCE)):
            samples = [_sample(entry) for entry in some]
            spoken = [language_of(words) for words in samples]
            usual = self._usual(samples, spoken)
            for entry, language in zip(some, spoken, strict=True):
                writer.delete_documents_by_term("entry", entry.id)
                self._add_one(writer, entry, usual if language is None else language)
                if len(self._writing.met) > _MET:
                    self._learn()

    def _usual(self, samples: Sequence[Sequence[str]], spoken: Sequence[str | None]) -> str:
        """Return the language of entries too short to tell theirs."""
        if self._languages:
            return self._languages[0]
        known = Counter(language for language in spoken if language is not None)
        return known.most_common(1)[0][0] if known else language_of(chain.from_iterable(samples)) or ""

    def _add_one(self, writer: "tantivy.IndexWriter", entry: Entry, language: str) -> None:
        import tantivy

        named = list(pieces(normalise(entry.title)))
        for ordinal, passage in enumerate(passages_of(entry)):
            headings = [list(pieces(normalise(each))) for each in passage.headings]
            # What stands above the first words is what the passage is about; what comes later is said in it.
            above = [*named, *chain.from_iterable(headings[:1])]
            body = self._writing.terms(
                [*named, *chain.from_iterable(headings), *pieces(normalise(passage.text))], language
            )
            document = tantivy.Document()
            document.add_integer("number", self._next)
            document.add_integer("entry", entry.id)
            document.add_integer("ordinal", ordinal)
            document.add_text("words", body.words)
            document.add_text("title", self._writing.terms(above, language).words)
            document.add_text("grams", body.grams)
            if ordinal == 0:
                document.add_text("language", language or "none")
            document.add_bytes("stored", _pack(passage))
            writer.add_document(document)
            self._next += 1

    def _learn(self) -> None:
        met, self._writing.met = self._writing.met, set()
        self._vocabulary.add(sorted(met))


def _sample(entry: Entry) -> list[str]:
    """Return the words at its beginning, which tell its language."""
    parts: list[str] = []
    room = _SAMPLE
    for section in entry.sections:
        parts.append(section.text[:room])
        room -= len(parts[-1])
        if room <= 0:
            break
    return [piece for kind, piece, _ in pieces(normalise(" ".join(parts))) if kind == "word"]


def _count(searcher: "tantivy.Searcher", query: "tantivy.Query") -> int:
    """Return how many passages match."""
    found: Any = searcher.search(query, limit=1)  # the library's stubs leave the field out
    count: int | None = found.count
    return count or 0


def _pack(passage: Passage) -> bytes:
    parts = [(clean(text), clean(source.section), source.line, source.page) for text, source in passage.parts]
    told = (clean(passage.source.title), clean(passage.source.path), parts)
    return json.dumps(told, ensure_ascii=False).encode()


def _stored(document: "tantivy.Document", entry: int) -> Passage:
    """Return what `_pack` was given, without the headings above all of it."""
    title, path, parts = json.loads(document.get_first("stored") or b"")
    return Passage(tuple((text, Source(entry, title, path, *place)) for text, *place in parts))


def _note(folder: Path, following: int) -> None:
    """Write the version, and the first number that no passage ever had."""
    new = folder / "format.json.new"
    new.write_text(json.dumps({"format": FORMAT, "next": following}), encoding="utf-8")
    os.replace(new, folder / "format.json")
