"""Routes that look things up: a guild's messages by words, its members by name, and pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pixi.testing.discord import payloads
from pixi.testing.discord.calls import ApiCall
from pixi.testing.discord.channels import WRITABLE, FakeChannel
from pixi.testing.discord.faults import fault, invalid, snowflake
from pixi.testing.discord.ids import moment
from pixi.testing.discord.intents import GatewayIntents
from pixi.testing.discord.permissions import Permission as P
from pixi.testing.discord.permissions import in_channel
from pixi.testing.discord.routing import ApiAnswer, ApiRoute, guild_of, number, visible

if TYPE_CHECKING:
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.messages import FakeMessage
    from pixi.testing.discord.world import World

MOST_CHANNELS = 500
LONGEST_CONTENT = 1024
READ = P.VIEW_CHANNEL | P.READ_MESSAGE_HISTORY


def search(world: World, call: ApiCall) -> object:
    """The messages of a guild that match, as far as the bot may read them, in groups of one."""
    guild = guild_of(world, call)
    if not world.privileged & GatewayIntents.MESSAGE_CONTENT:
        raise fault(50001)
    limit, offset = number(call, "limit", 25, 1, 25), number(call, "offset", 0, 0, 9975)
    content = call.query.get("content", "")
    if len(content) > LONGEST_CONTENT:
        raise invalid(("content",), "BASE_TYPE_MAX_LENGTH", "Must be 1024 or fewer in length.")
    channels, authors = _ids(call, "channel_id"), _ids(call, "author_id")
    if len(channels) > MOST_CHANNELS:
        raise invalid(("channel_id",), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 500 in length.")
    if world.index_waits:
        world.index_waits -= 1
        body = {"message": "Index not yet available. Try again later", "code": 110000}
        return ApiAnswer(202, body | {"documents_indexed": 0, "retry_after": 0.02})
    before, after = _bound(call, "max_id"), _bound(call, "min_id")
    words = content.casefold().split()
    found = [
        message
        for channel in _readable(world, guild, channels, adult=call.query.get("include_nsfw") == "true")
        for message in channel.messages
        if (not authors or message.author.id in authors)
        and (not before or message.id < before)
        and message.id > after
        and all(word in message.content.casefold() for word in words)
        and (words or authors)
    ]
    found.sort(key=lambda message: -message.id)
    return _answer(world, found, offset, limit)


def _answer(world: World, found: list[FakeMessage], offset: int, limit: int) -> object:
    chosen = found[offset : offset + limit]
    threads = {message.channel.id: message.channel for message in chosen if message.channel.is_thread}
    mine = [each for each in threads.values() if world.bot.id in each.thread_members]
    messages = [payloads.message(message, world) | {"hit": True} for message in chosen]
    for each in messages:
        each.pop("reactions", None)
    return {
        "analytics_id": "0",
        "doing_deep_historical_index": False,
        "total_results": len(found),
        "messages": [[each] for each in messages],
        "threads": [payloads.channel(each, world) for each in threads.values()],
        "members": [payloads.thread_member(each, world.bot) for each in mine],
    }


def _readable(world: World, guild: Guild, channels: set[int], *, adult: bool) -> Iterator[FakeChannel]:
    """Channels and threads that the bot may read; one that is named means its threads too."""
    for each in (*guild.channels.values(), *guild.threads.values()):
        room = each.parent if each.is_thread and each.parent else each
        if channels and not {each.id, room.id} & channels:
            continue
        if in_channel(each, world.bot) & READ == READ and (adult or not room.nsfw):
            yield each


def pins(world: World, call: ApiCall) -> object:
    """The pinned messages of a channel, the last pinned first."""
    channel = visible(world, call)
    limit = number(call, "limit", 50, 1, 50)
    if channel.type not in WRITABLE:
        raise fault(50008)
    if not in_channel(channel, world.bot) & P.READ_MESSAGE_HISTORY:
        return {"items": [], "has_more": False}
    before = call.query.get("before", "9")
    found = [
        {"pinned_at": moment(at), "message": world.readable(message, payloads.message(message, world))}
        for message, at in reversed(channel.pins)
        if moment(at) < before
    ]
    return {"items": found[:limit], "has_more": len(found) > limit}


def old_pins(world: World, call: ApiCall) -> object:
    """The same, as it was asked for before there were pages."""
    found = pins(world, call)
    return [each["message"] for each in found["items"]]  # type: ignore[index]


def members_named(world: World, call: ApiCall) -> object:
    """Members whose name or nickname begins so."""
    guild = guild_of(world, call)
    wanted = call.query.get("query", "").casefold()
    if not wanted:
        raise invalid(("query",), "BASE_TYPE_REQUIRED", "This field is required")
    found = [
        member.payload()
        for member in guild.members.values()
        if any(
            name and name.casefold().startswith(wanted)
            for name in (member.nick, member.user.display, member.user.name)
        )
    ]
    return found[: number(call, "limit", 1, 1, 1000)]


def thread_member(world: World, call: ApiCall) -> object:
    """Whether somebody follows a thread."""
    thread = visible(world, call)
    user = world.users.get(snowflake(call.ids["user"], "user_id"))
    if not thread.is_thread or user is None or user.id not in thread.thread_members:
        raise fault(10007)
    return payloads.thread_member(thread, user)


def _ids(call: ApiCall, name: str) -> set[int]:
    return {snowflake(value, name) for key, value in call.pairs if key == name}


def _bound(call: ApiCall, name: str) -> int:
    return snowflake(call.query[name], name) if name in call.query else 0


ROUTES = [
    ApiRoute("GET", "/guilds/{guild}/messages/search", search),
    ApiRoute("GET", "/guilds/{guild}/members/search", members_named),
    ApiRoute("GET", "/channels/{channel}/messages/pins", pins),
    ApiRoute("GET", "/channels/{channel}/pins", old_pins),
    ApiRoute("GET", "/channels/{channel}/thread-members/{user}", thread_member),
]
