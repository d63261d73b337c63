"""Routes of channels, threads and guilds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixi.testing.discord import gateway, payloads, routing
from pixi.testing.discord.calls import ApiCall, fault, longest, snowflake
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.routing import ApiRoute, guild_of, need, need_in_guild, number, visible
from pixi.testing.discord.users import Permission as P

if TYPE_CHECKING:
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World


def gateway_url(world: World, call: ApiCall) -> object:
    """Return where the gateway is."""
    return {"url": world.origin.replace("http", "ws", 1)}


def gateway_bot(world: World, call: ApiCall) -> object:
    """Return the same, with what a bot should know."""
    limit = {"total": 1000, "remaining": 1000, "reset_after": 14_400_000, "max_concurrency": 1}
    shards = world.gateway.settings.shards
    return {"url": world.gateway.url, "shards": shards, "session_start_limit": limit}


def me(world: World, call: ApiCall) -> object:
    """Return the bot."""
    return world.bot.payload()


def application(world: World, call: ApiCall) -> object:
    """Return the application that the bot belongs to; its flags tell which privileged intents are on."""
    return {
        "id": str(world.application_id),
        "name": world.bot.name,
        "icon": None,
        "description": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": world.flags,
        "owner": world.bot.payload(),
    }


def my_guilds(world: World, call: ApiCall) -> object:
    """Return the guilds that the bot is in, with what it may do there."""
    limit = number(call, "limit", 200, 1, 200)
    after = snowflake(call.query.get("after", "0"), "after")
    guilds = [world.guilds[each] for each in sorted(world.guilds) if each > after]
    return [payloads.partial_guild(each, world) for each in guilds[:limit]]


def dm_with(world: World, person: User) -> FakeChannel:
    """Return the DM of the bot and somebody."""
    channel = world.dms.get(person.id)
    if channel is None:
        channel = FakeChannel(world, world.ids.next(), 1, recipients=(person, world.bot))
        world.dms[person.id] = world.channels[channel.id] = channel
    return channel


def guild(world: World, call: ApiCall) -> object:
    """Return a guild."""
    return payloads.guild(guild_of(world, call))


def guild_channels(world: World, call: ApiCall) -> object:
    """Return the channels of a guild, without its threads."""
    return [payloads.channel(each, world) for each in guild_of(world, call).channels.values()]


def member(world: World, call: ApiCall) -> object:
    """Answer with a member of a guild."""
    found = guild_of(world, call).members.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10007)
    return gateway.member(found.payload()) if world.lean else found.payload()


def edit_my_member(world: World, call: ApiCall) -> object:
    """Change the bot's profile in a guild: nickname and avatar."""
    here = guild_of(world, call)
    fields = routing.fields_of(call)
    mine = here.bot_member
    longest(("nick",), fields.get("nick"), 32)
    if "nick" in fields:
        need_in_guild(world, here, P.CHANGE_NICKNAME)
        mine.nick = fields["nick"] or None
    if "avatar" in fields:
        mine.avatar = routing.image(fields["avatar"], "avatar")
    world.tell_guild("GUILD_MEMBER_UPDATE", here, mine.payload())
    return mine.payload()


def channel(world: World, call: ApiCall) -> object:
    """Return a channel, thread or DM."""
    return payloads.channel(visible(world, call), world)


def archived_threads(world: World, call: ApiCall) -> object:
    """Return the archived public threads of a channel, the newest first."""
    parent = visible(world, call)
    need(world, parent, P.READ_MESSAGE_HISTORY)
    limit = number(call, "limit", 50, 1, 100)
    threads = parent.guild.threads.values() if parent.guild else ()
    found = [each for each in threads if each.parent is parent and each.archived and not each.private]
    found.sort(key=lambda each: -each.id)
    told = [payloads.channel(each, world) for each in found[:limit]]
    return {"threads": told, "members": [], "has_more": len(found) > limit}


_CHANNEL, _GUILD = "/channels/{channel}", "/guilds/{guild}"
ROUTES = [
    ApiRoute("GET", "/gateway", gateway_url, open=True),
    ApiRoute("GET", "/gateway/bot", gateway_bot),
    ApiRoute("GET", "/users/@me", me),
    ApiRoute("GET", "/users/@me/guilds", my_guilds),
    ApiRoute("GET", "/applications/@me", application),
    ApiRoute("GET", "/oauth2/applications/@me", application),
    ApiRoute("GET", _GUILD, guild),
    ApiRoute("GET", _GUILD + "/channels", guild_channels),
    ApiRoute("PATCH", _GUILD + "/members/@me", edit_my_member),
    ApiRoute("GET", _GUILD + "/members/{user}", member),
    ApiRoute("GET", _CHANNEL, channel),
    ApiRoute("GET", _CHANNEL + "/threads/archived/public", archived_threads),
]
