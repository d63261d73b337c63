"""How far a helper model is with documents, as a line for people."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from pixi.core.deltas import PromptProgress
from pixi.core.strangers import clipped
from pixi.knowledge.entry import Entry
from pixi.knowledge.one_line import on_one_line

Reporter = Callable[[str], None]
"""Takes a line that tells how far something is; the next one replaces it."""

_LONGEST_NAME = 40  # characters


def silent(line: str) -> None:
    """A `Reporter` that tells nobody."""


class ReadingProgress:
    """Adds up what a helper has read of the prompts for one question.

    Args:
        entries: that are read.
        report: told after each change.
    """

    def __init__(self, entries: Sequence[Entry], report: Reporter) -> None:
        self._name = _named(entries)
        self._report = report
        self._expected: list[int] = []  # tokens of each prompt, estimated
        self._known: dict[int, tuple[int, int]] = {}  # of each prompt that was begun: tokens read, and all
        self._counted = False  # a server told how far it is
        self._told = ""

    def expect(self, tokens: Sequence[int]) -> None:
        """Take the estimated tokens of the prompts."""
        self._expected = list(tokens)
        self._tell()

    def reads(self, number: int, reading: PromptProgress) -> None:
        """Take what the server told of the prompt with this number, from 0."""
        self._counted = True
        self._known[number] = (reading.done, max(reading.done, reading.total))
        self._tell(reading)

    def has_read(self, number: int) -> None:
        """The prompt with this number was read: the reply has begun."""
        done, total = self._known.get(number, (0, self._expected[number]))
        if done < total or number not in self._known:
            self._known[number] = (total, total)
            self._tell()

    def _tell(self, reading: PromptProgress | None = None) -> None:
        """Report, with the seconds that the rest takes at the speed at which this prompt is read."""
        done, total = self._sums()
        if done and done >= total:
            line = f"writing down what {self._name} says"
        else:
            line = f"reading {self._name}"
            if self._counted:
                line += f" · {done:,} of {total:,} tokens"
            if reading is not None and reading.seconds and reading.done < reading.total:
                seconds = reading.seconds * (total - done) / (reading.total - reading.done)
                line += f" · {max(1, round(seconds)):,} s to go"
        if line != self._told:
            self._told = line
            self._report(line)

    def _sums(self) -> tuple[int, int]:
        """Return the tokens that were read and all tokens, of all prompts together.

        Those that were not begun are estimated, and the estimate goes by how far it was off before.
        """
        done = sum(read for read, _ in self._known.values())
        known = sum(total for _, total in self._known.values())
        estimated = sum(self._expected[number] for number in self._known)
        rest = sum(self._expected) - estimated
        return done, known + (round(rest * known / estimated) if estimated else rest)


def _named(entries: Sequence[Entry]) -> str:
    """Return the name of what is read: of one file or page, and how many there are besides."""
    names = list(dict.fromkeys(_name(entry) for entry in entries))
    others = len(names) - 1
    return names[0] + (f" and {others} other{'s' if others > 1 else ''}" if others else "")


def _name(entry: Entry) -> str:
    name = entry.title if "://" in entry.path else PurePosixPath(entry.path).name
    return clipped(on_one_line(name or entry.title), _LONGEST_NAME)
