"""Text that is safe to show: strangers' words without markup, and a persona's words without deceit.

Discord shows `[free nitro](https://evil.example)` as the words alone, and a line that begins with `-# ` in
the small grey letters in which Pixi's own notices come. So a persona's links show their host, and no line of
a persona's looks like a notice. Only what is certainly code is left as it is. What Discord takes for code
depends on all that stands before: a backtick or a mark of bold, italics, a spoiler may pair with one inside.
So a block or span counts as code only where nothing before can meddle with it; all else is treated as text,
where the price of a mistake is a host too many.

In a persona's words, a name also becomes a mention here, and a ping that is not allowed is broken.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import discord

LIMIT = 2_000
"""The longest message. Discord counts code points, compatible servers UTF-16 units: we count the latter."""

_LONGEST_NAME = 80
_TICK = "ˋ"  # looks like a backtick
_MARK = re.compile(r"(?P<link>https?://[^\s<>\[\]()`|\\]+)|(?P<mark>[\\`*_~|<>\[\]#])")
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and those that turn the direction of all that follows."""


def one_line(name: str) -> str:
    """Put a stranger's name on one short line, without control characters."""
    line = " ".join("".join(c if c.isprintable() or c == "\u200d" else " " for c in name).split())
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…"


def units(text: str) -> int:
    """Return how long Discord may find a text.

    Discord counts code points, compatible servers UTF-16 units; the latter are counted here.
    """
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def number(count: int) -> str:
    """Write a number with its thousands apart, as all languages can read it."""
    return f"{count:,}".replace(",", "\u202f")


def escape_markdown(text: str, limit: int) -> str:
    """Escape every sign that means something to Discord, within `limit` units. Addresses stay whole."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    # Marks make it longer, never shorter: what is beyond the limit need not be looked at.
    marked = _MARK.sub(lambda match: match["link"] or f"\\{match['mark']}", text[: limit + 1])
    return clipped(marked, limit, backslash=True)


def escape_line(text: str, limit: int) -> str:
    """Escape a text as one line."""
    return escape_markdown(" ".join(text.split()), limit)


def code_block(text: str, limit: int, language: str = "") -> str:
    """Put a text in a block of code, fences included no longer than `limit` units."""
    fences = f"```{language}\n\n```"
    body = _CONTROL.sub("", text).replace("`", _TICK).strip("\n")
    return f"```{language}\n{clipped(body, limit - len(fences))}\n```"


def clipped(text: str, limit: int, *, backslash: bool = False) -> str:
    """Cut a text that is longer than `limit` units, and mark that there is more.

    Args:
        text: what is too long, maybe.
        limit: in Discord's units.
        backslash: a backslash escapes what follows it, so none may be the last that is left.
    """
    if limit <= 0:
        return ""
    if units(text) <= limit:
        return text
    end = min(len(text), limit - 1)
    while units(text[:end]) > limit - 1:
        end -= max(1, (units(text[:end]) - limit + 1) // 2)
    head = text[:end]
    if backslash and (len(head) - len(head.rstrip("\\"))) % 2:
        head = head[:-1]
    return head.rstrip() + "…"


# What a persona writes: mentions.

LEFT_ALONE = (
    r"```.*?```|(?P<ticks>`{1,2})(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`)|<[^<>\s]{1,120}>|https?://[^\s<>]+"
)
"""Matches code, markup and addresses, in which no name is replaced."""

_PING = re.compile(r"<@(?P<role>&)?!?(?P<id>\d{1,20})>|@(?:everyone|here)", re.IGNORECASE)
_NOBODY = frozenset(("everyone", "here"))  # names that ping, whoever bears them


def with_mention(text: str, user_id: int, names: Iterable[str]) -> str:
    """Put a person's mention in place of `@` and one of their names, whole; code stays as it is."""
    known = sorted({name for name in names if name and name.casefold() not in _NOBODY}, key=len, reverse=True)
    if "@" not in text or not known:
        return text
    at = rf"(?<![a-z0-9_.])@(?P<name>{'|'.join(re.escape(name) + _end(name) for name in known)})"

    def put(match: re.Match[str]) -> str:
        return f"<@{user_id}>" if match["name"] else match[0]

    return re.sub(rf"{LEFT_ALONE}|{at}", put, text, flags=re.DOTALL | re.IGNORECASE)


def without_pings(text: str, allowed: discord.AllowedMentions) -> str:
    """Break every ping that is not allowed, for servers that ignore `allowed_mentions`.

    A zero-width character behind `@` breaks it; where that makes the text too long for a message, a wide `＠`
    in its place. Code is no shelter: a server that ignores the field may well look for pings there too.
    """

    def is_allowed(match: re.Match[str]) -> bool:
        if not match["id"]:
            return bool(allowed.everyone)
        those = allowed.roles if match["role"] else allowed.users  # all, none, or a list of them
        if isinstance(those, Sequence):
            return any(each.id == int(match["id"]) for each in those)
        return bool(those)

    def broken(at: str) -> str:
        return _PING.sub(lambda match: match[0] if is_allowed(match) else match[0].replace("@", at, 1), text)

    quiet = broken("@\u200b")
    return quiet if units(quiet) <= LIMIT else broken("＠")


def _end(name: str) -> str:
    """End a name where its word does; scripts that put no spaces between words go on."""
    return "" if unicodedata.east_asian_width(name[-1]) in "WF" else r"(?!\w)"


# What a persona writes: links, and lines that look like notices.

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
        written = _with_host(match) if hosts else match[0]
        if written.startswith(f"]{_UNSEEN}"):
            before.add("`")  # an address before a link that is broken goes on over backticks
        return written

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
