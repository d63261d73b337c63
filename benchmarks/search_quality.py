"""How well folders of documents are searched: nDCG@10, recall@10 and time per query, clean and with mistakes.

    python benchmarks/search_quality.py DIR… [--json]

Each DIR is a collection in the BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv, and queries_typo.jsonl
where there are queries with typing mistakes. It is read as a folder of documents, through the code that
reads any other.
"""

import argparse
import asyncio
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

if __package__ in (None, ""):  # run by path: the folder above holds the package
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pixi.knowledge.database import DirectoryDatabase

DEPTH = 10
"""Results that are looked at."""

_QUALITY = 4
_TIME = 3
"""Digits behind the point."""


class Unreadable(Exception):
    """A folder holds no collection. The text names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection on disk.

    Attributes:
        queries, mistaken: texts by id; `mistaken` is empty where there is no such file.
        relevant: for each query, how relevant which documents are.
    """

    name: str
    corpus: Path
    queries: Mapping[str, str]
    mistaken: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the queries of one kind came to: means over them, and milliseconds per query."""

    ndcg: float
    recall: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Result:
    """What a collection came to. `loss`: the share of nDCG that mistakes cost; None without them."""

    name: str
    documents: int
    queries: int
    clean: Measured
    typo: Measured | None
    loss: float | None
    seconds: float


def load(folder: Path) -> Collection:
    """A collection in the BEIR layout.

    Raises:
        Unreadable: a file is missing or not what it should be.
    """
    corpus = folder / "corpus.jsonl"
    if not corpus.is_file():
        raise Unreadable(f"{corpus}: there is no such file")
    judged = next(
        (path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None
    )
    if judged is None:
        raise Unreadable(f"{folder / 'qrels.tsv'}: there is no such file")
    typo = folder / "queries_typo.jsonl"
    return Collection(
        name=folder.resolve().name,
        corpus=corpus,
        queries=_texts(folder / "queries.jsonl"),
        mistaken=_texts(typo) if typo.is_file() else {},
        relevant=_judgements(judged),
    )


def _texts(path: Path) -> dict[str, str]:
    return {str(record["_id"]): str(record["text"]) for record in _records(path)}


def _records(path: Path) -> Iterator[dict[str, object]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    record = json.loads(line)
                    if not isinstance(record, dict) or "_id" not in record or "text" not in record:
                        raise Unreadable(f"{path}, line {number}: no record with _id and text")
                    yield record
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    """Of `query, document, score`, or with a column between as TREC writes it; with a header or without."""
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not cells:
            continue
        try:
            query, document, score = cells[0], cells[-2], float(cells[-1])
        except (ValueError, IndexError) as error:
            if number == 1:
                continue  # the header
            raise Unreadable(f"{path}, line {number}: no query, document and score") from error
        if score > 0:
            found.setdefault(query, {})[document] = score
    return found


def ndcg(ranked: Sequence[str], relevant: Mapping[str, float]) -> float:
    """Normalised discounted cumulative gain of the first ten, 0 to 1, with the scores as gains."""
    gained = sum(relevant.get(each, 0.0) / math.log2(place + 2) for place, each in enumerate(ranked[:DEPTH]))
    ideal = sorted(relevant.values(), reverse=True)[:DEPTH]
    best = sum(gain / math.log2(place + 2) for place, gain in enumerate(ideal))
    return gained / best if best else 0.0


def recall(ranked: Sequence[str], relevant: Mapping[str, float]) -> float:
    """The share of the relevant documents that are among the first ten."""
    return len(set(ranked[:DEPTH]) & relevant.keys()) / len(relevant) if relevant else 0.0


async def measure(folder: Path, *, most: int = 0) -> Result:
    """Read a collection as a folder of documents, and ask its queries.

    Args:
        most: queries that are asked of each kind; 0: all that have judgements.

    Raises:
        Unreadable: the folder holds no collection.
    """
    collection = load(folder)
    with TemporaryDirectory(prefix="search-quality-") as place:
        documents = Path(place) / collection.name
        documents.mkdir()
        shutil.copyfile(collection.corpus, documents / "corpus.jsonl")
        started = time.perf_counter()
        _say(f"{collection.name}: reading")
        database = await DirectoryDatabase.open(documents, cache=Path(place) / "cache", progress=_say)
        try:
            await database.ready()
            for fault in database.faults:
                raise Unreadable(f"{fault.path}: {fault.reason}")
            seconds = time.perf_counter() - started
            _say(f"{collection.name}: {database.entries:,} documents in {seconds:.1f} s; asking")
            clean = await _ask(database, collection, collection.queries, most)
            typo = (
                await _ask(database, collection, collection.mistaken, most) if collection.mistaken else None
            )
            asked = _asked(collection, collection.queries, most)
            return Result(
                name=collection.name,
                documents=database.entries,
                queries=len(asked),
                clean=clean,
                typo=typo,
                loss=round(1 - typo.ndcg / clean.ndcg, _QUALITY) if typo and clean.ndcg else None,
                seconds=round(seconds, 1),
            )
        finally:
            await database.close()


def _asked(collection: Collection, queries: Mapping[str, str], most: int) -> list[str]:
    judged = [each for each in queries if each in collection.relevant]
    return judged[:most] if most else judged


async def _ask(
    database: DirectoryDatabase, collection: Collection, queries: Mapping[str, str], most: int
) -> Measured:
    asked = _asked(collection, queries, most)
    if not asked:
        raise Unreadable(f"{collection.name}: no query has a judgement")
    await database.search(queries[asked[0]], DEPTH)  # what is loaded once is no query's time
    times: list[float] = []
    gains: list[float] = []
    shares: list[float] = []
    for each in asked:
        started = time.perf_counter()
        found = await database.search(queries[each], DEPTH)
        times.append((time.perf_counter() - started) * 1e3)
        entries = await database.read([hit.source.entry for hit in found.hits])
        ranked = [entry.key for entry in entries]
        gains.append(ndcg(ranked, collection.relevant[each]))
        shares.append(recall(ranked, collection.relevant[each]))
    times.sort()
    return Measured(
        ndcg=round(sum(gains) / len(gains), _QUALITY),
        recall=round(sum(shares) / len(shares), _QUALITY),
        p50_ms=round(times[len(times) // 2], _TIME),
        p95_ms=round(times[min(len(times) - 1, int(len(times) * 0.95))], _TIME),
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(results: Sequence[Result]) -> None:
    """Print the results as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("collection")
    heads = ("documents", "queries", "nDCG@10", "recall@10", "p50 ms", "p95 ms")
    for head in (*heads, "with mistakes: nDCG@10", "recall@10", "p50 ms", "p95 ms", "loss"):
        table.add_column(head, justify="right")
    for result in results:
        table.add_row(
            result.name,
            f"{result.documents:,}",
            f"{result.queries:,}",
            *_cells(result.clean),
            *_mistaken(result),
        )
    # A file or a pipe has no width that a table would have to fit.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cells(measured: Measured) -> tuple[str, ...]:
    return (
        f"{measured.ndcg:.3f}",
        f"{measured.recall:.3f}",
        f"{measured.p50_ms:.1f}",
        f"{measured.p95_ms:.1f}",
    )


def _mistaken(result: Result) -> tuple[str, ...]:
    if result.typo is None or result.loss is None:
        return ("–",) * 5
    return (*_cells(result.typo), f"{result.loss:.1%}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the collections named on the command line; 2 where one cannot be read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a collection in the BEIR layout"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object for each collection, in a list"
    )
    parser.add_argument("--queries", type=int, default=0, metavar="N", help="ask the first N queries alone")
    chosen = parser.parse_args(arguments)
    results: list[Result] = []
    for folder in chosen.folders:
        try:
            results.append(asyncio.run(measure(folder, most=chosen.queries)))
        except Unreadable as error:
            _say(f"error: {error}")
            return 2
    if chosen.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
