"""A server's own stickers: which of them a persona means, and their names as they can stand in a prompt."""

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rapidfuzz import fuzz, process

from pixi.channels.discord.outgoing.aiming import guild_in
from pixi.channels.discord.outgoing.rest import MessageContent
from pixi.core.errors import ChannelError
from pixi.core.strangers import one_line

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

MOST_NAMES = 25
"""How many of a server's stickers a persona is told of."""

_LONGEST = 100  # characters that are looked at
_ALMOST = 80.0  # of 100: how alike names are of which one is a slip of the other
_SHOWN = (".png", ".gif")
"""What Discord shows of a link. Of some stickers there is only a drawing that moves by a script."""

_MEANING = re.compile(r"[\[\]【】［］`\\<>|*_~,#:\s]+")
"""What the command language, a prompt or a list would take for something else."""


class OwnSticker(Protocol):
    """A sticker that a server made. Names, descriptions and tags are strangers' words."""

    @property
    def id(self) -> int:
        """Discord's."""
        ...

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def description(self) -> str:
        """What is to be seen."""
        ...

    @property
    def emoji(self) -> str:
        """Its tag: the name of an emoji that goes with it."""
        ...

    @property
    def url(self) -> str:
        """Where its picture is."""
        ...


def own_stickers(channel: "MessageableChannel") -> Sequence[OwnSticker]:
    """The server's stickers that can be sent there; none in a DM."""
    guild = guild_in(channel)
    return [each for each in guild.stickers if each.available] if guild is not None else ()


def names_of(stickers: Sequence[OwnSticker]) -> tuple[str, ...]:
    """Their names as a persona is told them: harmless, in the order of the alphabet, not too many.

    Discord tells of stickers in no order of its own, and what a persona is told should stay as it is.
    """
    told = {_plain(each.name) for each in stickers}
    return tuple(sorted(name for name in told if name)[:MOST_NAMES])


def find(words: str, stickers: Sequence[OwnSticker]) -> OwnSticker | None:
    """The sticker that is meant: by its name in any case, nearly its name, or what it is described by."""
    wanted = _key(words[:_LONGEST])
    if not wanted:
        return None
    names = [_key(each.name) for each in stickers]
    if wanted in names:
        return stickers[names.index(wanted)]
    nearly = process.extractOne(wanted, names, scorer=fuzz.ratio, score_cutoff=_ALMOST)
    if nearly is not None:
        return stickers[nearly[2]]
    said = [_key(f"{each.name} {each.description} {each.emoji}") for each in stickers]
    told = process.extractOne(wanted, said, scorer=fuzz.token_set_ratio, score_cutoff=_ALMOST)
    return stickers[told[2]] if told is not None else None


def sticker_content(name: str, stickers: Sequence[OwnSticker], *, as_link: bool) -> MessageContent:
    """The message that shows a sticker.

    Args:
        name: what it nearly is called.
        stickers: what there is.
        as_link: its picture is shown by a link, where it has one: a webhook cannot send stickers.

    Raises:
        ChannelError: there is none like it.
    """
    found = find(name, stickers)
    if found is None:
        raise ChannelError(f"There is no sticker {one_line(name)!r}.")
    if as_link and found.url.partition("?")[0].endswith(_SHOWN):
        return MessageContent(found.url)
    return MessageContent(sticker=found.id)


def _plain(name: str) -> str:
    return " ".join(_MEANING.sub(" ", one_line(name)).split()).strip("'=")


def _key(text: str) -> str:
    return " ".join(_MEANING.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())
