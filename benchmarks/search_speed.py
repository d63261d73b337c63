"""How fast folders of documents are: build, open, follow, search, memory; beside pixi-bot's scan and FTS5.

    python benchmarks/search_speed.py [DIR…] [--sizes 1000,10000,100000] [--json]

Documents are those of the collections in DIR, in the BEIR layout, and where these are too few, others put
together of their sentences; without DIR they are made of the project's own pages. All contenders read the
same files and answer the same queries, each in a process of its own, in rounds.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run by path: the folder above holds the package
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.peers import PIXI_BOT, PeerMissing, pixi_bot
from benchmarks.processes import Worker, WorkerFailed, worker
from benchmarks.report import Figure, in_words, progress
from benchmarks.search_documents import Texts, made, texts_of

SIZES = (1_000, 10_000)
GOAL_MS = 10.0
GOAL_MISTAKEN_MS = 30.0
GOAL_OPEN_MS = 50.0
GOAL_FOLLOW_SECONDS = 2.0
GOAL_RATIO = 1_000

_ROUNDS = 3
_QUERIES = 300
_SCANNED = 200_000
"""Documents that pixi-bot scans in a run: it takes some 0.2 ms for each."""

_PER_FOLDER = 1_000
_PIXI, _FTS5, _BOT = "Pixi", "SQLite FTS5", f"pixi-bot {PIXI_BOT}"


@dataclass(slots=True)
class Measured:
    """What one contender came to among so many documents; `processor_ms` of all its queries together."""

    build_seconds: float = 0.0
    open_ms: float = 0.0
    follow_seconds: float = 0.0
    megabytes: float = 0.0
    disk_bytes: int = 0
    processor_ms: float = 0.0
    clean_ms: list[float] = field(default_factory=list)
    mistaken_ms: list[float] = field(default_factory=list)

    @property
    def processor(self) -> float:
        """Milliseconds of the processor for one query."""
        return self.processor_ms / max(1, len(self.clean_ms) + len(self.mistaken_ms))

    def at(self, kind: str, share: float) -> float:
        """The time that so many of the queries stay below, in milliseconds."""
        ordered = sorted(self.mistaken_ms if kind == "mistaken" else self.clean_ms) or [0.0]
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    def told(self) -> dict[str, float]:
        """As plain values."""
        plain: dict[str, float] = {
            name: value for name, value in asdict(self).items() if not name.endswith("n_ms")
        }
        plain["processor_ms"] = round(self.processor, 4)
        for kind in ("clean", "mistaken"):
            for share in (0.5, 0.99):
                plain[f"{kind}_p{share * 100:.0f}_ms"] = round(self.at(kind, share), 4)
        return plain


def measure(texts: Texts, size: int, queries: int) -> dict[str, Measured]:
    """All contenders among so many documents."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        progress(f"search, {size:,} documents: writing them")
        write(texts, size, home / "documents")
        told: dict[str, Measured] = {}
        for name in (_PIXI, _FTS5, _BOT):
            progress(f"search, {size:,} documents: {name} builds")
            try:
                with contender(name, home) as process:
                    answer = process.ask(_building(name, home))
            except PeerMissing as error:
                progress(str(error))
                break
            told[name] = Measured(build_seconds=answer["seconds"], disk_bytes=int(answer["bytes"]))
        with ExitStack() as running:
            # Other processes: what building left in memory is none of what asking takes.
            processes = {name: running.enter_context(contender(name, home)) for name in told}
            if _BOT in told:
                processes[_BOT].ask(_building(_BOT, home) | {"folder": str(home / "nothing")})
            for each, process in processes.items():
                told[each].open_ms = process.ask({"do": "open"})["seconds"] * 1e3
            _ask_all(processes, told, texts, size, queries)
            word = "zyxwvutsrq"
            for each in (_PIXI, _FTS5):
                answer = processes[each].ask(
                    {"do": "add", "name": word, "text": f"{word} was saved just now"}
                )
                told[each].follow_seconds = answer["seconds"]
    return told


def _ask_all(
    processes: Mapping[str, Worker], told: Mapping[str, Measured], texts: Texts, size: int, queries: int
) -> None:
    """Everybody is asked in rounds, beginning with another one each time."""
    names = list(processes)
    for turn in range(_ROUNDS):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            progress(f"search, {size:,} documents: {name} is asked, {turn + 1} of {_ROUNDS}")
            count = max(1, min(queries, _SCANNED // size) // _ROUNDS) if name == _BOT else queries // _ROUNDS
            for kind, asked, into in (
                ("clean", texts.queries, told[name].clean_ms),
                ("mistaken", texts.mistaken, told[name].mistaken_ms),
            ):
                if name == _BOT and kind == "mistaken":
                    continue  # it knows of no mistakes, and takes as long
                chosen = [asked[(turn * count + each) % len(asked)] for each in range(count)]
                answer = processes[name].ask({"do": "search", "queries": chosen})
                into.extend(answer["ms"])
                told[name].megabytes = answer["megabytes"]
                told[name].processor_ms += answer["processor_ms"]


def write(texts: Texts, size: int, folder: Path) -> None:
    """The documents as Markdown files, so many in each sub-folder."""
    (folder.parent / "nothing").mkdir()
    for number, (title, text) in enumerate(made(texts, size)):
        path = folder / f"{number // _PER_FOLDER:03}" / f"{number:06}.md"
        if number % _PER_FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.write_text(f"# {title or number}\n\n{text}\n", encoding="utf-8")


@contextmanager
def contender(name: str, home: Path) -> Iterator[Worker]:
    """Its process.

    Raises:
        PeerMissing: it cannot be installed.
    """
    if name == _BOT:
        with pixi_bot(script="peer_pixi_search.py") as running:
            yield running
    else:
        kind = "pixi" if name == _PIXI else "fts5"
        command = [sys.executable, "-m", "benchmarks.search_worker", kind]
        with worker([*command, str(home / "documents"), str(home / kind)]) as running:
            yield running


def _building(name: str, home: Path) -> dict[str, Any]:
    if name == _BOT:
        return {"do": "build", "folder": str(home / "documents"), "place": str(home / "bot")}
    return {"do": "build"}


def figures(told: Mapping[str, Measured], size: int) -> list[Figure]:
    """What was measured among so many documents, as lines of the table."""
    ours = told[_PIXI]
    others = {name: each for name, each in told.items() if name != _PIXI}
    clean, mistaken = ours.at("clean", 0.99), ours.at("mistaken", 0.99)
    ratios = {
        f"{name} / Pixi, p50": each.at("clean", 0.5) / ours.at("clean", 0.5) for name, each in others.items()
    }
    faster = ratios.get(f"{_BOT} / Pixi, p50", 0.0)
    return [
        Figure(
            name=f"Search among {size:,} documents, p50 / p99: clean; with typing mistakes",
            goal=f"p99 ≤ {GOAL_MS:g} ms; ≤ {GOAL_MISTAKEN_MS:g} ms; ≥ {GOAL_RATIO:,} × pixi-bot at 100,000",
            ours=f"{_times(ours, 'clean')}; {_times(ours, 'mistaken')}",
            peers={
                name: _times(each, "clean") + (f"; {_times(each, 'mistaken')}" if each.mistaken_ms else "")
                for name, each in others.items()
            },
            ratios={name: f"{value:,.1f}" for name, value in ratios.items()},
            met=clean <= GOAL_MS
            and mistaken <= GOAL_MISTAKEN_MS
            and (size < 100_000 or _BOT not in told or faster >= GOAL_RATIO),
            note="processor time per query, mean: "
            + ", ".join(f"{name} {each.processor:,.2f} ms" for name, each in told.items()),
        ),
        Figure(
            name=f"A folder of {size:,} documents: open; a saved one is found; build; memory; disk",
            goal=f"open ≤ {GOAL_OPEN_MS:g} ms; found ≤ {GOAL_FOLLOW_SECONDS:g} s",
            ours=_keeping(ours),
            peers={name: _keeping(each) for name, each in others.items()},
            ratios={
                f"{name} / Pixi": f"memory {each.megabytes / ours.megabytes:.1f}, "
                f"open {each.open_ms / ours.open_ms:,.1f}"
                for name, each in others.items()
                if ours.megabytes
            },
            met=ours.open_ms <= GOAL_OPEN_MS and ours.follow_seconds <= GOAL_FOLLOW_SECONDS,
            note="memory is a process's own, without mapped files; Pixi is opened a second time in "
            "its process; pixi-bot has no index: to build is to write its files, to open to read them all",
        ),
    ]


def _times(each: Measured, kind: str) -> str:
    return f"{each.at(kind, 0.5):,.2f} / {each.at(kind, 0.99):,.2f} ms"


def _keeping(each: Measured) -> str:
    found = f"{each.follow_seconds:.2f} s" if each.follow_seconds else "never"
    return (
        f"{each.open_ms:,.1f} ms; {found}; {each.build_seconds:,.1f} s; {each.megabytes:,.0f} MB; "
        f"{each.disk_bytes / 1e6:,.1f} MB"
    )


def run(quick: bool) -> list[Figure]:
    """Measure it, of the project's own pages."""
    texts = texts_of(())
    sizes: Sequence[int] = (60,) if quick else SIZES
    return [
        figure for size in sizes for figure in figures(measure(texts, size, 6 if quick else _QUERIES), size)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure what was named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "collections", nargs="*", metavar="DIR", type=Path, help="a collection in the BEIR layout"
    )
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="numbers of documents, with commas"
    )
    parser.add_argument(
        "--queries", type=int, default=_QUERIES, help="asked of each, clean and with mistakes"
    )
    parser.add_argument("--json", action="store_true", help="print one object, by size and contender")
    options = parser.parse_args(arguments)
    for folder in options.collections:
        if not (folder / "corpus.jsonl").is_file():
            parser.error(f"{folder}: there is no corpus.jsonl")
    texts = texts_of(options.collections)
    length = statistics.median(len(text.split()) for _, text in texts.documents)
    progress(
        f"{len(texts.documents):,} documents of {length:.0f} words; more are put together of their sentences"
    )
    plain = {}
    try:
        for size in map(int, options.sizes.split(",")):
            told = measure(texts, size, max(options.queries, _ROUNDS))
            plain[size] = {name: each.told() for name, each in told.items()}
            if not options.json:
                print("\n".join(map(in_words, figures(told, size))), flush=True)
    except WorkerFailed as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(plain, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
