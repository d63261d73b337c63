"""Requests for what was written before, and their answers as plain data."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import discord
from discord.http import HTTPClient, Route
from msgspec import Struct

from pixi.channels.discord.permissions import MEMBER_SECONDS, Directory
from pixi.channels.discord.requests import UNKNOWN_MEMBER, UNKNOWN_USER, DiscordRefused, send_request
from pixi.core.errors import ChannelLost

Json = dict[str, Any]

PAGE = 100
"""Messages in one answer about a channel's history."""

SEARCH_PAGE = 25
"""Messages in one answer of a search."""

_PINS = 50
_COMPARED = 2_000  # characters of a message
_THREADS = 100
_MATCHES = 10  # members of a name
_PATIENCE = 1.0  # seconds in which a request is made again
_NO_INDEX = 110_000  # code of an answer: what is searched is still being indexed
_FOR_SEARCH = 6.0  # seconds for a page of a search, so that there is time to do without
_LEAST_WAIT = 0.5  # seconds, where the server wants to be asked again and names none
_THREAD_TYPES = (10, 11, 12)
_NO_THREAD_MEMBER = (UNKNOWN_MEMBER, UNKNOWN_USER, 10_067)


class RawMessage(Struct, frozen=True):
    """A message as Discord writes it, and the thread that it stands in where Discord sent that along."""

    raw: Mapping[str, Any]
    thread: Mapping[str, Any] | None = None

    @property
    def id(self) -> int:
        """Return the id of the message."""
        return int(self.raw["id"])

    @property
    def channel(self) -> int:
        """Id of where it stands."""
        return int(self.raw["channel_id"])

    @property
    def text(self) -> str:
        """Return what the message is compared by: its words, those of boxes, names of files."""
        embeds, files = _objects(self.raw.get("embeds")), _objects(self.raw.get("attachments"))
        parts = [self.raw.get("content")]
        parts += [each.get(key) for each in embeds for key in ("title", "description")]
        parts += [each.get("filename") for each in files]
        return "\n".join(str(part) for part in parts if part)[:_COMPARED]


class IndexNotReady(ChannelLost):
    """The server is still making its index; `seconds` later it may be asked again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Discord is still preparing the search of this server.")
        self.seconds = seconds


class HistoryRequests:
    """Asks Discord within so many seconds. Raises `DiscordRefused`; `ChannelLost` where the time is over."""

    def __init__(self, http: HTTPClient, directory: Directory, seconds: float) -> None:
        self._http = http
        self._directory = directory
        self._until = time.monotonic() + seconds
        self._channels: dict[int, Json | None] = {}

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the time is over; never below 0."""
        return max(0.0, self._until - time.monotonic())

    async def member(
        self, guild: discord.Guild, user: int, *, within: float = MEMBER_SECONDS
    ) -> discord.Member | None:
        """Return a member as they were at most so many seconds ago; None for whom is none."""
        try:
            async with asyncio.timeout(self.seconds_left):
                return await self._directory.member(guild, user, within=within)
        except TimeoutError:
            raise ChannelLost("there was no time left to look members up.") from None

    async def search(
        self, guild: int, terms: Sequence[tuple[str, str]], offset: int
    ) -> tuple[list[RawMessage], int]:
        """Return a page of a guild's search, and how many messages were found in all.

        Raises:
            IndexNotReady: it is too early.
        """
        route = Route("GET", "/guilds/{guild_id}/messages/search", guild_id=guild)
        query = [*terms, ("limit", str(SEARCH_PAGE)), ("offset", str(offset))]
        answer = await self._ask(
            lambda: self._http.request(route, params=query), "search", within=_FOR_SEARCH
        )
        if not isinstance(answer, dict):
            raise DiscordRefused("Discord's answer to the search could not be read.")
        if answer.get("code") == _NO_INDEX:
            wait = answer.get("retry_after")
            raise IndexNotReady(
                max(_LEAST_WAIT, float(wait)) if isinstance(wait, int | float) else _LEAST_WAIT
            )
        threads = {str(each.get("id")): each for each in _objects(answer.get("threads"))}
        groups = answer.get("messages")
        groups = groups if isinstance(groups, list) else []
        found = [message for group in groups for message in _objects(group)]
        hits = [RawMessage(raw, threads.get(str(raw.get("channel_id")))) for raw in found if _is_message(raw)]
        total = answer.get("total_results")
        return hits, total if isinstance(total, int) else len(hits)

    async def history(
        self,
        channel: int,
        *,
        limit: int = PAGE,
        before: int | None = None,
        after: int | None = None,
        around: int | None = None,
    ) -> list[RawMessage]:
        """Return messages of a channel, newest first."""
        answer = await self._ask(
            lambda: self._http.logs_from(channel, limit, before=before, after=after, around=around), "history"
        )
        return _hits(answer, channel)

    async def message(self, channel: int, message: int) -> list[RawMessage]:
        """Return one message; none where it is gone."""
        try:
            answer = await self._ask(lambda: self._http.get_message(channel, message), "message")
        except DiscordRefused as error:
            if error.status == 404:
                return []
            raise
        return _hits([answer], channel)

    async def pins(self, channel: int) -> list[RawMessage]:
        """The pinned messages of a channel, the last pinned first; older servers have another address."""
        try:
            answer = await self._ask(lambda: self._http.pins_from(channel, limit=_PINS), "pins")
        except DiscordRefused as error:
            if error.status not in (404, 405) or error.code:
                raise
            route = Route("GET", "/channels/{channel_id}/pins", channel_id=channel)
            return _hits(await self._ask(lambda: self._http.request(route), "pins"), channel)
        items = answer.get("items") if isinstance(answer, dict) else None
        return _hits([each.get("message") for each in _objects(items)], channel)

    async def archived(self, forum: int) -> list[Json]:
        """Return the newest of the archived threads of a channel."""
        answer = await self._ask(
            lambda: self._http.get_public_archived_threads(forum, limit=_THREADS), "threads"
        )
        return _objects(answer.get("threads")) if isinstance(answer, dict) else []

    async def channel(self, channel: int) -> Json | None:
        """Return a channel or thread; None where there is none that the bot may know of."""
        if channel not in self._channels:
            self._channels[channel] = None
            with suppress(DiscordRefused):
                answer: object = await self._ask(lambda: self._http.get_channel(channel), "channel")
                self._channels[channel] = answer if isinstance(answer, dict) else None
        return self._channels[channel]

    async def named(self, guild: int, name: str) -> list[Json]:
        """Return members whose names begin so."""
        route = Route("GET", "/guilds/{guild_id}/members/search", guild_id=guild)
        query = {"query": name, "limit": _MATCHES}
        return _objects(await self._ask(lambda: self._http.request(route, params=query), "members"))

    async def follows(self, thread: int, person: int) -> bool:
        """Return whether somebody was added to a thread."""
        try:
            await self._ask(lambda: self._http.get_thread_member(thread, person), "thread's members")
        except DiscordRefused as error:
            if error.status == 404 or error.code in _NO_THREAD_MEMBER:
                return False
            raise
        return True

    async def _ask(
        self, request: Callable[[], Awaitable[Any]], what: str, *, within: float | None = None
    ) -> Any:
        """Return the answer, however often it is asked for until then."""
        seconds = self.seconds_left if within is None else min(self.seconds_left, within)
        try:
            async with asyncio.timeout(seconds):
                return await send_request(request, what, seconds=seconds, patience=_PATIENCE)
        except TimeoutError:
            raise ChannelLost(f"there was no time left for the {what}.") from None


def thread_from(guild: discord.Guild, raw: Mapping[str, Any]) -> discord.Thread | None:
    """Return a thread of the guild that Discord told of in an answer; None for whatever is none."""
    data: Any = {"name": "", "owner_id": 0, "message_count": 0, "member_count": 0, **raw}
    try:
        if int(raw.get("guild_id") or guild.id) != guild.id or int(raw["type"]) not in _THREAD_TYPES:
            return None
        return discord.Thread(guild=guild, state=guild._state, data=data)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _hits(found: object, channel: int) -> list[RawMessage]:
    messages = ({**each, "channel_id": str(channel)} for each in _objects(found))
    return [RawMessage(raw) for raw in messages if _is_message(raw)]


def _is_message(raw: Mapping[str, Any]) -> bool:
    return all(str(raw.get(key, "")).isdecimal() for key in ("id", "channel_id"))


def _objects(found: object) -> list[Json]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
