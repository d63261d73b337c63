"""Whether what is shown to a model unasked is what was asked for: precision, and what small talk brings.

Asked of the databases that come along: questions with the file that answers each, questions that no document
answers, and small talk in twelve languages. What goes wrong is told line by line.
"""

import asyncio
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import Figure, progress
from pixi.knowledge.database import DirectoryDatabase
from pixi.knowledge.registry import shipped_folder

LINES = Path(__file__).with_name("sureness_lines.toml")
NAME = "Passages shown unasked: questions that bring theirs; vain questions, and small talk, that bring any"
GOAL = "≥ 60 %; ≤ 5 %; 0"
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


def run(quick: bool) -> list[Figure]:
    """Measure the databases that come along."""
    count = asyncio.run(lines())
    progress("\n".join(count.wrong))
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
