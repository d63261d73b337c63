"""CSV and TSV: every row is a record."""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.records import document_of
from pixi.knowledge.reading.opening import Original
from pixi.knowledge.reading.outcome import SetAside

_SEPARATORS = ",;\t|"
_SAMPLE_CHARACTERS = 65_536
_SAMPLE_ROWS = 50
_LONGEST_NAME = 80
_NUMBER = re.compile(r"[-+]?[\d٠-٩۰-۹][\d٠-٩۰-۹.,:/%\s-]*")

Row = Sequence[str]


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The rows, each as a document; the first row names the columns where it looks like that."""
    text = decoded(original.all_bytes())
    if not text.strip():
        return
    csv.field_size_limit(original.limits.characters)
    sample = text[:_SAMPLE_CHARACTERS]
    if len(text) > len(sample):
        sample = sample.rpartition("\n")[0] or sample
    separator = "\t" if original.name.lower().endswith(".tsv") else _separator(sample)
    start = list(itertools.islice(_rows(sample, separator, tell=None), _SAMPLE_ROWS))
    names = _names(start)
    for line, row in _rows(text, separator, tell):
        if names is None or line != start[0][0]:
            yield document_of(_record(names, row), line=line, plain=True)


def _rows(text: str, separator: str, tell: Tell | None) -> Iterator[tuple[int, Row]]:
    """The rows that say anything, each with the line on which it begins.

    Raises:
        SetAside: it is no table.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        if tell is not None:
            raise SetAside(f"is no table: {error} on line {reader.line_num}; mend it there") from None


def _separator(sample: str) -> str:
    """The one that makes of most rows the same number of cells, and of that the most."""
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        widths = Counter(
            len(row) for _, row in itertools.islice(_rows(sample, separator, None), _SAMPLE_ROWS)
        )
        if not widths:
            continue
        width, rows = max(widths.items(), key=lambda item: (item[0] > 1, item[1]))
        share = rows / widths.total() * (1 + width / 1000) if width > 1 else 0.0
        if share > most:
            best, most = separator, share
    return best


def _names(rows: Sequence[tuple[int, Row]]) -> list[str] | None:
    """The names of the columns; None: the first row is one like any other."""
    if len(rows) < 2:
        return None
    first = [cell.strip() for cell in rows[0][1]]
    others = [row for _, row in rows[1:]]
    named = [cell for cell in first if cell]
    if len(set(named)) < len(named) or not named or any(len(cell) > _LONGEST_NAME for cell in named):
        return None
    if any(_NUMBER.fullmatch(cell) for cell in named):
        return None
    for at, name in enumerate(first):
        if name and any(len(row) > at and row[at].strip() == name for row in others):
            return None  # a name does not come again below itself
    return [name or f"column {at}" for at, name in enumerate(first, 1)]


def _record(names: Sequence[str] | None, row: Row) -> dict[str, str]:
    """The cells by their columns' names; by numbers where there are none, or too few."""
    record: dict[str, str] = {}
    for at, cell in enumerate(row):
        name = names[at] if names is not None and at < len(names) else f"column {at + 1}"
        if cell.strip():
            record[name] = cell.strip()
    return record
