"""Messages of before as they are told: words without markup that ping nobody, and a link that leads there."""

from dataclasses import replace
from typing import Any

import discord

from pixi.channels.archive import Written
from pixi.channels.discord.archive.requests import RawMessage
from pixi.channels.discord.archive.visibility import Place, Visibility
from pixi.channels.discord.gateway.server import address_of_chat
from pixi.channels.discord.incoming.message import author_of, carried_by, is_written, names_in
from pixi.channels.discord.incoming.wording import named_markup
from pixi.channels.discord.requests import UNREADABLE
from pixi.core.strangers import one_line

_READ = 4_000  # characters of a message that are looked at


def message_of(place: Place, hit: RawMessage) -> discord.Message | None:
    """The message, if somebody wrote it and it can be read."""
    raw: Any = {
        "type": 0,
        "content": "",
        "edited_timestamp": None,
        "pinned": False,
        "mention_everyone": False,
        "tts": False,
        "attachments": [],
        "embeds": [],
        "mentions": [],
        "mention_roles": [],
        **hit.raw,
    }
    if isinstance(place, discord.ForumChannel):
        return None  # which holds posts, and they hold the messages
    try:
        message = discord.Message(state=place._state, channel=place, data=raw)
    except UNREADABLE:
        return None
    return message if is_written(message) else None


def words_of(message: discord.Message, sight: Visibility, bot: discord.abc.User) -> str:
    """All that can be read of a message, with names in place of markup."""
    names = replace(names_in(message, bot), channel=sight.name_of, ours=())
    text = named_markup(message.content[:_READ], names)
    carried = "\n".join(carried_by(message))
    told = "\n".join(part for part in (text, named_markup(carried, names)) if part)
    return discord.utils.escape_mentions(told)


def written(message: discord.Message, place: Place, text: str) -> Written:
    """The message as it is told, with as much of its words."""
    author = author_of(message)
    return Written(
        author=unpinging(author.name),
        place=name_of(place),
        at=discord.utils.snowflake_time(message.id).timestamp(),
        text=text,
        link=link_to(place, message.id),
        bot=author.is_bot,
    )


def name_of(place: Place) -> str:
    """How people know a place."""
    if isinstance(place, discord.Thread):
        parent = place.parent
        return f"{name_of(parent)} › {unpinging(place.name)}" if parent is not None else unpinging(place.name)
    return f"#{unpinging(place.name)}"


def unpinging(name: str) -> str:
    """A stranger's name on one line, that pings nobody."""
    return discord.utils.escape_mentions(one_line(name))


def link_to(place: Place, message: int | None = None) -> str:
    """Return the address of a place or a message in it."""
    end = f"/{message}" if message else ""
    return f"{address_of_chat()}/channels/{place.guild.id}/{place.id}{end}"
