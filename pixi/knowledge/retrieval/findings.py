"""Findings of a helper model: its numbered answer read, and the quoted sentences kept on disk."""

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pixi.knowledge.entry import Entry, Source

NOT_THERE = "not in these documents"
"""Said only where a helper model has read all of them."""
NOT_IN_WHAT_WAS_READ = "not in what was read"
"""The same, where it has read a part of them."""
_MOST = 10_000  # answers; one takes some hundred bytes
_BUSY_SECONDS = 1.0  # to wait for another program that writes
_CLEAR = 500  # answers that are thrown away at once when there are too many
_TABLE = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, body TEXT NOT NULL, used INTEGER NOT NULL)"
)
_USED = "(SELECT coalesce(max(used), 0) + 1 FROM answers)"
LONGEST_REPLY = 64_000
"""Characters of a reply that are read."""
ALIKE = 90.0
"""Likeness of a quotation to the sentence that it stands for, of 100. The sentence comes back."""
_MOST_ITEMS = 100
_LONGEST_RANGE = 50  # sentences
_SHORT = 24  # characters of a quotation: the words of a shorter one may stand in any sentence
_UNPARTED = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uf900-\ufaff]")
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)  # the prompt began them
_FLAG = re.compile(r"answerable[\"'”`]?\s*[:=]\s*[\"'“`]?(true|false|yes|no)\b", re.IGNORECASE)
_SENTENCES = re.compile(r"sentences?[\"'”`]?\s*[:=]", re.IGNORECASE)
_BARE = re.compile(r"(?:```\w*)?\s*[\[{][\[{\s\d\"']")
_TOKEN = re.compile(
    r"(?P<open>[\[{])|(?P<close>[\]}])"
    r"|(?P<key>\"\w+\"|'\w+'|“\w+”|\w+)\s*:"
    r"|\"(?P<double>(?:[^\"\\]|\\.)*)\"|“(?P<curly>[^”]*)”|'(?P<single>.*?)'(?=\s*(?:[,\]}]|$))"
    r"|(?P<first>\d+)\s*(?:-|–|—|\.\.+|to)\s*(?P<last>\d+)|(?<![\d.])(?P<number>-?\d+)(?:\.0+)?(?!\d|\.\d)",
    re.DOTALL,
)
_COUNTING = re.compile(r"(?:sentences?|lines?|numbers?|nos?|and|to|[\W\d_])+", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\[\d+\]\s*")
_BULLET = re.compile(r"^\s*(?:[-*•>]+|\d{1,3}[.)]|\[\d+\])\s*")
_QUOTES = "\"'“”‘’«»「」`* \t"


class Fact(Struct, frozen=True):
    """A quotation from a document: one sentence, or several that follow each other."""

    text: str
    source: Source


class Findings(Struct, frozen=True):
    """Passages of documents on a question.

    Attributes:
        relevant: the most telling first.
        dropped: how many of the helper's numbers and quotations no sentence of the documents has.
        note: what else a reader should know, e.g. that the answer is not there.
    """

    relevant: tuple[Fact, ...]
    dropped: int = 0
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object. What is not known of a source, and what is empty, is left out."""
        told: dict[str, Any] = {
            "relevant": [{"fact": fact.text, "source": _told(fact.source)} for fact in self.relevant]
        }
        if self.dropped:
            told["dropped"] = self.dropped
        if self.note:
            told["note"] = self.note
        return told


def _told(source: Source) -> dict[str, Any]:
    told: dict[str, Any] = {"id": source.entry, "title": source.title}
    if source.section:
        told["section"] = source.section
    if source.page:
        told["page"] = source.page
    elif source.line:
        told["line"] = source.line
    return told


class SourceSpan(Struct, frozen=True):
    """A stretch of an entry: the entry and its section by their numbers from 0, and the characters in it."""

    entry: int
    section: int
    start: int
    end: int

    def overlaps(self, other: "SourceSpan") -> bool:
        """Return True if they have characters in common."""
        same = (self.entry, self.section) == (other.entry, other.section)
        return same and self.start < other.end and other.start < self.end


def quoted_from(entries: Sequence[Entry], place: SourceSpan) -> Fact:
    """Return what stands at a place."""
    entry = entries[place.entry]
    section = entry.sections[place.section]
    source = Source(
        entry.id, entry.title, entry.path, section.heading, section.line_at(place.start), section.page
    )
    return Fact(section.text[place.start : place.end], source)


class Answer(Struct, frozen=True):
    """The answer to a question: places among its entries, most telling first; see `Findings` for the rest."""

    found: tuple[SourceSpan, ...]
    dropped: int = 0
    note: str = ""


class Answers:
    """Answers in an SQLite file; the least lately used go when there are too many. For any threads at once.

    It is a cache: a file that is damaged is begun anew, and one that cannot be used is done without.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def get(self, key: str, entries: Sequence[Entry]) -> Answer | None:
        """Return the answer that was kept, if there is one and its places are in these entries."""
        row = self._do(lambda db: _take(db, key))
        try:
            answer = msgspec.json.decode(row or "", type=Answer)
        except msgspec.MsgspecError:
            return None
        return answer if all(_lies_in(place, entries) for place in answer.found) else None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        body = msgspec.json.encode(answer).decode()
        self._do(lambda db: _keep(db, key, body))

    def close(self) -> None:
        """Close the file for good: nothing is kept or found any longer. Calling it twice does no harm."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _do(self, operation: Callable[[sqlite3.Connection], str | None]) -> str | None:
        with self._lock:
            for attempt in () if self._closed else (1, 2):
                try:
                    with self._open() as connection:
                        return operation(connection)
                except sqlite3.OperationalError:
                    return None  # busy, or the disk is full
                except (sqlite3.DatabaseError, OSError):
                    if attempt == 2:
                        return None
                    self._begin_anew()
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)
            try:
                # No WAL: of two that turn it on in a new file, SQLite refuses one at once, without waiting.
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(_TABLE)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin_anew(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for ending in ("", "-journal", "-wal", "-shm"):  # those of WAL: an earlier version turned it on
            with suppress(OSError):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)


def _take(db: sqlite3.Connection, key: str) -> str | None:
    row = db.execute("SELECT body FROM answers WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    db.execute(f"UPDATE answers SET used = {_USED} WHERE key = ?", (key,))
    return str(row[0])


def _keep(db: sqlite3.Connection, key: str, body: str) -> None:
    db.execute(f"INSERT OR REPLACE INTO answers VALUES (?, ?, {_USED})", (key, body))
    (count,) = db.execute("SELECT count(*) FROM answers").fetchone()
    if count > _MOST:
        oldest = "SELECT key FROM answers ORDER BY used LIMIT ?"
        db.execute(f"DELETE FROM answers WHERE key IN ({oldest})", (count - _MOST + _CLEAR,))


def _lies_in(place: SourceSpan, entries: Sequence[Entry]) -> bool:
    sections = entries[place.entry].sections if 0 <= place.entry < len(entries) else ()
    text = sections[place.section].text if 0 <= place.section < len(sections) else ""
    return 0 <= place.start < place.end <= len(text)


class HelperReply(Struct, frozen=True):
    """The answer of a helper.

    Attributes:
        answerable: the documents hold an answer; None: the reply is in no form that says so.
        items: numbers of sentences as the helper counts them, and quotations, each once, in its order.
    """

    answerable: bool | None
    items: tuple[int | str, ...]


def read_reply(reply: str) -> HelperReply:
    """Read a helper's reply, whatever form it has."""
    reply = _END_OF_THOUGHTS.split(_THOUGHTS.sub("", reply[:LONGEST_REPLY]))[-1].strip()
    flags = list(_FLAG.finditer(reply))
    named = list(_SENTENCES.finditer(reply))
    # Who thinks aloud says the form before filling it in: the last one counts.
    begins = named[-1].end() if named else flags[-1].end() if flags else 0
    listed, whole = _listed(reply[begins:])
    items = tuple(dict.fromkeys(listed))
    if flags:
        return HelperReply(flags[-1][1].lower() in ("true", "yes"), items)
    if named:
        return HelperReply(bool(items) if items or whole else None, items)
    if _BARE.match(reply) and any(isinstance(item, int) for item in items):
        return HelperReply(True, items)
    lines = (_BULLET.sub("", line).strip(_QUOTES) for line in reply.splitlines()[:_MOST_ITEMS])
    return HelperReply(None, tuple(dict.fromkeys(line for line in lines if line)))


def runs_on(reply: str) -> bool:
    """Return True if the list in a reply is longer than anybody reads: small models may go on without end."""
    begins = reply.rfind("sentences")
    return begins >= 0 and len(_listed(reply[begins:].partition("[")[2])[0]) >= _MOST_ITEMS


def _listed(text: str) -> tuple[list[int | str], bool]:
    """Return what the list holds with which a text begins, and whether it came to its end."""
    items: list[int | str] = []
    depth, whole = 0, False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup or ""
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth <= 0:
                whole = True
                break
        elif kind == "number" and depth and token.end() == len(text):
            break  # cut off: it may have gone on
        elif kind != "key":
            items += _meant(token, kind)
        if len(items) >= _MOST_ITEMS:
            break
    return items[:_MOST_ITEMS], whole


def _meant(token: re.Match[str], kind: str) -> list[int | str]:
    if kind == "number":
        return [_number(token["number"])]
    if kind == "last":
        first, last = _number(token["first"]), _number(token["last"])
        return [*range(first, min(last, first + _LONGEST_RANGE) + 1)] if first <= last else [first, last]
    quotation = _unescaped(token[kind]).strip()
    if not _COUNTING.fullmatch(quotation):
        return [quotation] if quotation else []
    return [each for inner in _TOKEN.finditer(quotation) for each in _inner(inner)]


def _inner(token: re.Match[str]) -> list[int | str]:
    return _meant(token, token.lastgroup) if token.lastgroup in ("number", "last") else []


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 10 else 0  # small models write numbers without end


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def quoted(quotation: str, sentences: Mapping[int, str]) -> int | None:
    """Return the number of the sentence that a quotation is of; None: of none.

    It is the nearest one, if that is at least `ALIKE`, be it that words stand in another order or are left
    out. Where scripts part no words, characters are taken for words.
    """
    from rapidfuzz import fuzz, process

    sought = _comparable(_NUMBERED.sub("", quotation))
    if not sought:
        return None
    # A short sentence may have all its words in a long quotation of something else.
    there = {n: text for n, each in sentences.items() if len(text := _comparable(each)) * 2 >= len(sought)}
    for scorer in (fuzz.ratio, fuzz.token_set_ratio) if len(sought) >= _SHORT else (fuzz.ratio,):
        best = process.extractOne(sought, there, scorer=scorer, score_cutoff=ALIKE)
        if best is not None:
            return best[2]
    return None


def _comparable(text: str) -> str:
    from rapidfuzz import utils

    return str(utils.default_process(_UNPARTED.sub(r" \g<0> ", text)))
