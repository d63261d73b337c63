"""To whom a message goes: who is answered, by which name they are mentioned, whom it may ping."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.outgoing.context import PostingContext
from pixi.channels.discord.outgoing.emoji import OwnEmoji
from pixi.channels.discord.outgoing.mentions import with_mention
from pixi.channels.discord.outgoing.splitting import LIMIT, units
from pixi.channels.discord.requests import own_member

if TYPE_CHECKING:
    from discord.abc import MessageableChannel


def author_of(shared: PostingContext, channel: "MessageableChannel", message: int | None) -> int | None:
    """The id of the person who wrote a message, where it is remembered."""
    heard = shared.recent.find(channel.id, message) if message else None
    return int(heard.author.id) if heard and heard.author.id.isdecimal() else None


def addressed(
    shared: PostingContext, channel: "MessageableChannel", text: str, answered: int | None, person: int | None
) -> str:
    """The text with the name of the person answered as their mention, where that is not too long."""
    if answered is None or person is None or "@" not in text:
        return text
    heard = shared.recent.find(channel.id, answered)
    names = {heard.author.name} if heard else set()
    guild = guild_in(channel)
    known = (guild.get_member(person) if guild else None) or shared.client.get_user(person)
    if known is not None:
        names |= {known.name, known.display_name, known.global_name or known.name}
    mentioned = with_mention(text, person, names)
    return mentioned if units(mentioned) <= LIMIT else text


def pings(shared: PostingContext, person: int | None) -> discord.AllowedMentions:
    """Whom a message may ping that answers a person."""
    allowed = shared.backend.rules.pings
    return discord.AllowedMentions(
        everyone="everyone" in allowed,
        roles="roles" in allowed,
        users=True if "users" in allowed else [discord.Object(person)] if person else False,
        replied_user=False,
    )


def guild_in(channel: "MessageableChannel") -> discord.Guild | None:
    """The server that a channel is in, where it is known."""
    return getattr(channel, "guild", None)


def own_emoji(channel: "MessageableChannel") -> Sequence[OwnEmoji]:
    """The server's emoji that the bot can use there."""
    guild = guild_in(channel)
    if guild is None:
        return ()
    me = own_member(guild)  # without it nobody knows which roles the bot has
    return [
        emoji
        for emoji in guild.emojis
        if emoji.available and (not emoji.roles or (me is not None and emoji.is_usable()))
    ]
