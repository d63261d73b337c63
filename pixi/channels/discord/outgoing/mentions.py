"""Whom a message names and pings: `@Name` becomes a mention, and `:name:` the server's own emoji."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.formatting import units
from pixi.channels.discord.outgoing.context import PostingContext
from pixi.channels.discord.outgoing.emoji import OwnEmoji, emoji_markup
from pixi.channels.discord.outgoing.splitting import LIMIT
from pixi.channels.discord.places import guild_in, own_member

if TYPE_CHECKING:
    from discord.abc import MessageableChannel

_LEFT_ALONE = (
    r"```.*?```|(?P<ticks>`{1,2})(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`)|<[^<>\s]{1,120}>|https?://[^\s<>]+"
)
_EMOJI = re.compile(rf"{_LEFT_ALONE}|:(?P<name>\w{{2,32}}):", re.DOTALL)
_MENTION = re.compile(r"<@\d{1,20}>")
_PING = re.compile(r"<@(?P<role>&)?!?(?P<id>\d{1,20})>|@(?:everyone|here)", re.IGNORECASE)
_LONGEST_NAME = 40  # Discord allows 32 characters
_MENTIONS = 20  # are compared in one message
_NOBODY = frozenset(("everyone", "here"))  # names that ping, whoever bears them


def with_own_emoji(text: str, own: Sequence[OwnEmoji]) -> str:
    """Put a server's emoji in place of their names between colons; code stays as it is."""
    if ":" not in text or not own:
        return text
    exactly = {each.name: each for each in own}
    loosely = {each.name.casefold(): each for each in own}

    def put(match: re.Match[str]) -> str:
        name = match["name"]
        found = (exactly.get(name) or loosely.get(name.casefold())) if name else None
        return emoji_markup(found) if found else match[0]

    return _EMOJI.sub(put, text)


def with_mention(text: str, user_id: int, names: Iterable[str]) -> str:
    """Put a person's mention in place of `@` and one of their names, whole; code stays as it is."""
    known = sorted({name for name in names if name and name.casefold() not in _NOBODY}, key=len, reverse=True)
    if "@" not in text or not known:
        return text
    at = rf"(?<![a-z0-9_.])@(?P<name>{'|'.join(re.escape(name) + _end(name) for name in known)})"

    def put(match: re.Match[str]) -> str:
        return f"<@{user_id}>" if match["name"] else match[0]

    return re.sub(rf"{_LEFT_ALONE}|{at}", put, text, flags=re.DOTALL | re.IGNORECASE)


def without_pings(text: str, allowed: discord.AllowedMentions) -> str:
    """Break every ping that is not allowed, for servers that ignore `allowed_mentions`.

    A zero-width character behind `@` breaks it; where that makes the text too long for a message, a wide `＠`
    in its place. Code is no shelter: a server that ignores the field may well look for pings there too.
    """

    def is_allowed(match: re.Match[str]) -> bool:
        kind = allowed.roles if match["role"] else allowed.users if match["id"] else allowed.everyone
        return any(each.id == int(match["id"]) for each in kind) if isinstance(kind, Sequence) else bool(kind)

    def broken(at: str) -> str:
        return _PING.sub(lambda match: match[0] if is_allowed(match) else match[0].replace("@", at, 1), text)

    quiet = broken("@\u200b")
    return quiet if units(quiet) <= LIMIT else broken("＠")


def may_be(posted: str, text: str) -> bool:
    """Return whether a posted text is this one, where one person's name may have become their mention."""
    return posted == text or any(
        _may_be(posted, text, mention) for mention in {match[0] for match in _MENTION.finditer(posted)}
    )


def _may_be(posted: str, text: str, mention: str) -> bool:
    first, *others = posted.split(mention)
    places = {len(first)} if text.startswith(first) else set()
    for piece in others[:_MENTIONS]:  # a name stands before each
        places = {
            place + length + len(piece)
            for place in places
            if text.startswith("@", place)
            for length in range(2, _LONGEST_NAME + 2)
            if text.startswith(piece, place + length)
        }
    return len(text) in places


def _end(name: str) -> str:
    """End a name where its word does; scripts that put no spaces between words go on."""
    return "" if unicodedata.east_asian_width(name[-1]) in "WF" else r"(?!\w)"


def author_of(context: PostingContext, channel: "MessageableChannel", message: int | None) -> int | None:
    """Return the id of the person who wrote a message, where it is remembered."""
    heard = context.recent.find(channel.id, message) if message else None
    return int(heard.author.id) if heard and heard.author.id.isdecimal() else None


def with_author_mentioned(
    context: PostingContext,
    channel: "MessageableChannel",
    text: str,
    answered: int | None,
    person: int | None,
) -> str:
    """Put a mention in place of `@` and the name of the person answered, where that is not too long."""
    if answered is None or person is None or "@" not in text:
        return text
    heard = context.recent.find(channel.id, answered)
    names = {heard.author.name} if heard else set()
    guild = guild_in(channel)
    known = (guild.get_member(person) if guild else None) or context.client.get_user(person)
    if known is not None:
        names |= {known.name, known.display_name, known.global_name or known.name}
    mentioned = with_mention(text, person, names)
    return mentioned if units(mentioned) <= LIMIT else text


def allowed_mentions(context: PostingContext, person: int | None) -> discord.AllowedMentions:
    """Tell whom a message may ping that answers a person."""
    allowed = context.backend.rules.pings
    return discord.AllowedMentions(
        everyone="everyone" in allowed,
        roles="roles" in allowed,
        users=True if "users" in allowed else [discord.Object(person)] if person else False,
        replied_user=False,
    )


def own_emoji(channel: "MessageableChannel") -> Sequence[OwnEmoji]:
    """Return the server's emoji that the bot can use there."""
    guild = guild_in(channel)
    if guild is None:
        return ()
    me = own_member(guild)  # without it nobody knows which roles the bot has
    return [
        OwnEmoji(emoji.id, emoji.name, emoji.animated)
        for emoji in guild.emojis
        if emoji.available and (not emoji.roles or (me is not None and emoji.is_usable()))
    ]
