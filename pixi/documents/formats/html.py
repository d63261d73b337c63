"""HTML: what a person would read of a page, below its headings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pixi.core.errors import Reporter
from pixi.documents.files import Document, Original, Section, SetAside
from pixi.documents.formats.text import Heading, decoded, outlined

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_LEFT_OUT = frozenset(
    {
        *("area", "audio", "base", "button", "canvas", "datalist", "dialog", "embed", "frame", "frameset"),
        *("head", "iframe", "input", "link", "map", "menu", "meta", "nav", "noframes", "noscript", "object"),
        *("optgroup", "option", "script", "select", "source", "style", "svg", "template", "textarea"),
        *("title", "track", "video"),
    }
)
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr"),
        *("legend", "main", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead"),
        *("tr", "ul"),
    }
)
_APART = frozenset({"blockquote", "dl", "figure", "ol", "p", "pre", "table", "ul"})  # empty lines round them
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

_CHARSET = re.compile(
    rb"<(?:meta|\?xml)[^<>]{0,300}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I
)
_EMPTY_ELEMENT = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_VOID = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source"),
        *("track", "wbr"),
    }
)
_NESTING = re.compile(
    r"<(/?)(?!(?:p|li|d[td]|t[drh]|option|thead|tbody|tfoot|col)\b)([a-z][\w:.-]*)[^<>]*>", re.I
)
_DEEPEST = 5_000  # elements in elements: building the tree takes as long as the square of that
_LONG_TAG = re.compile(r"<[A-Za-z][^<>]{40000,}")
_MOST_ATTRIBUTES = 10_000  # of one element: each is compared with all that stand before it


def read(original: Original, _: Reporter) -> Iterable[Document]:
    """Return the page, as one document."""
    data = original.all_bytes()
    return (page_of(decoded(data, charset_in(data))).document(),)


def charset_in(data: bytes) -> str:
    """Return the encoding that a page names itself; "" where it names none."""
    told = _CHARSET.search(data[:2048])
    return told[1].decode("ascii", "replace") if told else ""


@dataclass
class HtmlLines:
    """The lines of a page, and which of them are headings.

    Attributes:
        title: what its head says.
        lines: its text.
        headings: in order, by their place in `lines`.
    """

    title: str = ""
    lines: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)

    def document(self) -> Document:
        """Return the page as a document of its own."""
        document = outlined(self.lines, self.headings, self.title)
        return replace(document, title=self._best_title(), sections=without_lines(document))

    def _best_title(self) -> str:
        """Return the outermost heading where the title is that and the name of the site; else the title."""
        outermost = [heading.text for heading in self.headings if heading.level == 1]
        if len(outermost) == 1 and (not self.title or outermost[0] in self.title):
            return outermost[0]
        return self.title or outlined(self.lines, self.headings).title


def without_lines(document: Document) -> tuple[Section, ...]:
    """Return its sections without lines: those that they were made of are not those of the file."""
    return tuple(replace(section, line=0) for section in document.sections)


def page_of(text: str) -> HtmlLines:
    """Read a page, HTML or XHTML.

    Raises:
        SetAside: its elements are nested too deep.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(closed_elements(text))
    writer = _Writer()
    root = tree.root
    if root is None:
        return writer.page
    title = tree.css_first("head > title")
    writer.page.title = " ".join(title.text().split()) if title is not None else ""
    _walk(root, writer)
    writer.end_line()
    return writer.page


def closed_elements(text: str) -> str:
    """Return HTML or XML with every empty element written as two tags.

    XML may close in one what HTML takes for open: a `<title/>` would swallow all that follows it.

    Raises:
        SetAside: its elements are nested too deep, or one has too many attributes.
    """
    for tag in _LONG_TAG.finditer(text):
        if len(tag[0].split()) > _MOST_ATTRIBUTES:
            raise SetAside(
                f"has an element with more than {_MOST_ATTRIBUTES:,} attributes; save it anew as plain text"
            )
    text = _EMPTY_ELEMENT.sub(_closed, text)
    _check_depth(text)
    return text


def _closed(element: re.Match[str]) -> str:
    name, attributes = element.groups()
    return element.group() if name.lower() in _VOID else f"<{name}{attributes}></{name}>"


def _check_depth(text: str) -> None:
    depth = 0
    for tag in _NESTING.finditer(text):
        if tag[1]:
            depth -= 1
        elif tag[2].lower() not in _VOID:
            depth += 1
            if depth > _DEEPEST:
                raise SetAside(f"nests elements more than {_DEEPEST:,} deep; save it anew as plain text")


def _walk(root: "LexborNode", writer: "_Writer") -> None:
    """Walk through the whole tree, without recursion: it may be deep."""
    top = root.mem_id  # to compare two nodes would write both of them out
    node: LexborNode | None = root
    while node is not None:
        inside = writer.enter(node)
        following = node.first_child if inside else None
        if following is None:
            writer.leave(node)
            while (following := node.next) is None:
                node = node.parent
                if node is None or node.mem_id == top:
                    return
                writer.leave(node)
        node = following


class _Writer:
    """Writes the lines and headings of the nodes that are entered and left."""

    def __init__(self) -> None:
        self.page = HtmlLines()
        self._inline: list[str] = []  # of the line that is not ended
        self._pre = 0  # depth of elements in which spaces and line breaks count
        self._cells = 0  # depth of cells: in them, nothing begins a line
        self._lists: list[int] = []  # for each list that is open, the number of its next item; 0: no numbers
        self._levels: list[int] = []  # of the headings that are open

    def enter(self, node: "LexborNode") -> bool:
        """Write what begins with a node; return True if its children are to be walked."""
        name = node.tag
        if name == "-text":
            self._say(node.text_content or "")
        elif name is None or name.startswith("-") or name in _LEFT_OUT or is_hidden(node):
            return False
        elif name == "br":
            self._inline.append("\n" if not self._cells else " ")
        elif name == "img":
            self._inline.append(f" {node.attributes.get('alt') or ''} ")
        elif name in _HEADINGS and not self._cells:
            self.end_line()
            self._levels.append(_HEADINGS[name])
        else:
            self._open(name)
        return True

    def leave(self, node: "LexborNode") -> None:
        """Leave a node at its end. Called too for a node that was not looked into."""
        name = node.tag or ""
        if name in _HEADINGS and self._levels and not self._cells:
            self._end_heading(self._levels.pop())
        elif name in ("td", "th"):
            self._cells = max(self._cells - 1, 0)
        elif name == "pre":
            self.end_line()
            self._pre = max(self._pre - 1, 0)
            self._gap(name)
        elif name in ("ul", "ol"):
            self.end_line()
            if self._lists:
                self._lists.pop()
            self._gap(name)
        elif name in _BLOCKS or name == "li":
            self._break()
            self._gap(name)

    def end_line(self) -> None:
        """Write what was gathered."""
        text, self._inline = "".join(self._inline), []
        if self._pre:
            self.page.lines.extend(text.strip("\n").split("\n"))
            return
        for line in text.split("\n"):
            words = " ".join(line.split())
            if words.strip("|- ") or (words and not self.page.lines):
                self.page.lines.append(words)

    def _open(self, name: str) -> None:
        if name in ("td", "th"):
            if "".join(self._inline).strip():
                self._inline.append(" | ")
            self._cells += 1
        elif name == "li":
            self._break()
            self._inline.append(self._item())
        elif name in _BLOCKS:
            self._break()
            self._gap(name)
            if name == "pre":
                self.end_line()
                self._pre += 1
            elif name in ("ul", "ol"):
                self._lists.append(int(name == "ol"))

    def _item(self) -> str:
        if not self._lists or not self._lists[-1]:
            return "- "
        self._lists[-1] += 1
        return f"{self._lists[-1] - 1}. "

    def _say(self, text: str) -> None:
        if self._pre:
            self._inline.append(text)
        else:
            self._inline.append(text.replace("\n", " "))

    def _break(self) -> None:
        if self._cells:
            self._inline.append(" ")
        else:
            self.end_line()

    def _gap(self, name: str) -> None:
        outside = name in _APART and not self._cells and not self._lists
        if outside and self.page.lines and self.page.lines[-1]:
            self.page.lines.append("")

    def _end_heading(self, level: int) -> None:
        words = " ".join("".join(self._inline).split())
        self._inline = []
        if words:
            at = len(self.page.lines)
            self.page.lines.append(words)
            self.page.headings.append(Heading(level, words, at, at + 1))


def is_hidden(node: "LexborNode") -> bool:
    """Return True if a browser would not show it: what strangers like to write there is for machines."""
    attributes = node.attributes
    if not attributes:
        return False
    style = attributes.get("style")
    return "hidden" in attributes or (style is not None and _UNSEEN.search(style) is not None)
