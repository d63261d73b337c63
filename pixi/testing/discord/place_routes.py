"""Routes of the bot itself, guilds, channels, threads and members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixi.testing.discord import bodies, lean, payloads
from pixi.testing.discord.calls import ApiCall
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.faults import Form, Json, fault, snowflake
from pixi.testing.discord.intents import LIMITED_FLAGS, GatewayIntents
from pixi.testing.discord.permissions import Permission as P
from pixi.testing.discord.routing import (
    ApiRoute,
    guild_of,
    need,
    need_in_guild,
    number,
    visible,
)

if TYPE_CHECKING:
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World


def gateway(world: World, call: ApiCall) -> object:
    """Where the gateway is."""
    return {"url": world.origin.replace("http", "ws", 1)}


def gateway_bot(world: World, call: ApiCall) -> object:
    """The same, with what a bot should know."""
    settings = world.gateway.settings
    return {
        "url": world.gateway.url,
        "shards": settings.shards,
        "session_start_limit": {
            "total": 1000,
            "remaining": 1000 - world.gateway.identifies,
            "reset_after": 14_400_000,
            "max_concurrency": settings.max_concurrency,
        },
    }


def me(world: World, call: ApiCall) -> object:
    """The bot."""
    more: Json = {"verified": True, "mfa_enabled": True, "locale": "en-US", "flags": 0, "email": None}
    return world.bot.payload() | more | {"banner": None, "accent_color": None}


def edit_me(world: World, call: ApiCall) -> object:
    """Change the bot's name or avatar."""
    fields = bodies.fields_of(call)
    if fields.get("username"):
        form = Form()
        form.within(("username",), fields["username"], 2, 32)
        form.check()
        world.bot.name = fields["username"]
    if "avatar" in fields:
        world.bot.avatar = bodies.image(fields["avatar"], "avatar")
    world.tell_bot("USER_UPDATE", None, world.bot.payload())
    return me(world, call)


def user(world: World, call: ApiCall) -> object:
    """Anybody."""
    found = world.users.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10013)
    return found.payload()


def application(world: World, call: ApiCall) -> object:
    """The application that the bot belongs to; its flags tell which privileged intents are on."""
    flags = sum(flag for intent, flag in LIMITED_FLAGS.items() if intent & world.privileged)
    return {
        "id": str(world.application_id),
        "name": world.bot.name,
        "icon": None,
        "description": "",
        "summary": "",
        "type": None,
        "bot": world.bot.payload(),
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": flags,
        "owner": {"id": "1", "username": "operator", "discriminator": "0", "avatar": None, "public_flags": 0},
        "team": None,
        "hook": True,
        "redirect_uris": [],
        "interactions_endpoint_url": None,
        "approximate_guild_count": len(world.guilds),
        "integration_types_config": {"0": {}},
    }


def my_guilds(world: World, call: ApiCall) -> object:
    """The guilds that the bot is in, with what it may do there."""
    limit = number(call, "limit", 200, 1, 200)
    after = snowflake(call.query.get("after", "0"), "after")
    guilds = [world.guilds[each] for each in sorted(world.guilds) if each > after]
    if "before" in call.query:
        before = snowflake(call.query["before"], "before")
        guilds = [each for each in guilds if each.id < before]
    return [payloads.partial_guild(each, world) for each in guilds[:limit]]


def open_dm(world: World, call: ApiCall) -> object:
    """Open a DM with somebody; it is the same one each time."""
    other = world.users.get(snowflake(bodies.fields_of(call).get("recipient_id"), "recipient_id"))
    if other is None:
        raise fault(10013)
    if other is world.bot or other.bot:
        raise fault(50007)
    return payloads.channel(dm_with(world, other), world)


def dm_with(world: World, person: User) -> FakeChannel:
    """The DM of the bot and somebody."""
    channel = world.dms.get(person.id)
    if channel is None:
        channel = FakeChannel(world, world.ids.next(), 1, recipients=(person, world.bot))
        world.dms[person.id] = world.channels[channel.id] = channel
    return channel


def guild(world: World, call: ApiCall) -> object:
    """A guild."""
    found = guild_of(world, call)
    payload = payloads.guild(found)
    if call.query.get("with_counts") in {"true", "True", "1"}:
        count = len(found.members)
        payload |= {"approximate_member_count": count, "approximate_presence_count": count}
    return payload


def guild_channels(world: World, call: ApiCall) -> object:
    """The channels of a guild, without its threads."""
    return [payloads.channel(each, world) for each in guild_of(world, call).channels.values()]


def guild_roles(world: World, call: ApiCall) -> object:
    """The roles of a guild."""
    return [role.payload() for role in guild_of(world, call).roles.values()]


def guild_emojis(world: World, call: ApiCall) -> object:
    """The emojis of a guild."""
    return [each.payload() for each in guild_of(world, call).emojis.values()]


def member(world: World, call: ApiCall) -> object:
    """Somebody in a guild."""
    found = guild_of(world, call).members.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10007)
    return lean.member(found.payload()) if world.lean else found.payload()


def members(world: World, call: ApiCall) -> object:
    """All in a guild; the owner of the application has to have switched that intent on."""
    here = guild_of(world, call)
    if not world.privileged & GatewayIntents.GUILD_MEMBERS:
        raise fault(50001)
    limit = number(call, "limit", 1, 1, 1000)
    after = snowflake(call.query.get("after", "0"), "after")
    chosen = [here.members[each] for each in sorted(here.members) if each > after]
    return [each.payload() for each in chosen[:limit]]


def edit_my_member(world: World, call: ApiCall) -> object:
    """The bot's profile in a guild: nickname, avatar, banner, bio."""
    here = guild_of(world, call)
    fields = bodies.fields_of(call)
    mine = here.bot_member
    form = Form()
    form.longest(("nick",), fields.get("nick"), 32)
    form.longest(("bio",), fields.get("bio"), 190)
    form.check()
    if "nick" in fields:
        need_in_guild(world, here, P.CHANGE_NICKNAME)
        mine.nick = fields["nick"] or None
    for name in ("avatar", "banner"):
        if name in fields:
            setattr(mine, name, bodies.image(fields[name], name))
    if "bio" in fields:
        mine.bio = fields["bio"] or None
    here.tell_member(mine)
    return mine.payload()


def channel(world: World, call: ApiCall) -> object:
    """A channel, thread or DM."""
    return payloads.channel(visible(world, call), world)


def edit_channel(world: World, call: ApiCall) -> object:
    """Rename a channel; archive or lock a thread."""
    found = visible(world, call)
    fields = bodies.fields_of(call)
    if found.guild is None:
        raise fault(50003)
    if found.is_thread and found.owner is not world.bot:
        need(world, found, P.MANAGE_THREADS)
    elif not found.is_thread:
        need(world, found, P.MANAGE_CHANNELS)
    form = Form()
    if "name" in fields:
        form.within(("name",), fields["name"], 1, 100)
    form.check()
    found.topic = fields.get("topic", found.topic)
    found.update(
        archived=fields.get("archived"), locked=fields.get("locked"), name=fields.get("name") or found.name
    )
    return payloads.channel(found, world)


def delete_channel(world: World, call: ApiCall) -> object:
    """Delete a channel or thread; a DM is only closed."""
    found = visible(world, call)
    if found.guild is not None:
        need(world, found, P.MANAGE_THREADS if found.is_thread else P.MANAGE_CHANNELS)
        found.vanish()
    return payloads.channel(found, world)


_CHANNEL, _GUILD = "/channels/{channel}", "/guilds/{guild}"
ROUTES = [
    ApiRoute("GET", "/gateway", gateway, open=True),
    ApiRoute("GET", "/gateway/bot", gateway_bot),
    ApiRoute("GET", "/users/@me", me),
    ApiRoute("PATCH", "/users/@me", edit_me),
    ApiRoute("GET", "/users/@me/guilds", my_guilds),
    ApiRoute("POST", "/users/@me/channels", open_dm),
    ApiRoute("GET", "/users/{user}", user),
    ApiRoute("GET", "/applications/@me", application),
    ApiRoute("GET", "/oauth2/applications/@me", application),
    ApiRoute("GET", _GUILD, guild),
    ApiRoute("GET", _GUILD + "/channels", guild_channels),
    ApiRoute("GET", _GUILD + "/roles", guild_roles),
    ApiRoute("GET", _GUILD + "/emojis", guild_emojis),
    ApiRoute("GET", _GUILD + "/members", members),
    ApiRoute("PATCH", _GUILD + "/members/@me", edit_my_member),
    ApiRoute("GET", _GUILD + "/members/{user}", member),
    ApiRoute("GET", _CHANNEL, channel),
    ApiRoute("PATCH", _CHANNEL, edit_channel),
    ApiRoute("DELETE", _CHANNEL, delete_channel),
]
