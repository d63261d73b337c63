"""Short word lists in text files, one for each thing that a check must know of a language."""

from functools import cache
from importlib import resources

from pixi.knowledge.normalising import normalise


@cache
def word_list(name: str) -> frozenset[str]:
    """The words of all lines of a list, normalised."""
    return frozenset(word for line in _lines(name) for word in normalise(line).split())


@cache
def words_of(name: str, language: str) -> frozenset[str]:
    """The words of a list in one language, by its code, normalised."""
    lines = (line.partition(":") for line in _written(name))
    return frozenset(word for code, _, line in lines if code == language for word in normalise(line).split())


@cache
def opposites() -> dict[str, frozenset[str]]:
    """What each word of the list means the opposite of."""
    found: dict[str, set[str]] = {}
    for line in _lines("antonyms"):
        for pair in normalise(line).split():
            one, _, other = pair.partition("/")
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


@cache
def irregular_forms() -> dict[str, str]:
    """The word for which each irregular form stands."""
    return {form: line.split()[0] for line in _lines("irregular") for form in line.split()}


@cache
def glyph_list(name: str) -> tuple[str, ...]:
    """The words of a list for scripts without blanks, the longest first."""
    return tuple(sorted(word_list(name), key=lambda word: (-len(word), word)))


def telling_runs(run: str) -> list[str]:
    """The stretches of a run without blanks between characters that say nothing by themselves."""
    idle = word_list("idle_glyphs")
    return "".join(" " if glyph in idle else glyph for glyph in run).split()


def _lines(name: str) -> list[str]:
    """The lines of a list without the language before the colon."""
    return [line.partition(":")[2] if ":" in line else line for line in _written(name)]


def _written(name: str) -> list[str]:
    """The lines of a list without comments."""
    text = resources.files("pixi.knowledge.lists").joinpath(f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
