"""The archive of a guild, as those who ask in one of its channels may use it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import discord
from msgspec import Struct, field

from pixi.channels.discord.archive.requests import HistoryRequests, Json, RawMessage, thread_from
from pixi.channels.discord.archive.search import (
    NOT_ALL,
    Match,
    SearchTerms,
    best_first,
    find_messages,
    found_of,
    link_to,
    name_of,
    readable,
    snippet,
    unpinging,
    written,
)
from pixi.channels.discord.archive.visibility import NOT_HERE, ChannelOrThread, Visibility
from pixi.channels.discord.outgoing.delivery import PostingContext
from pixi.channels.discord.places import own_member
from pixi.channels.discord.requests import DiscordRefused
from pixi.core.channel import ArchiveQuery, Asker, ForumPost, FoundMessages, FoundPosts, Way
from pixi.core.errors import ChannelError
from pixi.core.untrusted import clipped

_SECONDS = 14.0  # for all that is asked of Discord for one question; a tool has 20
_FRESH = 5.0  # seconds for which the roles of who asks are believed
_READ = 12_000  # characters of all messages that are read in their place
_SHORTEST = 200  # of one of them, however many they are

_LAST_ID = 2**63 - 1  # that there can be: Discord takes no search for those behind it
_DIGITS = 20
_NAME = 100  # characters of the name of somebody who is looked for

_SPOKEN = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)

NO_MEMBER = "Only members of this server can ask for what was written in it."

_FORUMS = 8  # whose archived posts are read
_HITS = 40
_TITLES = 20  # posts that are looked at more closely
_ANSWERS = 50  # messages of a post that are read
_BEST = 2
_FIRST = 600  # characters of a post's first message
_AT_ONCE = 4
# What people call a tag of posts that need no answer any more, in the languages that the bot speaks.
_SOLVED = (
    *("solved", "answered", "resolved", "fixed", "done", "closed", "complete", "implemented"),
    *("gelöst", "geloest", "beantwortet", "erledigt", "resuelt", "solucionad", "contestad", "respondid"),
    *("résolu", "resolu", "répondu", "解決", "回答済", "resolvid", "concluíd", "已解决", "已解決", "已回答"),
    *("✅", "✔", "☑", "решен", "решён", "해결", "opgelost", "risolto", "rozwiązan", "çözüldü"),
)
_UNSOLVED = ("unsolved", "unanswered", "unresolved", "not ", "ungelöst", "sin ", "non ", "未", "não ", "не")
_MARKS = ("✅", "✔️", "✔", "☑️", "👍", "⭐", "❤️", "🎉")


def archive_of(context: PostingContext, channel: object) -> "DiscordArchive | None":
    """Return the archive of a channel or thread of a guild; a direct message has none."""
    if not isinstance(channel, _SPOKEN) or own_member(channel.guild) is None:
        return None
    return DiscordArchive(context, channel)


class DiscordArchive:
    """A `pixi.core.channel.Archive`, for those who ask in one channel or thread."""

    def __init__(self, context: PostingContext, here: ChannelOrThread) -> None:
        self._context = context
        self._here = here

    async def search(self, query: ArchiveQuery, asking: Asker) -> FoundMessages:
        """Search the messages of the guild.

        Raises:
            ChannelError: there is no such place or person, or Discord tells nothing.
        """
        view = await self._view(asking)
        if query.place:
            place, _ = await view.place_meant(query.place)
            places: Sequence[ChannelOrThread] = (place,)
        else:
            places = await view.channels()
        terms = await self._terms_of(query, asking, view)
        no_search = self._context.no_search
        matches, partial = await find_messages(terms, places, view, no_search, limit=query.limit)
        return found_of(matches, query.words, partial)

    async def pins(self, place: str, asking: Asker, *, limit: int) -> FoundMessages:
        """Return what is pinned in a channel or thread.

        Raises:
            ChannelError: there is no such place, or Discord tells nothing.
        """
        view = await self._view(asking)
        where, _ = await view.place_meant(place or str(self._here.id))
        if isinstance(where, discord.ForumChannel):
            return FoundMessages()
        with _as_not_here():
            hits = await view.requests.pins(where.id)
        return await self._found(hits, where, view, limit)

    async def posts(self, query: ArchiveQuery, asking: Asker) -> FoundPosts:
        """Search the posts of the guild's forums.

        Raises:
            ChannelError: there is no such forum, or Discord tells nothing.
        """
        view = await self._view(asking)
        if query.place:
            place, _ = await view.place_meant(query.place)
            if not isinstance(place, discord.ForumChannel):
                raise ChannelError(f"{name_of(place)} is no forum: name none to search all of them.")
            forums = [place]
        else:
            forums = [
                channel for channel in await view.channels() if isinstance(channel, discord.ForumChannel)
            ]
        if not forums:
            return FoundPosts()
        threads, whole = await _threads(forums, view)  # first: without them nothing that is found is a post
        terms = SearchTerms(query.words, before=_id(asking.message))
        matches, partial = await find_messages(terms, forums, view, self._context.no_search, limit=_HITS)
        posts = await _posts(query, threads, view, matches)
        return FoundPosts(posts, partial or ("" if whole else NOT_ALL))

    async def read(self, where: str, asking: Asker, *, way: Way, limit: int) -> FoundMessages:
        """Return the messages round one, or the newest or oldest of a place.

        Raises:
            ChannelError: there is no such place, or Discord tells nothing.
        """
        view = await self._view(asking)
        place, message = await view.place_meant(where)
        if isinstance(place, discord.ForumChannel):
            raise ChannelError(f"{name_of(place)} is a forum: search it, and read one of its posts.")
        oldest: dict[str, int] = {"after": 0} if way == "after" else {}
        bounds: dict[str, int] = {way: message} if message is not None else oldest
        with _as_not_here():
            hits = await view.requests.history(place.id, limit=limit, **bounds)
        return await self._found(sorted(hits, key=lambda hit: hit.id), place, view, limit)

    # What all of them need.

    async def _view(self, asking: Asker) -> Visibility:
        """Find out what those who ask may be told, as Discord and the rules have it at this moment."""
        client = self._context.client
        requests = HistoryRequests(client.http, self._context.directory, _SECONDS)
        people = [await _asker(each, self._here.guild, requests) for each in asking.people]
        if not people:
            raise ChannelError(NO_MEMBER)
        assert client.user is not None  # it hears messages
        return Visibility(self._here, people, self._context.backend.rules, requests, client.user)

    async def _found(
        self, hits: Sequence[RawMessage], place: ChannelOrThread, view: Visibility, limit: int
    ) -> FoundMessages:
        matches = [await readable(hit, place, view) for hit in hits]
        longest = max(_SHORTEST, _READ // max(1, limit))
        messages = [
            written(each, clipped(each.message.text, longest)) for each in matches if each is not None
        ]
        return FoundMessages(tuple(messages[:limit]))

    async def _terms_of(self, query: ArchiveQuery, asking: Asker, view: Visibility) -> SearchTerms:
        asked_at = _id(asking.message)
        before = [each for each in (asked_at, _moment(query.before)) if each]
        authors, name = await _authors(query.author, view)
        return SearchTerms(
            words=query.words.strip(),
            authors=authors,
            name=name,
            before=min(before, default=0),
            after=_moment(query.after),
            anywhere=not query.place and view.is_whole,
        )


async def _asker(person: str, guild: discord.Guild, requests: HistoryRequests) -> discord.Member:
    """Look up somebody who asks, as they are now."""
    member = await requests.member(guild, int(person), within=_FRESH) if person.isdecimal() else None
    if member is None:
        raise ChannelError(NO_MEMBER)
    return member


@contextmanager
def _as_not_here() -> Iterator[None]:
    """Tell of what Discord refuses to the bot as of what is not there."""
    try:
        yield
    except DiscordRefused as error:
        if error.status not in (403, 404):
            raise
        raise ChannelError(NOT_HERE) from error


async def _authors(author: str, view: Visibility) -> tuple[tuple[int, ...], str]:
    """Return the ids of those who go by a name; where the server does not tell, the name itself."""
    given = author.strip().lstrip("@")
    if not given:
        return (), ""
    written_id = given.strip("<@!>")
    if written_id.isdecimal() and len(written_id) >= 15:
        return (min(int(written_id[:_DIGITS]), _LAST_ID),), ""
    guild, name = view.guild, given.casefold()
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
    """Return the id of a message of that moment; 0 for none."""
    if seconds is None:
        return 0
    return min(max(1, int(seconds * 1_000 - discord.utils.DISCORD_EPOCH) << 22), _LAST_ID)


def _id(written_id: str) -> int:
    return min(int(written_id[:_DIGITS]), _LAST_ID) if written_id.isdecimal() else 0


class _Candidate(Struct):
    """A post that may be meant: how well it fits, and which of its messages do."""

    thread: discord.Thread
    worth: float = 0.0
    hits: list[Match] = field(default_factory=list)


async def _posts(
    query: ArchiveQuery, threads: Mapping[int, discord.Thread], view: Visibility, matches: Sequence[Match]
) -> list[ForumPost]:
    """Return the best of some posts; `matches` are messages in them that were found."""
    found = await _found(query.words, threads, matches)
    heard = [each for each in found if await view.may_quote(each.thread.owner_id)]  # whose title it is
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def read(candidate: _Candidate) -> ForumPost:
        async with at_once:
            return await _post(candidate, query.words, view)

    return await asyncio.gather(*map(read, heard[: query.limit]))


async def _threads(
    forums: Sequence[discord.ForumChannel], view: Visibility
) -> tuple[dict[int, discord.Thread], bool]:
    """Return the open posts of forums and the newest archived ones; and whether all could be asked for."""
    ids = {forum.id for forum in forums}
    found = {thread.id: thread for thread in view.guild.threads if thread.parent_id in ids}
    whole = len(forums) <= _FORUMS
    for forum in forums[:_FORUMS]:
        try:
            archived = await view.requests.archived(forum.id)
        except ChannelError as error:
            whole &= isinstance(error, DiscordRefused)  # who would refuse it again
            continue  # the open ones are there all the same
        for raw in archived:
            thread = thread_from(view.guild, raw)
            if thread is not None and thread.parent_id == forum.id:
                found.setdefault(thread.id, thread)
    return {each.id: each for each in found.values() if await view.shows(each)}, whole


async def _found(
    words: str, threads: Mapping[int, discord.Thread], matches: Sequence[Match]
) -> list[_Candidate]:
    """Return the posts whose title or messages have to do with the words; of equals solved ones first."""
    found: dict[int, _Candidate] = {}
    every = sorted(threads.values(), key=lambda thread: -thread.id)
    by_title = await best_first(words, [thread.name for thread in every], _TITLES)
    for rank, number in enumerate(by_title):
        candidate = found.setdefault(every[number].id, _Candidate(every[number]))
        candidate.worth += 3.0 / (1 + 0.1 * rank)
    for rank, match in enumerate(matches):
        if isinstance(match.place, discord.Thread):
            candidate = found.setdefault(match.place.id, _Candidate(match.place))
            candidate.worth += 2.0 / (1 + 0.2 * rank) if len(candidate.hits) < 3 else 0.0
            candidate.hits.append(match)
    for candidate in found.values():
        candidate.worth += 0.5 * is_solved(candidate.thread)
    return sorted(found.values(), key=lambda each: (-each.worth, -each.thread.id))[:_TITLES]


async def _post(candidate: _Candidate, words: str, view: Visibility) -> ForumPost:
    thread = candidate.thread
    try:
        read = await view.requests.message(thread.id, thread.id)
        read += await view.requests.history(thread.id, limit=_ANSWERS, after=thread.id)
    except ChannelError:
        read = []  # the title and what was found are told all the same
    messages: dict[int, Match] = {match.message.id: match for match in candidate.hits}
    for hit in read:
        match = await readable(hit, thread, view)
        if match is not None:
            messages.setdefault(match.message.id, match)
    first = messages.pop(thread.id, None)
    liked = {hit.id: _likes(hit) for hit in read}
    fitting = {match.message.id for match in candidate.hits}

    def worth(match: Match) -> float:
        by_asker = first is not None and match.message.author.id == first.message.author.id
        long = min(len(match.message.text), 400) / 400
        return liked.get(match.message.id, 0.0) + 2.0 * (match.message.id in fitting) + long - 1.5 * by_asker

    answers = sorted(messages.values(), key=lambda match: (-worth(match), match.message.id))[:_BEST]
    return ForumPost(
        title=unpinging(thread.name),
        place=_forum_of(thread),
        at=discord.utils.snowflake_time(thread.id).timestamp(),
        link=link_to(thread),
        tags=tuple(unpinging(tag.name) for tag in thread.applied_tags),
        solved=is_solved(thread),
        closed=thread.locked,
        answers=max(thread.message_count, sum(hit.id != thread.id for hit in read)),
        first=written(first, clipped(first.message.text, _FIRST)) if first else None,
        best=tuple(written(each, snippet(each.message.text, words)) for each in answers),
    )


def is_solved(thread: discord.Thread) -> bool:
    """Return whether a tag of a post says that it is solved."""
    names = [f"{tag.name} {tag.emoji or ''}".casefold() for tag in thread.applied_tags]
    return any(
        any(word in name for word in _SOLVED) and not any(name.startswith(word) for word in _UNSOLVED)
        for name in names
    )


def _likes(hit: RawMessage) -> float:
    """Tell how much people liked a message, by reactions; the marks of a good answer count most."""
    found = hit.raw.get("reactions")
    worth = 0.0
    for each in found if isinstance(found, list) else ():
        match each:
            case {"emoji": {"name": name}, "count": int(count)}:
                worth += min(count, 10) * (2.0 if name in _MARKS else 0.5)
    return worth


def _forum_of(thread: discord.Thread) -> str:
    place: ChannelOrThread | None = thread.parent
    return name_of(place) if place is not None else ""
