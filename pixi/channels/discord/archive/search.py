"""Looking for messages: by the server's own search, or where there is none in what was written last."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import discord
from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.discord.archive.requests import (
    PAGE,
    SEARCH_PAGE,
    HistoryRequests,
    IndexNotReady,
    RawMessage,
    thread_from,
)
from pixi.channels.discord.archive.visibility import ChannelOrThread, Visibility
from pixi.channels.discord.incoming.message import IncomingMessage, named_markup, names_in, translate
from pixi.channels.discord.places import address_of_chat
from pixi.channels.discord.requests import UNREADABLE, DiscordRefused
from pixi.core.channel import ArchivedMessage, FoundMessages
from pixi.core.errors import ChannelError, ChannelLost
from pixi.core.untrusted import prompt_name
from pixi.text.relevance import Cutter, most_relevant
from pixi.text.terms import Analysis, normalise, pieces, terms_of

_log = logging.getLogger("pixi.discord")

_READ = 4_000  # characters of a message that are looked at

_LONGEST_WORDS = 400  # characters of the words
_COMPARED_AT_ONCE = 500  # texts that are compared with each other
_SEARCH_PAGES = 4
_MOST_PLACES = 250  # that a search names, the newest: their ids stand in an address
_LONGEST = 1_024  # characters of what is searched; Discord's limit
_NONE_THERE = (0, 403, 404, 405)  # status of a refusal that will be the same the next time; 0: of no sense
_WITHOUT_SEARCH = 600.0  # seconds until a server that has no search is asked for it again
_FOR_INDEX = 6.0  # seconds that a server is given to finish its index
_SCANNED = 20  # places, of which the newest messages are read
_PAGES = 3  # of each
_AT_ONCE = 4
_MATCHES = 60  # messages that are looked at more closely
ONLY_LATEST = (
    "Only the latest messages of the newest channels were looked through, as this server has no search."
)
STILL_INDEXING = (
    "Discord is still preparing its search of this server, so only the latest messages were looked through; "
    "a later search finds more."
)
NOT_ALL = "Not everything could be looked through in time."
NOT_SHOWN = "The bot is not shown what people write: its operator can switch on Message Content Intent."


def read_message(place: ChannelOrThread, hit: RawMessage, visibility: Visibility) -> IncomingMessage | None:
    """Translate a message that Discord wrote in an answer; None: nobody wrote it, or it cannot be read.

    Names stand in place of its markup, as far as everybody here may know them.
    """
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
    names = replace(names_in(message, visibility.bot), channel=visibility.name_of, ours=())
    read = translate(message, visibility.bot, names, _READ)
    carried = [named_markup(each, names) for each in read.carried()]
    words = "\n".join(part for part in (read.text, *carried) if part)
    return replace(read, text=discord.utils.escape_mentions(words)) if read.is_written else None


def written(match: "Match", text: str) -> ArchivedMessage:
    """Tell of a message, with as much of its words."""
    message, place = match.message, match.place
    return ArchivedMessage(
        author=unpinging(message.author.name),
        place=name_of(place),
        at=discord.utils.snowflake_time(message.id).timestamp(),
        text=text,
        link=link_to(place, message.id),
        bot=message.author.is_bot,
    )


def name_of(place: ChannelOrThread) -> str:
    """Name a place as people know it."""
    if isinstance(place, discord.Thread):
        parent = place.parent
        return f"{name_of(parent)} › {unpinging(place.name)}" if parent is not None else unpinging(place.name)
    return f"#{unpinging(place.name)}"


def unpinging(name: str) -> str:
    """Put a stranger's name on one line, so that it pings nobody."""
    return discord.utils.escape_mentions(prompt_name(name))


def link_to(place: ChannelOrThread, message: int | None = None) -> str:
    """Return the address of a place or a message in it."""
    end = f"/{message}" if message else ""
    return f"{address_of_chat()}/channels/{place.guild.id}/{place.id}{end}"


async def best_first(words: str, texts: Sequence[str], limit: int) -> list[int]:
    """Return the numbers of the texts that have anything to do with the words, best first.

    Of equals the earlier one comes first; without words the first ones are given.
    """
    words = words[:_LONGEST_WORDS].strip()
    if not words:
        return list(range(min(limit, len(texts))))
    return await asyncio.to_thread(_ranked, words, texts, limit)


def _ranked(words: str, texts: Sequence[str], limit: int) -> list[int]:
    found = sorted(
        (-each.score, start + each.place)
        for start in range(0, len(texts), _COMPARED_AT_ONCE)
        for each in most_relevant(words, texts[start : start + _COMPARED_AT_ONCE])
    )
    best = -found[0][0] if found else 0.0
    return [place for score, place in found if -score >= best / 2][:limit]


def snippet(text: str, words: str) -> str:
    """Return the stretch of a text that says most about the words, on one line, within 240 characters."""
    terms: dict[str, float] = {}
    for kind, piece, _ in pieces(normalise(words[:_LONGEST_WORDS])):
        for term in [piece] if kind == "word" else terms_of(kind, piece):
            terms[term] = 1.0
    return Cutter(terms, Analysis(), ()).snippet(text)


class SearchTerms(Struct, frozen=True):
    """The terms of a search.

    Attributes:
        words: "" for whatever the authors wrote.
        authors: ids; empty: everybody's.
        name: of the author, where nobody tells whose it is; "" for anybody.
        before, after: ids between which the message's own must be; 0: any.
        anywhere: all that the bot may read is meant, so that no places need be named.
    """

    words: str
    authors: tuple[int, ...] = ()
    name: str = ""
    before: int = 0
    after: int = 0
    anywhere: bool = False


class Match(Struct, frozen=True):
    """A message that was found and may be told, and where it stands."""

    message: IncomingMessage
    place: ChannelOrThread


async def find_messages(
    terms: SearchTerms,
    places: Sequence[ChannelOrThread],
    view: Visibility,
    no_search: dict[int, float],
    *,
    limit: int,
) -> tuple[list[Match], str]:
    """Return the best messages in these places and their threads, and why not all was looked at.

    Args:
        terms: what is looked for.
        places: where.
        view: what may be told.
        no_search: until when guilds that have no search are left alone, on the monotonic clock.
        limit: so many messages at most.

    Raises:
        ChannelError: nothing could be looked at.
    """
    if not places:
        return [], ""
    guild, why = view.guild.id, ONLY_LATEST
    if no_search.get(guild, 0.0) <= time.monotonic():
        try:
            return await _searched(terms, places, view, limit)
        except IndexNotReady:
            why = STILL_INDEXING
        except (DiscordRefused, ChannelLost) as error:
            if isinstance(error, DiscordRefused) and error.status in _NONE_THERE:
                no_search[guild] = time.monotonic() + _WITHOUT_SEARCH
            else:  # it did not like these words, was asked too much, or did not answer
                why = NOT_ALL
            _log.info("guild %s cannot be searched: %s; its history is read", guild, error)
    found, partial = await _read_through(terms, places, view, limit)
    return found, " ".join(dict.fromkeys(reason for reason in (partial or why, why) if reason))


# By the server's own search.


async def _searched(
    terms: SearchTerms, places: Sequence[ChannelOrThread], view: Visibility, limit: int
) -> tuple[list[Match], str]:
    found: dict[int, Match] = {}
    partial = NOT_ALL if len(places) > _MOST_PLACES and not terms.anywhere else ""
    query = _query(terms, places, view)
    for number in range(_SEARCH_PAGES):
        try:
            hits, total = await _page(query, number * SEARCH_PAGE, view)
        except ChannelError:
            if not found:
                raise
            return list(found.values()), NOT_ALL
        for hit in hits:
            match = await _match(hit, view) if _fits(hit, terms) else None
            if match is not None:
                found.setdefault(match.message.id, match)
            if len(found) >= limit:
                return list(found.values()), ""
        if not hits or total <= (number + 1) * SEARCH_PAGE:
            return list(found.values()), partial
    return list(found.values()), NOT_ALL


async def _page(
    query: Sequence[tuple[str, str]], offset: int, view: Visibility
) -> tuple[list[RawMessage], int]:
    """Return a page of a search, and how much was found; an index that is being made is waited for."""
    waited = 0.0
    while True:
        try:
            return await view.requests.search(view.guild.id, query, offset)
        except IndexNotReady as early:
            waited += early.seconds
            if waited > min(_FOR_INDEX, view.requests.seconds_left):
                raise
            await asyncio.sleep(early.seconds)


async def _match(hit: RawMessage, view: Visibility) -> Match | None:
    """Return the message, where everybody who reads along may read it at this moment."""
    place: ChannelOrThread | None
    if hit.thread is not None:
        place = thread_from(view.guild, hit.thread)
    else:
        place = await view.place_by_id(hit.channel)
    if place is None or place.id != hit.channel:
        return None
    return await readable(hit, place, view)


# By reading what was written last.


async def _read_through(
    terms: SearchTerms, places: Sequence[ChannelOrThread], view: Visibility, limit: int
) -> tuple[list[Match], str]:
    chosen = (await _with_threads(places, view))[:_SCANNED]
    hits, partial = await _scanned(chosen, terms, view.requests)
    by_id = {place.id: place for place in chosen}
    matches = [await readable(hit, by_id[hit.channel], view) for hit in hits]
    return [match for match in matches if match is not None][:limit], partial


async def _with_threads(places: Sequence[ChannelOrThread], view: Visibility) -> list[ChannelOrThread]:
    """Return channels that hold messages, and their open threads that may be read; newest first."""
    channels = {place.id for place in places if not isinstance(place, discord.Thread)}
    found = {place.id: place for place in places if not isinstance(place, discord.ForumChannel)}
    for thread in view.guild.threads:
        if thread.parent_id in channels and await view.shows(thread):
            found.setdefault(thread.id, thread)
    return sorted(found.values(), key=lambda place: (place.id != view.here.id, -(place.last_message_id or 0)))


async def _scanned(
    places: Sequence[ChannelOrThread], terms: SearchTerms, requests: HistoryRequests
) -> tuple[list[RawMessage], str]:
    """Return what matches among the last messages of places, and why some of it may be missing."""
    at_once = asyncio.Semaphore(_AT_ONCE)
    read: list[list[RawMessage]] = [[] for _ in places]
    failures: list[ChannelError] = []

    async def scan(number: int, place: ChannelOrThread) -> None:
        before = terms.before or None
        async with at_once:
            for _ in range(_PAGES):
                try:
                    page = await requests.history(place.id, before=before)
                except ChannelError as error:
                    failures.append(error)
                    return
                read[number] += [hit for hit in page if _fits(hit, terms)]
                if len(page) < PAGE or page[-1].id <= terms.after:
                    return
                before = page[-1].id

    async with asyncio.TaskGroup() as tasks:
        for number, place in enumerate(places):
            tasks.create_task(scan(number, place))
    if failures and len(failures) == len(places):
        raise failures[0]
    missing = any(not isinstance(error, DiscordRefused) for error in failures)  # the others would be again
    hits = sorted((hit for page in read for hit in page), key=lambda hit: -hit.id)
    texts = [hit.text for hit in hits]
    best = await best_first(terms.words, texts, _MATCHES)
    partial = NOT_ALL if missing else ""
    if hits and not any(texts):
        partial = NOT_SHOWN
    return [hits[number] for number in best], partial


def _fits(hit: RawMessage, terms: SearchTerms) -> bool:
    author = hit.raw.get("author")
    author = author if isinstance(author, dict) else {}
    if terms.authors and str(author.get("id")) not in map(str, terms.authors):
        return False
    names = (str(author.get(key, "")).casefold() for key in ("username", "global_name"))
    if terms.name and terms.name.casefold() not in names:
        return False
    return hit.id > terms.after and (not terms.before or hit.id < terms.before)


async def readable(hit: RawMessage, place: ChannelOrThread, view: Visibility) -> Match | None:
    """Return a message, where somebody wrote something in it that everybody here may read at this moment."""
    if not await view.shows(place):
        return None
    message = read_message(place, hit, view)
    if message is None or not (message.webhook or await view.may_quote(int(message.author.id))):
        return None
    return Match(message, place) if message.text.strip() else None


def _query(terms: SearchTerms, places: Sequence[ChannelOrThread], view: Visibility) -> list[tuple[str, str]]:
    """Return the query of a search; without words the newest come first."""
    query = [("content", terms.words[:_LONGEST])] if terms.words else []
    if not terms.anywhere:
        query += [("channel_id", str(place.id)) for place in places[:_MOST_PLACES]]
    query += [("author_id", str(author)) for author in terms.authors]
    query += [("max_id", str(terms.before))] if terms.before else []
    query += [("min_id", str(terms.after))] if terms.after else []
    query += [("sort_by", "relevance" if terms.words else "timestamp"), ("sort_order", "desc")]
    if view.is_adult:
        query.append(("include_nsfw", "true"))
    return query


def found_of(matches: Sequence[Match], words: str, partial: str) -> FoundMessages:
    """Tell what was found: the stretch of each message that is about the words."""
    told = (written(each, snippet(each.message.text, words)) for each in matches)
    return FoundMessages(tuple(told), partial)
