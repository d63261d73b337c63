"""The text of a wiki's page in sections, from whichever of its forms a wiki gives."""

import re
from dataclasses import dataclass

from pixi.documents.document import Section
from pixi.documents.formats.html import closed_elements, page_of, without_lines
from pixi.documents.formats.markup import Heading, outlined
from pixi.documents.wire import sendable

MOST_MEANINGS = 20

# What stands on a page and is not part of what it says.
_JUNK = (
    ".mw-editsection, .navbox, .noprint, .toc, #toc, .mw-empty-elt, sup.reference, .mw-cite-backlink, "
    ".metadata, .sistersitebox, .mw-jump-link, .catlinks, style, script"
)
_LISTS_MEANINGS = "#disambigbox, .disambigbox, .disambig, .dmbox-disambig, #disambig"
_NO_ARTICLE = re.compile(r"^(?:https?:|//|#)|[?&]redlink=1")

_LONGEST_HEADING = 300

# Anybody may write a page. No pattern here can begin again within what another try of it looked through, so
# that none takes longer than the text is long.
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b[^<>]*>[^<]*</ref>", re.IGNORECASE)
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_ADDRESS = re.compile(r"\[https?://[^\s\[\]]+ ([^\[\]\n]*)\]")
_QUOTES = re.compile(r"'{2,5}")


@dataclass(frozen=True, slots=True)
class WikiText:
    """What a page says.

    Attributes:
        sections: in reading order.
        meanings: the titles that it lists, if it is a page that tells what a word may mean.
    """

    sections: tuple[Section, ...]
    meanings: tuple[str, ...] = ()


def text_of_html(html: str, title: str, *, lists_meanings: bool) -> WikiText:
    """The text of a page as a wiki's parser writes it: with its tables and boxes, row by row.

    `lists_meanings`: it is known to tell what a word may mean; else that is looked for.

    Raises:
        SetAside: its elements are nested too deep, or one has too many attributes.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(closed_elements(sendable(html)))
    meanings: tuple[str, ...] = ()
    if lists_meanings or tree.css_first(_LISTS_MEANINGS) is not None:
        listed = (
            link.attributes.get("title") or ""
            for link in tree.css("li a[title]")
            if not _NO_ARTICLE.search(link.attributes.get("href") or "")
        )
        meanings = tuple(dict.fromkeys(filter(None, listed)))[:MOST_MEANINGS]
    for junk in tree.css(_JUNK):
        junk.decompose()
    page = page_of(tree.html or "")
    return WikiText(without_lines(outlined(page.lines, page.headings, title)), meanings)


def text_of_marked(text: str, title: str) -> WikiText:
    """The text of a page whose headings stand between equals signs."""
    lines = sendable(text).splitlines()
    headings = [
        Heading(*found, at, at + 1) for at, line in enumerate(lines) if (found := _marked_heading(line))
    ]
    return WikiText(without_lines(outlined(lines, headings, title)))


def text_of_wikitext(text: str, title: str) -> WikiText:
    """The text of a page as its authors wrote it, without the marks of links and letters. Templates stay."""
    text = _without_comments(text)
    for pattern in (_REFERENCE, _QUOTES):
        text = pattern.sub("", text)
    text = _ADDRESS.sub(r"\1", _LINK.sub(r"\1", text))
    return text_of_marked(text, title)


def _marked_heading(line: str) -> tuple[int, str] | None:
    """How deep a heading is, and its text; None: the line is none."""
    line = line.rstrip(" \t")
    before = len(line) - len(line.lstrip("="))
    level = min(6, before, len(line) - len(line.rstrip("=")))
    text = line[level : len(line) - level].strip(" \t")
    return (level, text) if level > 1 and 0 < len(text) <= _LONGEST_HEADING else None


def _without_comments(text: str) -> str:
    kept: list[str] = []
    start = 0
    while (opens := text.find("<!--", start)) >= 0 and (closes := text.find("-->", opens + 4)) >= 0:
        kept.append(text[start:opens])
        start = closes + 3
    return "".join((*kept, text[start:]))
