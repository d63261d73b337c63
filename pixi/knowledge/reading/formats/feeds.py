"""Feeds of news, RSS and Atom: an item after the other, with its address."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.reading.formats import plain
from pixi.knowledge.reading.formats.decoding import decoded
from pixi.knowledge.reading.formats.html import page_of
from pixi.knowledge.reading.outcome import SetAside

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ITEMS = frozenset({"item", "entry"})
_DATES = ("pubDate", "published", "updated", "date")
_TEXTS = ("encoded", "content", "description", "summary")
_MOST = 500  # items


def document_of(body: bytes, charset: str) -> Document:
    """The feed; other XML as the text that it is.

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
        return Document("", "", tuple(plain.sections(text)))
    items = [each for each in root.iter() if _name(each) in _ITEMS][:_MOST]
    if not items:
        return Document("", "", tuple(plain.sections(text)))
    title = next((each for each in root.iter() if _name(each) == "title"), None)
    return Document("", _told(title), tuple(_sections(items)))


def _sections(items: "list[Element]") -> Iterator[Section]:
    for item in items:
        parts = {_name(each): each for each in reversed(list(item))}
        address = _address(parts.get("link"))
        dated = next((_told(parts[name]) for name in _DATES if name in parts), "")
        text = next((told for name in _TEXTS if name in parts and (told := _told(parts[name]))), "")
        lines = [" ".join(filter(None, (dated, address))), text]
        title = _told(parts.get("title"))
        yield Section("\n".join(filter(None, lines)) or title, title)


def _address(link: "Element | None") -> str:
    """Atom has it as an attribute, RSS as text."""
    return "" if link is None else (link.get("href") or _told(link))


def _told(element: "Element | None") -> str:
    """What an element says, which may be HTML, as plain text."""
    text = "".join(element.itertext()).strip() if element is not None else ""
    if "<" not in text and "&" not in text:
        return " ".join(text.split())
    return "\n".join(line for line in page_of(text).lines if line)


def _name(element: "Element") -> str:
    """Its tag, without its namespace; "" for a comment."""
    tag: object = element.tag  # of a comment it is a function
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _without_declaration(text: str) -> str:
    """Without `<?xml … encoding=…?>`: it is text already."""
    text = text.lstrip("\ufeff \n\t")
    return text.partition("?>")[2] if text.startswith("<?xml") else text
