"""Routes of guilds, members, channels and threads; of the application and its commands."""

from __future__ import annotations

from pixi.testing.discord import routing
from pixi.testing.discord.calls import ApiCall, Json, fault, invalid, longest, snowflake
from pixi.testing.discord.channels import DM, FakeChannel
from pixi.testing.discord.commands import CHAT, check
from pixi.testing.discord.routing import ApiRoute, guild_of, need, need_in_guild, number, visible
from pixi.testing.discord.users import P, User
from pixi.testing.discord.world import World


def gateway_url(world: World, call: ApiCall) -> object:
    """Return where the gateway is."""
    return {"url": world.gateway.url}


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
    return [each.partial_payload() for each in guilds[:limit]]


def dm_with(world: World, person: User) -> FakeChannel:
    """Return the DM of the bot and somebody."""
    channel = world.dms.get(person.id)
    if channel is None:
        channel = FakeChannel(world, world.ids.next(), DM, recipients=(person, world.bot))
        world.dms[person.id] = world.channels[channel.id] = channel
    return channel


def guild(world: World, call: ApiCall) -> object:
    """Return a guild."""
    return guild_of(world, call).payload()


def guild_channels(world: World, call: ApiCall) -> object:
    """Return the channels of a guild, without its threads."""
    return [each.payload() for each in guild_of(world, call).channels.values()]


def member(world: World, call: ApiCall) -> object:
    """Answer with a member of a guild."""
    found = guild_of(world, call).members.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10007)
    return found.payload(lean=world.lean)


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
    return visible(world, call).payload()


def archived_threads(world: World, call: ApiCall) -> object:
    """Return the archived public threads of a channel, the newest first."""
    parent = visible(world, call)
    need(world, parent, P.READ_MESSAGE_HISTORY)
    limit = number(call, "limit", 50, 1, 100)
    threads = parent.guild.threads.values() if parent.guild else ()
    found = [each for each in threads if each.parent is parent and each.archived and not each.private]
    found.sort(key=lambda each: -each.id)
    told = [each.payload() for each in found[:limit]]
    return {"threads": told, "members": [], "has_more": len(found) > limit}


def members_named(world: World, call: ApiCall) -> object:
    """Return members whose name or nickname begins so."""
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
    """Return whether somebody follows a thread."""
    thread = visible(world, call)
    user = world.users.get(snowflake(call.ids["user"], "user_id"))
    if not thread.is_thread or user is None or user.id not in thread.thread_members:
        raise fault(10007)
    return thread.member_payload(user)


def _check_application(world: World, call: ApiCall) -> None:
    if snowflake(call.ids["application"], "application_id") != world.application_id:
        raise fault(50001)


def commands(world: World, call: ApiCall) -> object:
    """Return the registered commands."""
    _check_application(world, call)
    return [each.payload(world.application_id) for each in world.commands.kept.values()]


def register(world: World, call: ApiCall) -> object:
    """Register these commands and no others."""
    _check_application(world, call)
    given: list[Json] = call.body
    seen: set[tuple[int, str]] = set()
    for at, body in enumerate(given):
        check(body, (at,), lean=world.lean)
        seen.add((int(body.get("type") or CHAT), str(body.get("name"))))
    kept = world.commands.kept
    for key in [key for key in kept if key not in seen]:
        del kept[key]
    return [world.commands.put(body).payload(world.application_id) for body in given]


def delete_command(world: World, call: ApiCall) -> object:
    """Take a command away."""
    _check_application(world, call)
    wanted = snowflake(call.ids["command"], "command_id")
    kept = world.commands.kept
    key = next((key for key, command in kept.items() if command.id == wanted), None)
    if key is None:
        raise fault(10063)
    del kept[key]
    return None


def command_permissions(world: World, call: ApiCall) -> object:
    """Return who may use which commands of a guild, by its own page of integrations."""
    guild_of(world, call)
    return world.commands.permissions


_CHANNEL, _GUILD, _APPLICATION = "/channels/{channel}", "/guilds/{guild}", "/applications/{application}"
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
    ApiRoute("GET", _GUILD + "/members/search", members_named),
    ApiRoute("GET", _GUILD + "/members/{user}", member),
    ApiRoute("GET", _CHANNEL, channel),
    ApiRoute("GET", _CHANNEL + "/threads/archived/public", archived_threads),
    ApiRoute("GET", _CHANNEL + "/thread-members/{user}", thread_member),
    ApiRoute("GET", _APPLICATION + "/commands", commands),
    ApiRoute("PUT", _APPLICATION + "/commands", register),
    ApiRoute("DELETE", _APPLICATION + "/commands/{command}", delete_command),
    ApiRoute("GET", _APPLICATION + "/guilds/{guild}/commands/permissions", command_permissions),
]
