"""Turns what somebody typed into weighted terms, and ranks the passages that they find."""

import errno
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pixi.core.errors import PixiError
from pixi.text.terms import Analysis, grams, is_corrigible, normalise, pieces, runs, terms_of, word_list

if TYPE_CHECKING:
    import tantivy

# The vocabulary, with which mistakes are corrected.

_LONG = 8
"""Letters from which on a word may hold two mistakes."""

_WORDS_LOOKED_AT = 200
_CANDIDATES = 3
_HEAP = 15_000_000

# The query.

LONGEST = 4_000
"""Characters of a query that are read; the rest of a pasted page would only blur it."""

_WORDS = 64
_GRAMS = 160
"""Terms that are looked up at most: those that the fewest passages hold."""

_PAIRS = 24
"""Pairs of neighbours that are looked for at most."""

_CORRECTED = 24
"""Unknown words that are corrected at most."""

_VARIANT = 0.5
"""Weight of a run of characters that was made of an unknown one by undoing a mistake."""

# Ranking.

_TITLE = 0.3
_GRAM = 0.15
"""Weight of a term in the title, and of a piece of a word, beside a word in the text."""

_NEAR = 0.1
_SLOP = 3
"""Weight of two neighbours of the query that stand at most three words apart."""

_LOOKED_AT = 50
"""Passages, of the best, in which that is looked for."""


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


class Suggestion(Struct, frozen=True):
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
        hits = searcher.search(query, limit=_WORDS_LOOKED_AT, count=False).hits
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


class FrequencyBound(Struct, frozen=True):
    """Bound of the passages that hold a term that is looked up: common ones tell little and cost much.

    Attributes:
        share: of the passages.
        most: passages; where there are so many that the share is more, the smaller share counts.
        least_share: of the passages, that is allowed among any number of them.
    """

    share: float
    most: int
    least_share: float

    def of(self, passages: int) -> float:
        """Return the bound among so many passages; never less than a few."""
        return max(10, min(self.share * passages, self.most), self.least_share * passages)


_COMMON_WORD = FrequencyBound(0.5, 10_000, 0.15)
_COMMON_GRAM = FrequencyBound(0.2, 2_000, 0.01)
_COMMON_PAIR = FrequencyBound(1.0, 1_500, 0.005)
"""Bound of a pair, by its rarer word."""


class ParsedQuery(Struct, frozen=True):
    """A query as the index takes it.

    Attributes:
        words, grams: terms of the two fields, with their weights.
        pairs: words that stand beside each other in the query, with their weights.
        frequencies: of the words, in how many passages each stands.
        read_as: unknown words, and what they were taken for.
        reading: the query with the mistakes corrected.
    """

    words: dict[str, float]
    grams: dict[str, float]
    pairs: dict[tuple[str, str], float]
    frequencies: dict[str, int]
    read_as: tuple[tuple[str, str], ...]
    reading: str


class QueryParser(Struct):
    """Reads one query.

    Attributes:
        passages: how many there are.
        languages: those that documents are in, whose stems a word may have.
        frequency: in how many passages a term of a field ("words", "grams") stands.
    """

    passages: int
    languages: Sequence[str]
    frequency: Callable[[str, str], int]
    vocabulary: WordIndex
    analysis: Analysis
    _words: dict[str, float] = field(default_factory=dict)
    _spelt: dict[str, float] = field(default_factory=dict)
    _order: list[tuple[str, float]] = field(default_factory=list)
    _meant: dict[str, list[Suggestion]] = field(default_factory=dict)

    def parse(self, query: str) -> ParsedQuery:
        """Read it."""
        normal = normalise(query[:LONGEST])
        corrected: list[tuple[int, int, str]] = []
        for kind, piece, start in pieces(normal):
            if kind == "word":
                if right := self._word(piece):
                    corrected.append((start, start + len(piece), right))
            else:
                self._run(kind, piece)
        words = self._few("words", self._words, _COMMON_WORD, _WORDS)
        cut: dict[str, float] = {}
        for word, weight in self._spelt.items():
            for gram in grams(word):
                cut[gram] = cut.get(gram, 0.0) + weight
        return ParsedQuery(
            words={term: weight for term, (weight, _) in words.items()},
            grams={
                term: weight for term, (weight, _) in self._few("grams", cut, _COMMON_GRAM, _GRAMS).items()
            },
            pairs=self._pairs(words),
            frequencies={term: count for term, (_, count) in words.items()},
            read_as=tuple((word, meant[0].word) for word, meant in self._meant.items() if meant),
            reading=_replaced(normal, corrected) if corrected else query[:LONGEST],
        )

    def forms(self, word: str) -> dict[str, int]:
        """Return the terms under which documents may hold a word, and how many passages do."""
        forms = dict.fromkeys(self.analysis.stem(word, language) for language in self.languages or ("",))
        return {form: count for form in forms if (count := self.frequency("words", form))}

    def _word(self, word: str) -> str:
        """Take a word in; returns what it was corrected to."""
        forms = self.forms(word)
        if forms:
            self._add(word, forms, 1.0)
            self._order.append((max(forms, key=forms.__getitem__), 1.0))
            return ""
        self._spelt[word] = self._spelt.get(word, 0.0) + 1.0
        if word not in self._meant:
            if len(self._meant) >= _CORRECTED or not is_corrigible(word) or _is_common(word):
                return ""
            self._meant[word] = self.vocabulary.meant(
                word, lambda other: max(self.forms(other).values(), default=0)
            )
        for meant in self._meant[word]:
            self._add(meant.word, self.forms(meant.word), meant.weight)
        if not self._meant[word]:
            return ""
        likeliest = self._meant[word][0]
        forms = self.forms(likeliest.word)
        self._order.append((max(forms, key=forms.__getitem__), likeliest.weight))
        return likeliest.word

    def _pairs(self, telling: Mapping[str, tuple[float, int]]) -> dict[tuple[str, str], float]:
        """Return neighbours among the telling words, whatever common words stand between them."""
        order = [each for each in self._order if each[0] in telling][:_WORDS]
        common = _COMMON_PAIR.of(self.passages)
        pairs = {
            (first, second): min(weight, other)
            for (first, weight), (second, other) in pairwise(order)
            if first != second and min(telling[first][1], telling[second][1]) <= common
        }
        return dict(islice(pairs.items(), _PAIRS))

    def _add(self, word: str, forms: dict[str, int], weight: float) -> None:
        for form in forms:
            self._count(form, weight)
        self._spelt[word] = self._spelt.get(word, 0.0) + weight

    def _count(self, term: str, weight: float) -> None:
        self._words[term] = self._words.get(term, 0.0) + weight

    def _run(self, kind: str, run: str) -> None:
        """Take in what is written without spaces."""
        for term in terms_of(kind, run):
            self._count(term, 1.0)
        length = 3 if kind == "unspaced" else 2
        if len(run) <= length:
            return
        for at, term in enumerate(runs(run, length)):
            if not self.frequency("words", term):
                for variant in _variants(run, at, length):
                    if variant != term and self.frequency("words", variant):
                        self._count(variant, _VARIANT)

    def _few(
        self, name: str, terms: dict[str, float], common: FrequencyBound, most: int
    ) -> dict[str, tuple[float, int]]:
        """Return the terms that tell something, with weight and frequency; where all are common, those."""
        counted = {term: (weight, self.frequency(name, term)) for term, weight in terms.items()}
        there = {term: each for term, each in counted.items() if each[1]}
        bound = common.of(self.passages)
        telling = {term: each for term, each in there.items() if each[1] <= bound}
        chosen = telling or (there if name == "words" else {})
        if len(chosen) <= most:
            return chosen
        return dict(sorted(chosen.items(), key=lambda item: (item[1][1], item[0]))[:most])


def _is_common(word: str) -> bool:
    """Return True for a word such as `many`: it is no mistake, whether or not a document holds it."""
    return word in word_list("common_words") or word in word_list("function_words")


def _variants(run: str, at: int, length: int) -> set[str]:
    """Return what may have been meant by an unknown run: two characters swapped, or one too many."""
    term = run[at : at + length]
    variants = {term[:i] + term[i + 1] + term[i] + term[i + 2 :] for i in range(length - 1)}
    for start in {at, max(at - 1, 0)}:
        longer = run[start : start + length + 1]
        if len(longer) > length:
            variants |= {longer[:i] + longer[i + 1 :] for i in range(1, length)}
    return variants


def _replaced(text: str, corrections: Sequence[tuple[int, int, str]]) -> str:
    parts, done = [], 0
    for start, end, right in corrections:
        parts += [text[done:start], right]
        done = end
    return "".join((*parts, text[done:]))


class Scored(Struct, frozen=True):
    """A passage with what it is worth to a query. `entry` is the id of the entry that it belongs to."""

    passage: int
    entry: int
    score: float


def ranked(
    searcher: "tantivy.Searcher", schema: "tantivy.Schema", asked: ParsedQuery, limit: int
) -> list[Scored]:
    """Return the best passages by their terms; the first count more where words stand together."""
    from tantivy import Occur, Query

    terms = [
        (
            Occur.Should,
            Query.boost_query(Query.term_query(schema, name, term, "freq"), weight * share),
        )
        for name, found, share in (
            ("words", asked.words, 1.0),
            ("title", asked.words, _TITLE),
            ("grams", asked.grams, _GRAM),
        )
        for term, weight in found.items()
    ]
    if not terms:
        return []
    hits = searcher.search(Query.boolean_query(terms), limit=max(limit, _LOOKED_AT), count=False).hits
    addresses = [address for _, address in hits]
    numbers = [int(number or 0) for number in searcher.fast_field_values("number", addresses)]
    entries = [int(entry or 0) for entry in searcher.fast_field_values("entry", addresses)]
    nearness = _nearness(searcher, schema, asked.pairs, numbers[:_LOOKED_AT])
    scored = [
        Scored(number, entry, float(score) + nearness.get(number, 0.0))
        for number, entry, (score, _) in zip(numbers, entries, hits, strict=True)
    ]
    return sorted(scored, key=lambda each: (-each.score, each.passage))[:limit]


def _nearness(
    searcher: "tantivy.Searcher",
    schema: "tantivy.Schema",
    pairs: Mapping[tuple[str, str], float],
    numbers: Sequence[int],
) -> dict[int, float]:
    """Return what it is worth to some passages that neighbours in the query are near each other in them."""
    from tantivy import Occur, Query

    if not pairs or len(numbers) < 2:
        return {}
    # A set of terms would be looked for among all numbers that there are, which takes longer.
    wanted = [(Occur.Should, Query.term_query(schema, "number", number)) for number in numbers]
    among = Query.const_score_query(Query.boolean_query(wanted), 0.0)
    near = [
        (
            Occur.Should,
            Query.boost_query(Query.phrase_query(schema, "words", list(words), slop=_SLOP), weight * _NEAR),
        )
        for pair, weight in pairs.items()
        for words in (pair, pair[::-1])
    ]
    hits = searcher.search(
        Query.boolean_query([(Occur.Must, among), *near]), limit=len(numbers), count=False
    ).hits
    found = searcher.fast_field_values("number", [address for _, address in hits])
    return {int(number or 0): float(score) for number, (score, _) in zip(found, hits, strict=True)}
