"""Takes from a persona's words what deceives by its look: links under another name, and notices of Pixi's.

Discord shows `[free nitro](https://evil.example)` as the words alone, and a line that begins with `-# ` in
the small grey letters in which Pixi's own notices come. Only what is certainly code is left as it is. What
Discord takes for code depends on all that stands before: a backtick or a mark of bold, italics, a spoiler may
pair with one inside. So a block or span counts as code only where nothing before can meddle with it; all else
is treated as text, where the price of a mistake is a host too many.
"""

import re
from urllib.parse import unquote

_UNSEEN = "\u200b"

_LINK = r"""
    \]\(                                   # what stands before may be a link's name
    (?P<whole> \s* (?: <(?P<angle>[^<>\s\\]*)>
                     | (?P<bare>[^\s()<>\\]* (?: \([^\s()<>\\]*\) [^\s()<>\\]*)*) )
      (?: \s+ "[^"]*" )? \s* \) )?
"""
_PIECES = re.compile(
    rf"""
    (?P<block> ^``` (?: [a-z0-9_+\-.\#]+? \n )? \n* [^\n] .*? ```)    # as Discord reads it
    | (?P<span> (?<![`\\]) (?P<ticks> `{{1,2}}) (?!`) [^`\n]+ (?P=ticks) (?!`))
    | (?P<mark> [*_~|`] | <[^\s<>:`]*:/)    # a backtick here is of no code, or of code that is not certain
    | (?P<url> :// (?: (?!\]\() [^\s<] )*)   # Discord reads marks in it as letters
    | (?P<link> {_LINK})
    | (?P<notice> -\#)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_MARKS = frozenset("*_~|`")
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):[/\\]*(?P<authority>[^/\\?#]*)", re.IGNORECASE)


def without_misleading_markup(text: str, *, hosts: bool) -> str:
    """Return a persona's text in which no line looks like a notice; with `hosts`, links show where they lead.

    A link is followed by its host in brackets; one that is written so oddly that its end is not certain is
    broken by a zero-width character, so that its address can be read. Done twice it is the same.
    """
    if "](" not in text and "-#" not in text:
        return text
    before: set[str] = set()  # marks, any of which may pair with one inside a block or span that comes after

    def linked(match: re.Match[str]) -> str:
        return _with_host(match) if hosts else match[0]

    def shown(match: re.Match[str]) -> str:
        piece = match[0]
        if match["notice"]:
            return f"-{_UNSEEN}#"
        marks = _MARKS.intersection(piece)
        if match["mark"]:
            before.update(marks or "`")  # an address in brackets may go on over backticks
            return piece
        ticks = "```" if match["block"] else match["ticks"]
        if ticks and "`" not in before and before.isdisjoint(marks) and not _ends_a_link(piece):
            return piece
        before.update(marks)
        if match["url"]:
            return piece
        return ticks + _PIECES.sub(shown, piece[len(ticks) :]) if ticks else linked(match)

    return _PIECES.sub(shown, text)


def _with_host(match: re.Match[str]) -> str:
    """Return `](…)` with the host behind it; broken, where no address can be read in it."""
    text, target = match.string, match[0]
    address = _ADDRESS.match(match["angle"] or match["bare"] or "")
    if address is None:
        return f"]{_UNSEEN}{target[1:]}"
    authority = unquote(address["authority"]).rpartition("@")[2]
    host = _plain(re.sub(r":\d*$", "", authority) or address["scheme"])
    beside = f" ({host})"
    is_named = text.endswith(f"[{host}", 0, match.start())
    return target if is_named or text.startswith(beside, match.end()) else target + beside


def _plain(host: str) -> str:
    """Return a host as it is looked up, where letters that resemble Latin ones do not."""
    try:
        host = host.encode("idna").decode("ascii")
    except UnicodeError:
        host = host.encode("punycode", "replace").decode("ascii")
    return re.sub(r"[^a-z0-9.:_\[\]-]", "?", host.lower())


def _ends_a_link(code: str) -> bool:
    """Return True if what stands before may begin a link that ends within this code.

    To Discord a link's name goes on over backticks. It may hold `[…]`, which do not nest.
    """
    is_open = False
    for match in re.finditer(r"\[|\](\()?", code):
        if match[0] == "[":
            is_open = True
        elif is_open:
            is_open = False
        elif match[1]:
            return True
    return False
