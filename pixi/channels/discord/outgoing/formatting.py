"""Strangers' words as they can be shown: no markup, no address under another name, not too long."""

import re

from pixi.channels.discord.outgoing.splitting import units

_TICK = "ˋ"  # looks like a backtick
_MARK = re.compile(r"(?P<link>https?://[^\s<>\[\]()`|\\]+)|(?P<mark>[\\`*_~|<>\[\]#])")
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, and those that turn the direction of all that follows."""


def escape_markdown(text: str, limit: int) -> str:
    """A text in which no sign means anything to Discord, as long as `limit` at most. Addresses stay whole."""
    text = _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    # Marks make it longer, never shorter: what is beyond the limit need not be looked at.
    marked = _MARK.sub(lambda match: match["link"] or f"\\{match['mark']}", text[: limit + 1])
    return clipped(marked, limit, backslash=True)


def escape_line(text: str, limit: int) -> str:
    """The same as one line."""
    return escape_markdown(" ".join(text.split()), limit)


def code_block(text: str, limit: int, language: str = "") -> str:
    """A text as a block of code, fences included no longer than `limit`."""
    fences = f"```{language}\n\n```"
    body = _UNSEEN.sub("", text).replace("`", _TICK).strip("\n")
    return f"```{language}\n{clipped(body, limit - len(fences))}\n```"


def clipped(text: str, limit: int, *, backslash: bool = False) -> str:
    """The text, or its beginning and a sign that there is more.

    Args:
        text: what is too long, maybe.
        limit: in Discord's units.
        backslash: it escapes what follows it, so that none may be the last that is left.
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
