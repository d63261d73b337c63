"""Pages of the web: their main text, without what every page of a site has round it."""

import re
from dataclasses import replace

from pixi.knowledge.entry import Document
from pixi.knowledge.reading.formats import Tell
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.html import charset_in, closed_elements, is_hidden, page_of, without_lines
from pixi.knowledge.reading.formats.markdown import document_of as document_of_markdown

SCRIPTED = "the page shows itself with JavaScript alone; only what stands in it without that was read"
LOGIN = "the page seems to want a login"

_LONGEST = 1_000_000  # characters; of a longer page all is taken: to find what matters would take too long
_ENOUGH = 500  # characters of main text that are taken for it whatever else the page holds
_LITTLE = 400  # characters of a page that says hardly anything
_NEEDS_SCRIPT = re.compile(
    r"(?:enable|requires?|needs?|without|turn on|activate) (?:\w+ )?javascript"
    r"|javascript (?:is|to be|must be) (?:\w+ )?(?:disabled|required|enabled|off|needed)"
    r"|<div id=[\"']?(?:root|app|__next|___gatsby)\b",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"<input[^<>]{0,300}type=[\"']?password", re.IGNORECASE)
_SCRIPT = re.compile(r"<script\b", re.IGNORECASE)


def text_of(body: bytes, charset: str) -> str:
    """The page decoded: what the server says goes before what the page says of itself."""
    return decoded(body, charset or charset_in(body))


def document_of(text: str, url: str, tell: Tell) -> Document:
    """The page as a document.

    Raises:
        SetAside: its elements are nested too deep.
    """
    whole = page_of(text).document()
    size = sum(len(section.text) for section in whole.sections)
    if size < _LITTLE:
        _tell_why(text, tell)
    main = _main_text(text, url) if len(text) <= _LONGEST else ""
    if not main or (len(main) < _ENOUGH and len(main) * 2 < size):
        return whole
    found = document_of_markdown(main)
    title = whole.title or found.title
    return replace(found, title=title, sections=without_lines(found))


def _tell_why(text: str, tell: Tell) -> None:
    if _PASSWORD.search(text):
        tell(LOGIN)
    elif _SCRIPT.search(text) and _NEEDS_SCRIPT.search(text):
        tell(SCRIPTED)


def _main_text(text: str, url: str) -> str:
    """The main text in Markdown; "" where none is found, or nothing is here that could find it."""
    try:
        from trafilatura import extract
    except ImportError:
        return ""
    found = extract(
        _shown(text),
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    return found or ""


def _shown(text: str) -> str:
    """The page without what a browser would not show: strangers like to write there for machines."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(closed_elements(text))
    for node in tree.css("[hidden], [style]"):
        if is_hidden(node):
            node.decompose()
    return tree.html or ""
