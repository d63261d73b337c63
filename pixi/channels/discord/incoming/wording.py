"""The words of a message as a persona reads them: names in place of Discord's markup."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

NameOf = Callable[[int], str | None]

NO_WORDS = "(no words)"
"""What stands for a message that holds nothing to be read, such as a mention alone."""

_LONGEST_NAME = 80
_MARKUP = re.compile(
    r"<(?:(?P<user>@!?)|(?P<role>@&)|(?P<channel>\#)|a?:(?P<emoji>\w{1,64}):|/(?P<command>[^<>\n:]{1,100}):)"
    r"(?P<id>\d{1,20})>"
)


def _unknown(_: int) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class MarkupNames:
    """What the ids in a message stand for.

    Attributes:
        ours: ids of the bot's user and of the role that Discord made for it.
        user, role, channel: give the name of an id; None where it is not known.
    """

    ours: Collection[int] = ()
    user: NameOf = field(default=_unknown)
    role: NameOf = field(default=_unknown)
    channel: NameOf = field(default=_unknown)


def named_markup(content: str, names: MarkupNames) -> str:
    """The text with `@Name`, `#channel`, `@role`, `:emoji:` and `/command` where it had ids.

    A mention of the bot that stands by itself at the beginning or the end is left out; nothing else is.
    """

    def named(match: re.Match[str]) -> str:
        known = int(match["id"])
        if match["emoji"]:
            return f":{match['emoji']}:"
        if match["command"]:
            return f"/{match['command']}"
        if match["channel"]:
            return f"#{one_line(names.channel(known) or 'unknown')}"
        name = names.role(known) if match["role"] else names.user(known)
        return f"@{one_line(name or 'unknown')}"

    return _MARKUP.sub(named, _without_our_mention(content, names.ours))


def one_line(name: str) -> str:
    """A stranger's name as one short line without control characters."""
    line = " ".join("".join(c if c.isprintable() or c == "\u200d" else " " for c in name).split())
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1] + "…"


def _without_our_mention(content: str, ours: Collection[int]) -> str:
    marks = "|".join(rf"<@[!&]?{own}>" for own in ours)
    if not marks:
        return content.strip()
    content = re.sub(rf"^(?:\s*(?:{marks})(?=\s|$))+", "", content.strip()).lstrip()
    last_word = re.compile(rf"(?:{marks})$")
    while (match := last_word.search(content, max(0, len(content) - 24))) and (
        match.start() == 0 or content[match.start() - 1].isspace()
    ):
        content = content[: match.start()].rstrip()
    return content
