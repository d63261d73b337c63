"""The vectors of a database's passages: made once for each text, held in memory, joined with words."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from pixi.core.errors import ConfigError, ModelError, Reporter
from pixi.core.untrusted import display_line
from pixi.knowledge.catalogue import CatalogueDamaged
from pixi.knowledge.entry import Found
from pixi.knowledge.index import Candidates, Index, IndexedPassage
from pixi.knowledge.index_store import IndexStore, Snapshot, Threads
from pixi.knowledge.query import IndexDamaged, Scored
from pixi.knowledge.self_test import Cloze, clozes, is_good, script_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pixi.models.embeddings import OpenAIEmbeddings

    Numbers = NDArray[np.int64]
    Halves = NDArray[np.float16]
    Floats = NDArray[np.float32]

_log = logging.getLogger("pixi.knowledge")


WEIGHT = 0.35
"""Weight of meaning, beside words."""

POOL = 200
"""Passages that meaning alone brings at most."""

_BLOCK = 8_192  # vectors that are widened together


class VectorSet(Struct, frozen=True):
    """Vectors of length 1 by their passages' numbers, which rise. There is at least one."""

    numbers: "Numbers"
    entries: "Numbers"
    vectors: "Halves"


def joined(held: VectorSet, words: Sequence[Scored], vector: "Floats") -> list[Scored]:
    """Return the passages that words or meaning bring, by a weighted sum of both scores, from 0 to 1.

    The best by words has 1 for words; the nearest in meaning has 1 for meaning, and one as near as passages
    are on the average has 0. Of a passage without a vector words say it all.
    """
    import numpy as np

    near = np.concatenate(
        [
            held.vectors[at : at + _BLOCK].astype(np.float32) @ vector
            for at in range(0, len(held.vectors), _BLOCK)
        ]
    )
    usual, best = float(near.mean()), float(near.max())
    meaning = np.clip((near - usual) / max(best - usual, 1e-6), 0.0, 1.0)
    nearest = np.argpartition(-meaning, min(POOL, len(meaning)) - 1)[:POOL]
    most = max((each.score for each in words), default=0.0) or 1.0
    share = {each.passage: each.score / most for each in words}
    scored: list[Scored] = []
    wanted = np.array([each.passage for each in words], np.int64)
    rows = np.searchsorted(held.numbers, wanted).clip(max=len(held.numbers) - 1)
    for each, row in zip(words, rows.tolist(), strict=True):
        by_words = share[each.passage]
        has_vector = int(held.numbers[row]) == each.passage
        by_meaning = float(meaning[row]) if has_vector else by_words
        scored.append(Scored(each.passage, each.entry, (1 - WEIGHT) * by_words + WEIGHT * by_meaning))
    for row in nearest.tolist():
        number = int(held.numbers[row])
        if number not in share:
            scored.append(Scored(number, int(held.entries[row]), WEIGHT * float(meaning[row])))
    return scored


T = TypeVar("T")

QUERY_SECONDS = 2.0
"""Longest wait of a search for the vector of its query; then words must do."""

_QUIET_SECONDS = 30.0  # after a query's vector did not come, for so long none is asked for
_LONGEST_QUERY = 2_000  # characters
_ENTRIES_AT_ONCE = 512
_MOST_BYTES = 512 * 1024 * 1024  # of vectors in memory
_COVERED = 0.9  # of the entries, that must have vectors for these to count
_GROWN = 1.5  # times as many passages as there were when a model was tried: it is tried again
_SAMPLE = 400  # entries of which passages are tried
_AGAIN = 5.0
_AGAIN_AT_MOST = 600.0
"""Seconds before what could not be embedded is tried again: doubling."""

_STALE = 3  # times as many vectors on disk as there are passages: those of no passage go


class Vectors:
    """Vectors of the passages of one database, by a model of meanings. For one event loop.

    Args:
        store: what they follow; their file lies beside its catalogue.
        embedder: the model; whoever opened it closes it.
        threads: wait for no writing.
        name: of the database, for the log.
        progress: is told how far embedding is, in a line for people.

    Attributes:
        trouble: why some passages have no vectors, for the operator; "" where all have, or will.
    """

    def __init__(
        self,
        store: IndexStore,
        embedder: "OpenAIEmbeddings",
        threads: Threads,
        *,
        name: str,
        progress: Reporter,
    ) -> None:
        import numpy as np

        self._np = np
        self._store = store
        self._embedder = embedder
        self._threads = threads
        self._name = display_line(name)
        self._progress = progress
        self._thread = Threads(1, thread_name_prefix=f"vectors {name}")
        self._file: VectorFile | None = None  # opened when it is first wanted
        self._changed = asyncio.Event()  # the documents may have
        self._caught_up = asyncio.Event()
        self._index: Index | None = None  # whose passages are held
        self._known: dict[int, str] = {}  # the digests of the entries that are held
        self._share = 0.0  # of the entries
        self._too_large = False  # for memory: no vectors are held any longer
        self._held: VectorSet | None = None
        self._good: dict[str, tuple[int, bool]] = {}  # see `VectorFile.measured`
        self._quiet_until = 0.0  # on the loop's clock: until then no query is embedded
        self._told: set[str] = set()  # kinds of trouble that the log was told of
        self.trouble = ""

    # Following the documents.

    def look(self) -> None:
        """Follow the documents again: they may have changed."""
        self._caught_up.clear()
        self._changed.set()

    async def caught_up(self) -> None:
        """Return when all that changed has its vectors, or could not have them now."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Follow, without end."""
        seen: Snapshot | None = None
        whole, pause = True, _AGAIN
        while True:
            self._changed.clear()
            kept = self._store.snapshot
            if kept.index is not None and (kept is not seen or not whole):
                whole, seen = await self._follow(kept.index), kept
                pause = _AGAIN if whole else min(2 * pause, _AGAIN_AT_MOST)
            if not self._changed.is_set():
                self._caught_up.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if whole else pause):
                    await self._changed.wait()

    async def _follow(self, index: Index) -> bool:
        """Hold the vectors of what the index holds now; False where some could not be had yet."""
        try:
            with self._store.asking(index):
                whole = await self._take_in(index, await self._threads.run(self._store.digests))
            self.trouble = ""
            return whole
        except ModelError as error:
            self.trouble = f"passages of {self._name} could not be embedded, words find them: {error}"
            self._tell_once("embed", self.trouble)
        except sqlite3.Error as error:
            self.trouble = f"the vectors of {self._name} could not be kept ({error}); words must do."
            self._tell_once("file", self.trouble)
        except (IndexDamaged, CatalogueDamaged, ConfigError):
            pass  # all are told of, and mended, by those who read the documents
        return False

    async def _take_in(self, index: Index, contents: Mapping[int, str]) -> bool:
        """Embed what is new, and hold its vectors; False where some could not be had yet.

        A cancelled call loses one batch at most.

        Args:
            contents: the digest of each entry, by its id.
        """
        if self._too_large:
            return True
        if index is not self._index:
            self._index, self._known, self._held = index, {}, None
        if not self._good:
            self._good = (await self._on_file(VectorFile.measured, self._embedder.name)) or {}
        if gone := [each for each in self._known if each not in contents]:
            self._known = {each: self._known[each] for each in self._known if each in contents}
            await self._thread.run(self._take, gone, (), self._np.zeros((0, 0), self._np.float16))
        changed = iter([each for each, digest in contents.items() if self._known.get(each) != digest])
        whole, done = True, 0
        while some := list(islice(changed, _ENTRIES_AT_ONCE)):
            passages = await self._thread.run(lambda: list(index.passages(some)))
            vectors = await self._vectors_of([each.text for each in passages])
            if vectors is None:
                whole = False
                continue
            if not self._has_room(len(passages)):
                self._held, self._share = None, 0.0
                return True
            await self._thread.run(self._take, some, passages, vectors)
            self._known |= {each: contents[each] for each in some}
            done += len(passages)
            self._progress(f"embedding {self._name}: {done:,} passages")
            self._share = len(self._known) / max(len(contents), 1)
        self._share = len(self._known) / max(len(contents), 1)
        if whole:
            self._told.discard("embed")
            if self._store.writes:
                await self._try_out(index, contents)
                await self._tidy(index, contents)
        return whole

    async def _vectors_of(self, texts: Sequence[str]) -> "Halves | None":
        """Return vectors from the file or the model; None where another process is to ask for some."""
        np, model = self._np, self._embedder.name
        digests = [_digest(text) for text in texts]
        kept = await self._on_file(VectorFile.get, model, digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in kept}
        if missing:
            if not self._store.writes:
                return None
            made = await self._embedder.embed(list(missing.values()))
            packed = await self._thread.run(lambda: [row.tobytes() for row in np.array(made, dtype="<f2")])
            fresh = dict(zip(missing, packed, strict=True))
            await self._on_file(VectorFile.put, model, fresh)
            kept |= fresh
        if not texts:
            nothing: Halves = np.zeros((0, 0), np.float16)
            return nothing
        rows = [np.frombuffer(kept[digest], "<f2") for digest in digests]
        if len({len(row) for row in rows}) > 1:
            raise ModelError(f"{model} gives vectors of different dimensions: name it anew.", permanent=True)
        found: Halves = np.stack(rows).astype(np.float16)
        return found

    def _take(self, entries: Sequence[int], passages: Sequence[IndexedPassage], vectors: "Halves") -> None:
        """Hold these vectors, in place of those that were held of the entries."""
        np, held = self._np, self._held
        if held is None and not passages:
            return
        numbers = np.array([each.number for each in passages], np.int64)
        owners = np.array([each.entry for each in passages], np.int64)
        if held is not None and len(held.numbers):
            keep = ~np.isin(held.entries, np.array(entries, np.int64))
            if len(vectors) and vectors.shape[1] != held.vectors.shape[1]:
                raise ModelError(f"{self._embedder.name} gives vectors of other dimensions than before.")
            numbers = np.concatenate((held.numbers[keep], numbers))
            owners = np.concatenate((held.entries[keep], owners))
            vectors = np.concatenate((held.vectors[keep], vectors)) if len(vectors) else held.vectors[keep]
        order = np.argsort(numbers, kind="stable")
        self._held = VectorSet(numbers[order], owners[order], vectors[order])

    def _has_room(self, more: int) -> bool:
        held = self._held
        if held is None or held.vectors.nbytes + more * held.vectors.shape[1] * 2 <= _MOST_BYTES:
            return True
        self._too_large = True
        _log.warning("%s has too many passages for vectors to be held; words find them.", self._name)
        return False

    async def _try_out(self, index: Index, contents: Mapping[int, str]) -> None:
        """See in which scripts the model can be trusted with these passages."""
        count = 0 if self._held is None else len(self._held.numbers)
        before = max((passages for passages, _ in self._good.values()), default=0)
        if self._good and count <= max(before, 1) * _GROWN:
            return
        # Spread over the database, and the same ones each time.
        sample = sorted(contents, key=lambda each: contents[each])[:_SAMPLE]
        tried = await self._thread.run(lambda: clozes(each.text for each in index.passages(sample)))
        good: dict[str, bool] = {"": False}
        for script in dict.fromkeys(cloze.script for cloze in tried):
            good[script] = await self._knows([cloze for cloze in tried if cloze.script == script])
        doubted = [script for script, is_fine in good.items() if script and not is_fine]
        if doubted:
            names = ", ".join(doubted).lower()
            _log.info("%s: the embedding model does not know what is written there in %s", self._name, names)
        await self._on_file(VectorFile.note_measured, self._embedder.name, count, good)
        self._good = {script: (count, is_fine) for script, is_fine in good.items()}

    async def _knows(self, tried: Sequence[Cloze]) -> bool:
        np = self._np
        made = await self._embedder.embed(
            [*(each.sentence for each in tried), *(each.rest for each in tried)]
        )

        def judge() -> bool:
            vectors = np.array(made, np.float32)
            near = vectors[: len(tried)] @ vectors[len(tried) :].T
            return is_good(near.tolist(), tried)

        return await self._thread.run(judge)

    async def _tidy(self, index: Index, contents: Mapping[int, str]) -> None:
        """Drop what belongs to no passage, once it is most of the file."""
        count = 0 if self._held is None else len(self._held.numbers)
        if await self._on_file(VectorFile.count) > _STALE * max(count, _ENTRIES_AT_ONCE):
            live = await self._thread.run(lambda: [_digest(each.text) for each in index.passages(contents)])
            await self._on_file(VectorFile.keep_only, self._embedder.name, live)

    # Finding.

    async def search(self, index: Index, query: str, limit: int) -> Found | None:
        """Find by words and meaning; None where words must do: see `trusts`."""
        if index is not self._index or not self.trusts(query):
            return None
        found = await asyncio.to_thread(index.candidates, query, max(POOL, limit * 5))
        vector = await self._vector(found.reading)
        held = self._held
        if vector is None or held is None:
            return None
        return await asyncio.to_thread(self._joined, index, held, found, vector, limit)

    def trusts(self, query: str) -> bool:
        """Return True if meaning counts: most entries have vectors, the model knows the query's script."""
        _, good = self._good.get(script_of(query), (0, False))
        held = self._held
        return good and held is not None and len(held.numbers) > 0 and self._share >= _COVERED

    async def _vector(self, query: str) -> Sequence[float] | None:
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until:
            return None
        try:
            async with asyncio.timeout(QUERY_SECONDS):
                (vector,) = await self._embedder.embed([query[:_LONGEST_QUERY]])
        except TimeoutError:
            why = f"its vector did not come within {QUERY_SECONDS:g} s"
        except ModelError as error:
            why = str(error)
        else:
            self._told.discard("query")
            return vector
        self._quiet_until = now + _QUIET_SECONDS
        self._tell_once("query", f"a query of {self._name} is answered by words alone: {why}")
        return None

    def _joined(
        self, index: Index, held: VectorSet, found: Candidates, vector: Sequence[float], limit: int
    ) -> Found:
        scored: Sequence[Scored] = found.passages
        if len(vector) == held.vectors.shape[1]:
            scored = joined(held, scored, self._np.array(vector, self._np.float32))
        return index.hits(found, scored, limit)

    async def close(self) -> None:
        """Let go of the file. Calling it twice does no harm."""

        def close() -> None:
            if self._file is not None:
                self._file.close()
                self._file = None

        try:
            await self._thread.run(close)
        except RuntimeError:
            return  # the thread has ended: it was closed before
        await asyncio.to_thread(self._thread.shutdown)

    async def _on_file(self, method: Callable[..., T], *arguments: object) -> T:
        def run() -> T:
            if self._file is None:
                self._file = VectorFile.open(self._store.path.with_name("vectors.db"))
            return method(self._file, *arguments)

        return await self._thread.run(run)

    def _tell_once(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            _log.warning("%s", text)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_FILE_VERSION = 1
_DIGESTS_AT_ONCE = 500

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (model, digest)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measured (model TEXT NOT NULL, script TEXT NOT NULL, passages INT NOT NULL,
    good INT NOT NULL, PRIMARY KEY (model, script)) WITHOUT ROWID;
"""


class VectorFile:
    """The file, which can be deleted at any time: it is made again, at the price of embedding again.

    Several processes may use it at once. Every method raises `sqlite3.Error` where the disk fails.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def open(cls, path: Path) -> "VectorFile":
        """Open it, made if it is missing, and made anew if it is broken or of another version."""
        try:
            return cls(_opened(path))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk: nothing is wrong with it
                raise
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)
            return cls(_opened(path))

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that there are, by digest."""
        found: dict[bytes, bytes] = {}
        for at in range(0, len(digests), _DIGESTS_AT_ONCE):
            some = digests[at : at + _DIGESTS_AT_ONCE]
            marks = ", ".join("?" * len(some))
            found |= self._db.execute(
                f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})", (model, *some)
            )
        return found

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors by digest."""
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO vectors (model, digest, vector) VALUES (?, ?, ?)",
                [(model, digest, vector) for digest, vector in vectors.items()],
            )

    def count(self) -> int:
        """Return how many vectors there are, of all models."""
        return int(self._db.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def keep_only(self, model: str, digests: Iterable[bytes]) -> None:
        """Drop all vectors but these."""
        with self._db:
            self._db.execute("CREATE TEMP TABLE live (digest BLOB PRIMARY KEY) WITHOUT ROWID")
            self._db.executemany("INSERT OR IGNORE INTO live VALUES (?)", ((each,) for each in digests))
            self._db.execute(
                "DELETE FROM vectors WHERE model <> ? OR digest NOT IN (SELECT digest FROM live)", (model,)
            )
            self._db.execute("DROP TABLE live")

    def measured(self, model: str) -> dict[str, tuple[int, bool]]:
        """Return, by script, how many passages there were when the model was tried, and if it is good."""
        rows = self._db.execute("SELECT script, passages, good FROM measured WHERE model = ?", (model,))
        return {script: (passages, bool(good)) for script, passages, good in rows}

    def note_measured(self, model: str, passages: int, good: Mapping[str, bool]) -> None:
        """Keep what came of trying it, in place of what was kept."""
        with self._db:
            self._db.execute("DELETE FROM measured WHERE model = ?", (model,))
            self._db.executemany(
                "INSERT INTO measured (model, script, passages, good) VALUES (?, ?, ?, ?)",
                [(model, script, passages, is_good) for script, is_good in good.items()],
            )

    def close(self) -> None:
        """Close it. Calling it twice does no harm."""
        self._db.close()


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _FILE_VERSION):
            raise sqlite3.DatabaseError("the vectors are of another version")
        if not version:  # another process may make the tables at the same moment
            connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_FILE_VERSION}; COMMIT;"
            )
    except BaseException:
        connection.close()
        raise
    return connection
