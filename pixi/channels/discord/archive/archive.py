"""What was written in a guild before, as an archive that those who ask in one of its channels may use."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import discord

from pixi.channels.archive import Asking, Found, Posts, Query, Way
from pixi.channels.discord.archive.forums import Forums
from pixi.channels.discord.archive.places import NOT_HERE, ArchiveAccess, place_meant
from pixi.channels.discord.archive.requests import Deadline, HistoryRequests, Json, RawMessage
from pixi.channels.discord.archive.search import MessageSearch, SearchTerms, found_of, told
from pixi.channels.discord.archive.visibility import Place, Visibility
from pixi.channels.discord.archive.written import name_of, written
from pixi.channels.discord.backend import BotBackend
from pixi.channels.discord.requests import DiscordRefused, own_member
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.strangers import clipped

_SECONDS = 14.0  # for all that is asked of Discord for one question; a tool has 20
_FRESH = 5.0  # seconds for which the roles of who asks are believed
_KNOWN = 60.0  # those of others whom a channel names
_READ = 12_000  # characters of all messages that are read in their place
_SHORTEST = 200  # of one of them, however many they are

_LAST_ID = 2**63 - 1  # that there can be: Discord takes no search for those behind it
_DIGITS = 20
_NAME = 100  # characters of the name of somebody who is looked for

_SPOKEN = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)

NO_MEMBER = "Only members of this server can ask for what was written in it."


class MembersOf(Protocol):
    """Looks members up."""

    async def member(self, guild: discord.Guild, user: int, *, within: float = ...) -> discord.Member | None:
        """A member as they were at most so many seconds ago; None for whom is none."""
        ...


class Archives:
    """Gives the archives of one bot's channels.

    Args:
        client: the bot.
        house: has the rules.
        members: tells of members.
    """

    def __init__(self, client: discord.Client, backend: BotBackend, members: MembersOf) -> None:
        self.client = client
        self.backend = backend
        self.members = members
        self.looking = MessageSearch()

    def of(self, channel: object) -> "DiscordArchive | None":
        """The one of a channel or thread of a guild; a direct message has none."""
        if not isinstance(channel, _SPOKEN) or own_member(channel.guild) is None:
            return None
        return DiscordArchive(self, channel)


class DiscordArchive:
    """A `pixi.channels.archive.Archive`, for those who ask in one channel or thread."""

    def __init__(self, archives: Archives, here: Place) -> None:
        self._archives = archives
        self._here = here

    async def search(self, query: Query, asking: Asking) -> Found:
        """Messages of the guild that hold these words.

        Raises:
            ChannelError: there is no such place or person, or Discord tells nothing.
        """
        view = await self._view(asking)
        if query.place:
            place, _ = await place_meant(query.place, view)
            places: Sequence[Place] = (place,)
        else:
            places = await view.sight.rooms()
        sought = await self._sought(query, asking, view)
        looking = self._archives.looking
        matches, partial = await looking.messages(sought, places, view, limit=query.limit)
        return found_of(matches, query.words, partial)

    async def pins(self, place: str, asking: Asking, *, limit: int) -> Found:
        """What is pinned in a channel or thread.

        Raises:
            ChannelError: there is no such place, or Discord tells nothing.
        """
        view = await self._view(asking)
        where, _ = await place_meant(place or str(self._here.id), view)
        if isinstance(where, discord.ForumChannel):
            return Found()
        with _as_not_here():
            hits = await view.requests.pins(where.id)
        return await self._found(hits, where, view, limit)

    async def posts(self, query: Query, asking: Asking) -> Posts:
        """Posts of the guild's forums.

        Raises:
            ChannelError: there is no such forum, or Discord tells nothing.
        """
        view = await self._view(asking)
        if query.place:
            place, _ = await place_meant(query.place, view)
            if not isinstance(place, discord.ForumChannel):
                raise ChannelError(f"{name_of(place)} is no forum: name none to search all of them.")
            forums = [place]
        else:
            forums = [room for room in await view.sight.rooms() if isinstance(room, discord.ForumChannel)]
        if not forums:
            return Posts()
        posts, partial = await Forums(self._archives.looking).posts(
            query.words, forums, view, before=_id(asking.message), limit=query.limit
        )
        return Posts(posts, partial)

    async def read(self, where: str, asking: Asking, *, way: Way, limit: int) -> Found:
        """Messages round one, or the newest or oldest of a place.

        Raises:
            ChannelError: there is no such place, or Discord tells nothing.
        """
        view = await self._view(asking)
        place, message = await place_meant(where, view)
        if isinstance(place, discord.ForumChannel):
            raise ChannelError(f"{name_of(place)} is a forum: search it, and read one of its posts.")
        oldest: dict[str, int] = {"after": 0} if way == "after" else {}
        bounds: dict[str, int] = {way: message} if message is not None else oldest
        with _as_not_here():
            hits = await view.requests.history(place.id, limit=limit, **bounds)
        return await self._found(sorted(hits, key=lambda hit: hit.id), place, view, limit)

    # What all of them need.

    async def _view(self, asking: Asking) -> ArchiveAccess:
        """What those who ask may be told, as Discord and the rules have it at this moment."""
        archives, guild = self._archives, self._here.guild
        requests = HistoryRequests(archives.client.http, Deadline(_SECONDS))
        members = _within(archives.members, requests.deadline)
        people = [await _asker(each, guild, members) for each in asking.people]
        if not people:
            raise ChannelError(NO_MEMBER)

        async def follows(thread: discord.Thread, person: int) -> bool:
            return await requests.follows(thread.id, person)

        sight = Visibility(self._here, people, archives.backend.rules, members, follows)
        bot = archives.client.user
        assert bot is not None  # it hears messages
        return ArchiveAccess(sight, requests, bot)

    async def _found(
        self, hits: Sequence[RawMessage], place: Place, view: ArchiveAccess, limit: int
    ) -> Found:
        matches = [await told(hit, place, view) for hit in hits]
        longest = max(_SHORTEST, _READ // max(1, limit))
        messages = [
            written(each.message, place, clipped(each.words, longest)) for each in matches if each is not None
        ]
        return Found(tuple(messages[:limit]))

    async def _sought(self, query: Query, asking: Asking, view: ArchiveAccess) -> SearchTerms:
        asked_at = _id(asking.message)
        before = [each for each in (asked_at, _moment(query.before)) if each]
        authors, name = await _authors(query.author, view)
        return SearchTerms(
            words=query.words.strip(),
            authors=authors,
            name=name,
            before=min(before, default=0),
            after=_moment(query.after),
            anywhere=not query.place and view.sight.is_whole,
        )


async def _asker(person: str, guild: discord.Guild, members: "_LookUp") -> discord.Member:
    """Somebody who asks, as they are now."""
    member = await members(guild, int(person), within=_FRESH) if person.isdecimal() else None
    if member is None:
        raise ChannelError(NO_MEMBER)
    return member


@contextmanager
def _as_not_here() -> Iterator[None]:
    """What Discord refuses to the bot is told of as what is not there."""
    try:
        yield
    except DiscordRefused as error:
        if error.status not in (403, 404):
            raise
        raise ChannelError(NOT_HERE) from error


async def _authors(author: str, view: ArchiveAccess) -> tuple[tuple[int, ...], str]:
    """The ids of whoever goes by a name; where the server does not tell, the name itself."""
    given = author.strip().lstrip("@")
    if not given:
        return (), ""
    written_id = given.strip("<@!>")
    if written_id.isdecimal() and len(written_id) >= 15:
        return (min(int(written_id[:_DIGITS]), _LAST_ID),), ""
    guild, name = view.sight.guild, given.casefold()
    try:
        found = await view.requests.named(guild.id, given[:_NAME])
    except DiscordRefused:
        return (), given
    ids = {each: None for member in found if name in _names(member) and (each := _user_id(member))}
    me = own_member(guild)
    if me is not None and name in (me.display_name.casefold(), me.name.casefold()):
        ids[me.id] = None
    if not ids:
        raise ChannelError(f"Nobody here goes by the name {given[:60]!r}: leave the author out.")
    return tuple(ids), ""


class _LookUp(Protocol):
    async def __call__(
        self, guild: discord.Guild, user: int, /, *, within: float = ...
    ) -> discord.Member | None: ...


def _within(members: MembersOf, deadline: Deadline) -> _LookUp:
    """Looks members up as long as there is time."""

    async def look_up(guild: discord.Guild, user: int, /, *, within: float = _KNOWN) -> discord.Member | None:
        try:
            async with asyncio.timeout(deadline.left):
                return await members.member(guild, user, within=within)
        except TimeoutError:
            raise ChannelLost("there was no time left to look members up.") from None

    return look_up


def _names(member: Json) -> set[str]:
    user = member.get("user") or {}
    return {
        str(each).casefold()
        for each in (member.get("nick"), user.get("global_name"), user.get("username"))
        if each
    }


def _user_id(member: Json) -> int:
    found = str((member.get("user") or {}).get("id", ""))
    return int(found) if found.isdecimal() else 0


def _moment(seconds: float | None) -> int:
    """The id of a message of that moment; 0 for none."""
    if seconds is None:
        return 0
    return min(max(1, int(seconds * 1_000 - discord.utils.DISCORD_EPOCH) << 22), _LAST_ID)


def _id(written_id: str) -> int:
    return min(int(written_id[:_DIGITS]), _LAST_ID) if written_id.isdecimal() else 0
