"""The pages that people read (README.md and docs/*.md), taken apart: blocks, code, links, headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})(?P<kind>\S*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE
)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `kind` is the word behind its fence, `text` what is in it, with its last line break."""

    kind: str
    text: str


def read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(page: str, kind: str | None = None) -> list[Block]:
    """The fenced blocks of a page, those of one kind or all."""
    found = (Block(match["kind"], match["text"]) for match in _BLOCK.finditer(page))
    return [block for block in found if kind is None or block.kind == kind]


def code(page: str) -> Iterator[str]:
    """What stands as code in a page: the lines of its fenced blocks, and what is between backticks."""
    for block in blocks(page):
        yield from block.text.splitlines()
    for span in _SPAN.finditer(_BLOCK.sub("", page)):
        yield span[2].strip()


def links(page: str) -> list[str]:
    """The targets of its links, in order."""
    return _LINK.findall(_without_code(page))


def pictures(page: str) -> list[str]:
    """The files of its pictures, in order: those of a theme too."""
    return re.findall(r'(?:\bsrc|\bsrcset)="([^"]+)"', _without_code(page))


def anchors(page: str) -> set[str]:
    """What a link can name in the page: its marks, and its headings, as they are turned into anchors."""
    text = _BLOCK.sub("", page)
    named = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in _HEADING.findall(text)}
    return named | set(re.findall(r'<a id="([^"]+)"></a>', text))


def section(page: str, heading: str) -> str:
    """The part of a page under a heading of the second rank; one in a block is no heading of the page."""
    inside = [match.span() for match in _BLOCK.finditer(page)]
    starts = [
        match.start()
        for match in re.finditer(r"^## ", page, re.MULTILINE)
        if not any(start <= match.start() < end for start, end in inside)
    ]
    for start, end in pairwise([*starts, len(page)]):
        title, _, text = page[start:end].partition("\n")
        if title == f"## {heading}":
            return text
    raise AssertionError(f"there is no section {heading!r}")


def _without_code(page: str) -> str:
    return _SPAN.sub("", _BLOCK.sub("", page))
