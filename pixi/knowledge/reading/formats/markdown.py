"""Markdown: sections below headings, read line by line, because its lines are what is cited.

A library would give a tree of everything; what is wanted are headings, and not to take code for them.
"""

import html
import re
from collections.abc import Iterable, Sequence

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.outline import Heading, outlined
from pixi.knowledge.reading.opening import Original

_HASHES = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r"[ \t]*(?:[-*+>] *|\d{1,9}[.)] +)*(`{3,}(?=[^`]*$)|~{3,})")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:$|[-*+] |\d{1,9}[.)] |>|\||<)| {4}|\t")
_MATTER_END = frozenset({"---", "..."})
_MATTER_LINES = 500
_MATTER_TITLE = re.compile(r"title[ \t]*:(.*)")
_SIMPLE_VALUE = re.compile(r"[^\s\"'|>&*!%@`{\[#][^#:]*$")

_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_ATTRIBUTES = re.compile(r"[ \t]*\{[#.:][^{}]*\}$")
_EMPHASIS = re.compile(r"(?<!\\)(\*{1,3}|`+|~~|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w))")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_MARKED = re.compile(r"[\\`*_~\[\]<>&{}]|\s\s|\t")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def read(original: Original, tell: Tell) -> Iterable[Document]:
    """The text, as one document."""
    del tell
    return (document_of(decoded(original.all_bytes())),)


def document_of(text: str) -> Document:
    """The text as a document."""
    lines = text.split("\n")
    title, first = _front_matter(lines)
    # What else the front matter says may be asked for too: it stays in the text, as it stands.
    return outlined(lines, _headings(lines, first), title, first if _is_bare(lines, first) else 0)


def plain_heading(text: str) -> str:
    """A heading without its marks: emphasis, links, images, tags, attributes, escapes."""
    text = text.strip()
    if not _MARKED.search(text):
        return text
    text = _ATTRIBUTES.sub("", text)
    text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _TAG.sub("", text)
    text = _EMPHASIS.sub("", text)
    return " ".join(html.unescape(_ESCAPE.sub(r"\1", text)).split())


def _headings(lines: Sequence[str], first: int) -> list[Heading]:
    found: list[Heading] = []
    fence = ""
    comment = False
    paragraph = first  # where the paragraph begins that an underline would make a heading of
    for at in range(first, len(lines)):
        line = lines[at]
        if fence:
            if _closes(line, fence):
                fence = ""
                paragraph = at + 1
            continue
        if comment or line.lstrip().startswith("<!--"):
            comment = "-->" not in line
            paragraph = at + 1
            continue
        heading = None
        if "#" in line and (hashes := _HASHES.match(line)):
            text = _CLOSING_HASHES.sub("", (hashes[2] or "").rstrip())
            heading = Heading(len(hashes[1]), plain_heading(text), at, at + 1)
        elif paragraph < at and (under := _UNDERLINE.match(line)):
            text = " ".join(lines[paragraph:at])
            heading = Heading(1 if under[1][0] == "=" else 2, plain_heading(text), paragraph, at + 1)
        elif opening := _FENCE.match(line):
            fence = opening[1]
        if heading is not None:
            found.append(heading)
        if heading is not None or fence or _NO_PARAGRAPH.match(line) or at - paragraph > 2:
            paragraph = at + 1
    return found


def _closes(line: str, fence: str) -> bool:
    """Whether the line ends code that such a fence opened."""
    rest = line.strip().lstrip("> ")
    return len(rest) >= len(fence) and rest == fence[0] * len(rest)


def _front_matter(lines: Sequence[str]) -> tuple[str, int]:
    """The title that it tells, and the line, from 0, after it; "" and 0 where there is none."""
    if not lines or lines[0].rstrip() != "---":
        return "", 0
    for at in range(1, min(len(lines), _MATTER_LINES)):
        if lines[at].rstrip() in _MATTER_END:
            return _title_in(lines[1:at]), at + 1
    return "", 0


def _is_bare(lines: Sequence[str], first: int) -> bool:
    """Whether the front matter says nothing but a title."""
    return all(not line.strip() or _MATTER_TITLE.match(line) for line in lines[1 : max(first - 1, 0)])


def _title_in(matter: Sequence[str]) -> str:
    for line in matter:
        if told := _MATTER_TITLE.match(line):
            value = told[1].strip()
            # Nearly every title is a plain word or two; the whole of YAML is for the others.
            return value if _SIMPLE_VALUE.match(value) else _parsed_title("\n".join(matter))
    return ""


def _parsed_title(matter: str) -> str:
    import yaml

    try:
        values = yaml.load(matter, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""  # then a heading is the title
    title = values.get("title") if isinstance(values, dict) else None
    return title if isinstance(title, str) else ""
