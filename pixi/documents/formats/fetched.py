"""Pages as they were fetched from the web, by what the server said they are."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import msgspec

from pixi.core.errors import Reporter
from pixi.documents.files import Document, Original, Section, SetAside
from pixi.documents.formats.html import charset_in, closed_elements, is_hidden, page_of, without_lines
from pixi.documents.formats.office import read_pdf
from pixi.documents.formats.text import decoded, document_of, sections

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


Kind = Literal["html", "feed", "markdown", "plain", "pdf"]


@dataclass(frozen=True, slots=True)
class Label:
    """The origin of a fetched page.

    Attributes:
        url: where it came from; its links are relative to that.
        charset: as the server said; "" where it did not.
    """

    url: str
    kind: Kind
    charset: str = ""


def labelled(label: Label, body: bytes) -> bytes:
    """Return the file."""
    return msgspec.json.encode(label) + b"\n" + body


def parted(data: bytes) -> tuple[Label, bytes]:
    """Return what `labelled` put together.

    Raises:
        SetAside: it was not made so.
    """
    line, _, body = data.partition(b"\n")
    try:
        return msgspec.json.decode(line, type=Label), body
    except msgspec.MsgspecError:
        raise SetAside("is no page that was fetched; take it out") from None


_ITEMS = frozenset({"item", "entry"})
_DATES = ("pubDate", "published", "updated", "date")
_TEXTS = ("encoded", "content", "description", "summary")
_MOST = 500  # items


def _feed(body: bytes, charset: str) -> Document:
    """Return the feed; other XML as the text that it is.

    Raises:
        SetAside: it declares entities of its own, which may unfold without end.
    """
    from xml.etree.ElementTree import ParseError, fromstring

    text = decoded(body, charset)
    if "<!ENTITY" in text:
        raise SetAside("declares entities of its own, which may unfold without end; take them out")
    try:
        root = fromstring(_without_declaration(text))
    except (ParseError, ValueError, RecursionError):
        return Document("", "", tuple(sections(text)))
    items = [each for each in root.iter() if _tag(each) in _ITEMS][:_MOST]
    if not items:
        return Document("", "", tuple(sections(text)))
    title = next((each for each in root.iter() if _tag(each) == "title"), None)
    return Document("", _told_by(title), tuple(_items(items)))


def _items(items: "list[Element]") -> Iterator[Section]:
    for item in items:
        parts = {_tag(each): each for each in reversed(list(item))}
        address = _address(parts.get("link"))
        dated = next((_told_by(parts[name]) for name in _DATES if name in parts), "")
        text = next((told for name in _TEXTS if name in parts and (told := _told_by(parts[name]))), "")
        lines = [" ".join(filter(None, (dated, address))), text]
        title = _told_by(parts.get("title"))
        yield Section("\n".join(filter(None, lines)) or title, title)


def _address(link: "Element | None") -> str:
    """Return the address of a link: Atom has it as an attribute, RSS as text."""
    return "" if link is None else (link.get("href") or _told_by(link))


def _told_by(element: "Element | None") -> str:
    """Return what an element says, which may be HTML, as plain text."""
    text = "".join(element.itertext()).strip() if element is not None else ""
    if "<" not in text and "&" not in text:
        return " ".join(text.split())
    return "\n".join(line for line in page_of(text).lines if line)


def _tag(element: "Element") -> str:
    """Return the tag without its namespace; "" for a comment."""
    tag: object = element.tag  # of a comment it is a function
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _without_declaration(text: str) -> str:
    """Return the text without `<?xml … encoding=…?>`: it is decoded already."""
    text = text.lstrip("\ufeff \n\t")
    return text.partition("?>")[2] if text.startswith("<?xml") else text


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


def _page(text: str, url: str, tell: Reporter) -> Document:
    """Return the page as a document.

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
    found = document_of(main)
    title = whole.title or found.title
    return replace(found, title=title, sections=without_lines(found))


def _tell_why(text: str, tell: Reporter) -> None:
    if _PASSWORD.search(text):
        tell(LOGIN)
    elif _SCRIPT.search(text) and _NEEDS_SCRIPT.search(text):
        tell(SCRIPTED)


def _main_text(text: str, url: str) -> str:
    """Return the main text in Markdown; "" where none is found, or nothing is here that could find it."""
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
    """Return the page without what a browser would not show: strangers like to write there for machines."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(closed_elements(text))
    for node in tree.css("[hidden], [style]"):
        if is_hidden(node):
            node.decompose()
    return tree.html or ""


def read(original: Original, tell: Reporter) -> Iterable[Document]:
    """Return the page, as one document."""
    label, body = parted(original.all_bytes())
    if label.kind == "pdf":
        return read_pdf(replace(original, file=BytesIO(body), size=len(body)), tell)
    if not body.strip():
        return ()
    match label.kind:
        case "html":
            return (_page(decoded(body, label.charset or charset_in(body)), label.url, tell),)
        case "feed":
            return (_feed(body, label.charset),)
        case "markdown":
            return (document_of(decoded(body, label.charset)),)
        case _:
            return (Document("", "", tuple(sections(decoded(body, label.charset)))),)
