"""Markdown as a terminal shows it: bold, italic and code, without the signs that made them so.

Only what chats use is read: `**bold**`, `*italic*`, `` `code` ``, fences, and headings. Everything else stays
as it was written, and so does a sign that nothing closes: while a message grows, it may be closed yet.
"""

import re
from collections.abc import Iterator

from pixi.channels.terminal_rows import Fragment, Line, wrapped

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)[\w+-]*\s*$")
_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
)


def markdown_rows(text: str, style: str, columns: int, *, plain: bool = False) -> Iterator[Line]:
    """Yield a message as rows of a terminal.

    Args:
        text: what was written, in one or several lines.
        style: the class of plain words, e.g. `class:message`.
        columns: how wide a row may be.
        plain: it is no Markdown, and shown to the letter.
    """
    fenced = False
    for line in text.split("\n"):
        if not plain and _FENCE.match(line):
            fenced = not fenced
            continue
        indent = min(len(line) - len(line.lstrip(" ")), columns // 3)
        words = line[indent:]
        whole = (f"{style} class:code" if fenced else style, words)
        fragments = [whole] if fenced or plain else list(_fragments(words, style))
        for row in _broken(fragments, columns - indent):
            yield [("", " " * indent), *row] if indent else row


def _fragments(line: str, style: str) -> Iterator[Fragment]:
    if heading := _HEADING.match(line):
        line, style = line[heading.end() :], f"{style} class:bold"
    at = 0
    for found in _INLINE.finditer(line):
        if found.start() > at:
            yield style, line[at : found.start()]
        kind = str(found.lastgroup)
        words = (f"{style} class:{kind}", found[kind])
        yield from [words] if kind == "code" else _fragments(words[1], words[0])
        at = found.end()
    if at < len(line) or not line:
        yield style, line[at:]


def _broken(fragments: list[Fragment], columns: int) -> Iterator[Line]:
    """Break a line into rows. What `wrapped` drops between two rows is space alone."""
    text = "".join(words for _, words in fragments)
    styles = [style for style, words in fragments for _ in words]
    at = 0
    for row in wrapped(text, columns):
        at = text.index(row, at)
        line: Line = []
        for style, character in zip(styles[at : at + len(row)], row, strict=True):
            if line and line[-1][0] == style:
                line[-1] = (style, line[-1][1] + character)
            else:
                line.append((style, character))
        at += len(row)
        yield line or [("", "")]
