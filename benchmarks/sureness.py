"""Whether what is shown to a model unasked is what was asked for: precision, and what small talk brings.

    python -m benchmarks sureness
    python benchmarks/sureness.py DIR… [--list]

Asked of the databases that come along: questions with the file that answers each, questions that no document
answers, and small talk in twelve languages. With collections in the BEIR layout (see `search_quality`): each
is read without every other document. A question whose document is there should bring it; one whose document
is not there should bring nothing, though its neighbours tell of the same.
"""

import argparse
import asyncio
import json
import sys
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

if __package__ in (None, ""):  # run by path: the folder above holds the package
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import Figure, progress
from benchmarks.search_quality import Unreadable, load
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.registry import shipped_folder

LINES = Path(__file__).with_name("sureness_lines.toml")
NAME = "Passages shown unasked: questions that bring theirs; vain questions, and small talk, that bring any"
GOAL = "≥ 60 %; ≤ 5 %; 0"
MOST = 400
"""Questions of a collection that are asked."""
BEST = 1
"""Of what is brought, the first is what counts."""


@dataclass(slots=True)
class Counted:
    """How many lines were asked, how many brought anything, and for how many that was right."""

    asked: int = 0
    brought: int = 0
    right: int = 0

    def add(self, brought: bool, right: bool) -> None:
        """Count one line."""
        self.asked += 1
        self.brought += brought
        self.right += brought and right

    @property
    def recall(self) -> float:
        """Of the lines, those that brought the right thing."""
        return self.right / self.asked if self.asked else 0.0

    @property
    def precision(self) -> float:
        """Of those that brought anything, those that brought the right thing."""
        return self.right / self.brought if self.brought else 1.0

    @property
    def share(self) -> float:
        """Of the lines, those that brought anything."""
        return self.brought / self.asked if self.asked else 0.0


@dataclass(slots=True)
class Lines:
    """The lines of `sureness_lines.toml`, and those that went wrong."""

    answered: Counted
    unanswered: Counted
    small_talk: Counted
    wrong: list[str]


async def lines() -> Lines:
    """Ask the databases that come along."""
    told = tomllib.loads(LINES.read_text(encoding="utf-8"))
    count = Lines(Counted(), Counted(), Counted(), [])
    with TemporaryDirectory(prefix="sureness-") as cache:
        for folder in sorted(path for path in shipped_folder().iterdir() if path.is_dir()):
            progress(f"sureness, {folder.name}")
            database = await DirectoryDatabase.open(folder, cache=Path(cache) / folder.name)
            try:
                await database.ready()
                for name, text, files in told["answered"]:
                    if name == folder.name:
                        found = await database.sure_passages(text, BEST)
                        right = bool(found) and found[0].source.path in files.split("|")
                        count.answered.add(bool(found), right)
                        if not right:
                            count.wrong.append(f"{name}: {text} → {found[0].source.path if found else '–'}")
                for text in told["unanswered"]:
                    await _in_vain(database, text, count.unanswered, count.wrong)
                for some in told["small_talk"].values():
                    for text in some:
                        await _in_vain(database, text, count.small_talk, count.wrong)
            finally:
                await database.close()
    return count


async def _in_vain(database: DirectoryDatabase, text: str, count: Counted, wrong: list[str]) -> None:
    found = await database.sure_passages(text, BEST)
    count.add(bool(found), right=False)
    if found:
        wrong.append(f"{database.name}: {text} → {found[0].source.path}: {found[0].text}")


@dataclass(frozen=True, slots=True)
class Result:
    """What a collection came to: questions with their document there, mistyped ones, and those without it."""

    name: str
    there: Counted
    mistyped: Counted
    gone: Counted
    small_talk: Counted


async def measure(folder: Path) -> Result:
    """Ask a collection of which every other document is left out.

    Raises:
        Unreadable: the folder holds no collection.
    """
    collection = load(folder)
    rows = collection.corpus.read_text(encoding="utf-8").splitlines()
    left = [row for row in rows if row.strip()][::2]
    ids = {str(json.loads(row)["_id"]) for row in left}
    result = Result(collection.name, Counted(), Counted(), Counted(), Counted())
    with TemporaryDirectory(prefix="sureness-") as place:
        documents = Path(place) / collection.name
        documents.mkdir()
        (documents / "corpus.jsonl").write_text("\n".join(left), encoding="utf-8")
        database = await DirectoryDatabase.open(documents, cache=Path(place) / "cache")
        try:
            await database.ready()
            for each in [each for each in collection.queries if each in collection.relevant][:MOST]:
                answers = collection.relevant[each].keys()
                await _asked(
                    database,
                    collection.queries[each],
                    answers,
                    result.there if answers & ids else result.gone,
                )
                if answers & ids and each in collection.mistaken:
                    await _asked(database, collection.mistaken[each], answers, result.mistyped)
            for some in tomllib.loads(LINES.read_text(encoding="utf-8"))["small_talk"].values():
                for text in some:
                    await _asked(database, text, (), result.small_talk)
        finally:
            await database.close()
    return result


async def _asked(database: DirectoryDatabase, text: str, answers: Collection[str], count: Counted) -> None:
    found = await database.sure_passages(text, BEST)
    entries = await database.read([found[0].source.entry]) if found else []
    count.add(bool(found), any(entry.key in answers for entry in entries))


def run(quick: bool) -> list[Figure]:
    """Measure the databases that come along."""
    progress("sureness")
    count = asyncio.run(lines())
    answered, unanswered, small_talk = count.answered, count.unanswered, count.small_talk
    return [
        Figure(
            NAME,
            GOAL,
            f"{answered.recall:.0%}; {unanswered.share:.0%}; {small_talk.share:.1%}",
            met=answered.recall >= 0.6 and unanswered.share <= 0.05 and not small_talk.brought,
            note=f"{answered.asked} questions, of what they brought {answered.precision:.0%} right; "
            f"{unanswered.asked} that nothing answers; {small_talk.asked} of small talk in twelve languages",
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the collections named on the command line, or tell line by line what goes wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", help="a collection")
    parser.add_argument("--list", action="store_true", help="tell which lines of the shipped ones go wrong")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print(*asyncio.run(lines()).wrong, sep="\n")
    for folder in chosen.folders:
        try:
            result = asyncio.run(measure(folder))
        except Unreadable as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print(
            f"{result.name:12} there {result.there.recall:.2f} (right {result.there.precision:.2f}), "
            f"mistyped {result.mistyped.recall:.2f} (right {result.mistyped.precision:.2f}), "
            f"gone {result.gone.share:.2f}, small talk {result.small_talk.share:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
