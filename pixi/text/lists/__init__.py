"""Short word lists in text files, one for each thing that a check must know of a language."""

from functools import cache
from importlib import resources

from pixi.text.terms import normalise


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of all lines of a list, normalised."""
    return frozenset(word for line in _lines(name) for word in normalise(line).split())


@cache
def words_of(name: str, language: str) -> frozenset[str]:
    """Return the words of a list in one language, by its code, normalised."""
    lines = (line.partition(":") for line in _written(name))
    return frozenset(word for code, _, line in lines if code == language for word in normalise(line).split())


@cache
def glyph_list(name: str) -> tuple[str, ...]:
    """Return the words of a list for scripts without blanks, the longest first."""
    return tuple(sorted(word_list(name), key=lambda word: (-len(word), word)))


def telling_runs(run: str) -> list[str]:
    """Return the stretches of a run without blanks between characters that say nothing by themselves."""
    idle = word_list("idle_glyphs")
    return "".join(" " if glyph in idle else glyph for glyph in run).split()


def without_asking(run: str) -> str:
    """Return a run without the words in it by which somebody asks, each a blank instead."""
    for glyphs in glyph_list("question_glyphs"):
        run = run.replace(glyphs, " ")
    return run


def _lines(name: str) -> list[str]:
    """Return the lines of a list without the language before the colon."""
    return [line.partition(":")[2] if ":" in line else line for line in _written(name)]


def _written(name: str) -> list[str]:
    """Return the lines of a list without comments."""
    text = resources.files("pixi.text.lists").joinpath(f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
