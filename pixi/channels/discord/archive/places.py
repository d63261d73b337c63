"""Finds the place that a model means, by a link, an id or a name. What may not be read is not there."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import discord

from pixi.channels.discord.archive.requests import HistoryRequests, thread_from
from pixi.channels.discord.archive.visibility import Place, Visibility
from pixi.core.errors import ChannelError

NOT_HERE = (
    "There is no such channel or thread that everybody who reads along here may read: give the name of one, "
    "or the link of a message."
)
"""Said of what does not exist and of what may not be read: in the same words, so that neither is told."""

_LINK = re.compile(
    r"<?https?://[^\s<>/]{1,200}(?:/[^\s<>/]{1,40})*?/channels/(?P<guild>\d{1,20})/(?P<channel>\d{1,20})"
    r"(?:/(?P<message>\d{1,20}))?/?>?"
)
_ID = re.compile(r"<#(\d{1,20})>|(\d{15,20})")
_PLACES = (
    discord.TextChannel,
    discord.VoiceChannel,
    discord.StageChannel,
    discord.ForumChannel,
    discord.Thread,
)


@dataclass(frozen=True, slots=True)
class ArchiveAccess:
    """How one question is answered: what may be told, how it is asked for, and the bot's own user."""

    sight: Visibility
    requests: HistoryRequests
    bot: discord.abc.User


async def place_meant(text: str, view: ArchiveAccess) -> tuple[Place, int | None]:
    """The place that a text means, and the message where it is the link of one.

    Raises:
        ChannelError: there is none that may be read.
    """
    text = text.strip()
    link = _LINK.fullmatch(text)
    if link is not None:
        message = int(link["message"]) if link["message"] else None
        here = int(link["guild"]) == view.sight.guild.id
        found = await place_by_id(int(link["channel"]), view) if here else None
    elif ids := _ID.fullmatch(text):
        message, found = None, await place_by_id(int(ids[1] or ids[2]), view)
    else:
        message, found = None, None
    if found is None and link is None:
        found = await _place_by_name(text, view.sight)
    if found is None:
        raise ChannelError(NOT_HERE)
    return found, message


async def place_by_id(channel_id: int, view: ArchiveAccess) -> Place | None:
    """A channel or thread of the guild that may be read, an archived one too; else None."""
    sight = view.sight
    found: object = sight.guild.get_channel_or_thread(channel_id)
    if found is None:
        raw = await view.requests.channel(channel_id)
        found = thread_from(sight.guild, raw) if raw is not None else None
    if not isinstance(found, _PLACES) or not await sight.shows(found):
        return None
    return found


async def _place_by_name(text: str, sight: Visibility) -> Place | None:
    """By its name alone, or as places are told of: `#channel › thread`."""
    above, _, name = text.rpartition("›")
    for alike in (_exactly, _by_letters):
        wanted, parent = alike(name), alike(above)
        for place in _named(sight.guild):
            if not wanted or alike(place.name) != wanted:
                continue
            room = place.parent if isinstance(place, discord.Thread) else None
            if (not parent or (room is not None and alike(room.name) == parent)) and await sight.shows(place):
                return place
    return None


def _named(guild: discord.Guild) -> Iterator[Place]:
    yield from guild.text_channels
    yield from guild.forums
    yield from guild.voice_channels
    yield from guild.stage_channels
    yield from guild.threads


def _exactly(name: str) -> str:
    return name.strip().removeprefix("#").casefold()


def _by_letters(name: str) -> str:
    """A name without what people decorate it with."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if letter.isalnum())
