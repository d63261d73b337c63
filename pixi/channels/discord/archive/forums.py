"""Posts of forums: which have to do with some words, whether they are solved, and what answers them best."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import discord

from pixi.channels.archive import Post
from pixi.channels.discord.archive.matching import best_first, snippet
from pixi.channels.discord.archive.places import ArchiveAccess
from pixi.channels.discord.archive.requests import RawMessage, thread_from
from pixi.channels.discord.archive.search import NOT_ALL, Match, MessageSearch, SearchTerms, told
from pixi.channels.discord.archive.visibility import Place
from pixi.channels.discord.archive.written import link_to, name_of, unpinging, written
from pixi.channels.discord.requests import DiscordRefused
from pixi.core.errors import ChannelError
from pixi.core.strangers import clipped

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


@dataclass(slots=True)
class _Candidate:
    """A post that may be meant: how well it fits, and which of its messages do."""

    thread: discord.Thread
    worth: float = 0.0
    hits: list[Match] = field(default_factory=list)


class Forums:
    """Looks for posts."""

    def __init__(self, looking: MessageSearch) -> None:
        self._looking = looking

    async def posts(
        self,
        words: str,
        forums: Sequence[discord.ForumChannel],
        view: ArchiveAccess,
        *,
        before: int,
        limit: int,
    ) -> tuple[list[Post], str]:
        """The best posts of forums that may be read, and why not all were looked at.

        Raises:
            ChannelError: nothing could be looked at.
        """
        threads, whole = await _threads(forums, view)
        matches, partial = await self._looking.messages(
            SearchTerms(words, before=before), forums, view, limit=_HITS
        )
        found = await _found(words, threads, matches)
        heard = [each for each in found if await view.sight.hears(each.thread.owner_id)]  # whose title it is
        best = heard[:limit]
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def read(candidate: _Candidate) -> Post:
            async with at_once:
                return await _post(candidate, words, view)

        return list(await asyncio.gather(*map(read, best))), partial or ("" if whole else NOT_ALL)


async def _threads(
    forums: Sequence[discord.ForumChannel], view: ArchiveAccess
) -> tuple[dict[int, discord.Thread], bool]:
    """The open posts of forums, and the newest of those that are archived; and whether all could be asked."""
    sight, ids = view.sight, {forum.id for forum in forums}
    found = {thread.id: thread for thread in sight.guild.threads if thread.parent_id in ids}
    whole = len(forums) <= _FORUMS
    for forum in forums[:_FORUMS]:
        try:
            archived = await view.requests.archived(forum.id)
        except ChannelError as error:
            whole &= isinstance(error, DiscordRefused)  # who would refuse it again
            continue  # the open ones are there all the same
        for raw in archived:
            thread = thread_from(sight.guild, raw)
            if thread is not None and thread.parent_id == forum.id:
                found.setdefault(thread.id, thread)
    return {each.id: each for each in found.values() if await sight.shows(each)}, whole


async def _found(
    words: str, threads: Mapping[int, discord.Thread], matches: Sequence[Match]
) -> list[_Candidate]:
    """The posts whose title or messages have to do with the words; of equals those with an answer first."""
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


async def _post(candidate: _Candidate, words: str, view: ArchiveAccess) -> Post:
    thread = candidate.thread
    try:
        read = await view.requests.message(thread.id, thread.id)
        read += await view.requests.history(thread.id, limit=_ANSWERS, after=thread.id)
    except ChannelError:
        read = []  # the title and what was found are told all the same
    messages: dict[int, Match] = {match.message.id: match for match in candidate.hits}
    for hit in read:
        match = await told(hit, thread, view)
        if match is not None:
            messages.setdefault(match.message.id, match)
    first = messages.pop(thread.id, None)
    liked = {hit.id: _likes(hit) for hit in read}
    fitting = {match.message.id for match in candidate.hits}

    def worth(match: Match) -> float:
        by_asker = first is not None and match.message.author.id == first.message.author.id
        long = min(len(match.words), 400) / 400
        return liked.get(match.message.id, 0.0) + 2.0 * (match.message.id in fitting) + long - 1.5 * by_asker

    answers = sorted(messages.values(), key=lambda match: (-worth(match), match.message.id))[:_BEST]
    return Post(
        title=unpinging(thread.name),
        place=_forum_of(thread),
        at=discord.utils.snowflake_time(thread.id).timestamp(),
        link=link_to(thread),
        tags=tuple(unpinging(tag.name) for tag in thread.applied_tags),
        solved=is_solved(thread),
        closed=thread.locked,
        answers=max(thread.message_count, sum(hit.id != thread.id for hit in read)),
        first=written(first.message, thread, clipped(first.words, _FIRST)) if first else None,
        best=tuple(written(each.message, thread, snippet(each.words, words)) for each in answers),
    )


def is_solved(thread: discord.Thread) -> bool:
    """Whether one of its tags says so."""
    names = [f"{tag.name} {tag.emoji or ''}".casefold() for tag in thread.applied_tags]
    return any(
        any(word in name for word in _SOLVED) and not any(name.startswith(word) for word in _UNSOLVED)
        for name in names
    )


def _likes(hit: RawMessage) -> float:
    """How much people liked a message, by their reactions; the marks of a good answer count most."""
    found = hit.raw.get("reactions")
    worth = 0.0
    for each in found if isinstance(found, list) else ():
        match each:
            case {"emoji": {"name": name}, "count": int(count)}:
                worth += min(count, 10) * (2.0 if name in _MARKS else 0.5)
    return worth


def _forum_of(thread: discord.Thread) -> str:
    place: Place | None = thread.parent
    return name_of(place) if place is not None else ""
