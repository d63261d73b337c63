"""The Markdown of a persona file: which of its sections are the prompt, and which are read apart."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rapidfuzz import fuzz

from pixi.personas.faults import LintError, LintWarning

EXAMPLES = "Examples"
IN_SHORT = "In short"

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_ALMOST_HEADING = re.compile(r"(?:#{1,6}|\*\*)([^#*]{5,40})[*]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the file. `in_code` is true inside a code fence and on the fence itself."""

    number: int
    text: str
    in_code: bool = False


@dataclass(frozen=True, slots=True)
class Sections:
    """The parts of the Markdown; a part that is not there is empty."""

    prompt: tuple[SourceLine, ...]
    in_short: tuple[SourceLine, ...]
    examples: tuple[SourceLine, ...]
    remarks: tuple[LintWarning, ...]


def read_sections(text: str, first_line: int) -> Sections:
    """Take the sections for examples and for small models out of the prompt.

    Args:
        text: Markdown, line breaks as `\\n`.
        first_line: the line of the file on which `text` begins.

    Raises:
        Fault: one of the two sections stands twice.
    """
    parts: dict[str, list[SourceLine]] = {"": [], EXAMPLES: [], IN_SHORT: []}
    starts: dict[str, int] = {}
    remarks: list[LintWarning] = []
    current, level = "", 0
    lines, open_fence = number_lines(text, first_line)
    if open_fence:
        remarks.append(
            LintWarning(open_fence, "this code fence never closes: end it with a line like this one.")
        )
    for line in lines:
        heading = None if line.in_code else _HEADING.fullmatch(line.text)
        name = _special(heading[2]) if heading else ""
        if name and heading:
            if name in starts:
                raise LintError(
                    line.number, f"`## {name}` stands on line {starts[name]} already: make them one section."
                )
            current, level, starts[name] = name, len(heading[1]), line.number
            continue
        if heading and current and (len(heading[1]) <= level or current == IN_SHORT):
            current = ""
        if not line.in_code:
            remarks.extend(_almost(line))
        parts[current].append(line)
    return Sections(tuple(parts[""]), tuple(parts[IN_SHORT]), tuple(parts[EXAMPLES]), tuple(remarks))


def number_lines(text: str, first_line: int) -> tuple[list[SourceLine], int | None]:
    """The lines of a Markdown text, each told whether it is code; and where a fence opens for good."""
    lines: list[SourceLine] = []
    fence, opened = "", None
    for number, line in enumerate(text.split("\n"), first_line):
        mark = _FENCE.fullmatch(line)
        lines.append(SourceLine(number, line, in_code=bool(fence or mark)))
        if fence and mark and mark[1].startswith(fence) and not mark[2].strip():
            fence, opened = "", None
        elif mark and not fence:
            fence, opened = mark[1], number
    return lines, opened


def join(lines: Iterable[SourceLine]) -> str:
    """The text of the lines, without empty ones around it."""
    return "\n".join(line.text for line in lines).strip("\n").rstrip()


def _special(title: str) -> str:
    """Which section a heading opens; "" for one of the prompt's own."""
    plain = title.strip("#*_:： \t").casefold()
    if plain in ("examples", "example"):
        return EXAMPLES
    return IN_SHORT if plain == "in short" else ""


def _almost(line: SourceLine) -> Iterator[LintWarning]:
    """A heading that is nearly one of the two: its section would silently become part of the prompt."""
    written = _ALMOST_HEADING.fullmatch(line.text.strip())
    if not written:
        return
    title = written[1].strip(" \t:：").casefold()
    for name in (EXAMPLES, IN_SHORT):
        alike = max(fuzz.ratio(part, name.casefold()) for part in (title, title.partition(" ")[0]))
        if alike >= 80:
            yield LintWarning(
                line.number, f"`{line.text.strip()}` is read as part of the prompt: write `## {name}`."
            )
