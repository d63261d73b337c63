"""Routes of channels, threads and guilds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixi.testing.discord import gateway, payloads, routing, writing
from pixi.testing.discord.calls import ApiCall, Form, Json, fault, invalid, snowflake
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.ids import LIMITED_FLAGS, GatewayIntents
from pixi.testing.discord.messages import FakeMessage
from pixi.testing.discord.routing import (
    ApiAnswer,
    ApiRoute,
    guild_of,
    message_in,
    need,
    need_in_guild,
    number,
    visible,
)
from pixi.testing.discord.users import Permission as P

if TYPE_CHECKING:
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World


def gateway_url(world: World, call: ApiCall) -> object:
    """Return where the gateway is."""
    return {"url": world.origin.replace("http", "ws", 1)}


def gateway_bot(world: World, call: ApiCall) -> object:
    """Return the same, with what a bot should know."""
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
    """Return the bot."""
    more: Json = {"verified": True, "mfa_enabled": True, "locale": "en-US", "flags": 0, "email": None}
    return world.bot.payload() | more | {"banner": None, "accent_color": None}


def edit_me(world: World, call: ApiCall) -> object:
    """Change the bot's name or avatar."""
    fields = routing.fields_of(call)
    if fields.get("username"):
        form = Form()
        form.within(("username",), fields["username"], 2, 32)
        form.check()
        world.bot.name = fields["username"]
    if "avatar" in fields:
        world.bot.avatar = routing.image(fields["avatar"], "avatar")
    world.tell_bot("USER_UPDATE", None, world.bot.payload())
    return me(world, call)


def user(world: World, call: ApiCall) -> object:
    """Anybody."""
    found = world.users.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10013)
    return found.payload()


def application(world: World, call: ApiCall) -> object:
    """Return the application that the bot belongs to; its flags tell which privileged intents are on."""
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
    """Return the guilds that the bot is in, with what it may do there."""
    limit = number(call, "limit", 200, 1, 200)
    after = snowflake(call.query.get("after", "0"), "after")
    guilds = [world.guilds[each] for each in sorted(world.guilds) if each > after]
    if "before" in call.query:
        before = snowflake(call.query["before"], "before")
        guilds = [each for each in guilds if each.id < before]
    return [payloads.partial_guild(each, world) for each in guilds[:limit]]


def open_dm(world: World, call: ApiCall) -> object:
    """Open a DM with somebody; it is the same one each time."""
    other = world.users.get(snowflake(routing.fields_of(call).get("recipient_id"), "recipient_id"))
    if other is None:
        raise fault(10013)
    if other is world.bot or other.bot:
        raise fault(50007)
    return payloads.channel(dm_with(world, other), world)


def dm_with(world: World, person: User) -> FakeChannel:
    """Return the DM of the bot and somebody."""
    channel = world.dms.get(person.id)
    if channel is None:
        channel = FakeChannel(world, world.ids.next(), 1, recipients=(person, world.bot))
        world.dms[person.id] = world.channels[channel.id] = channel
    return channel


def guild(world: World, call: ApiCall) -> object:
    """Return a guild."""
    found = guild_of(world, call)
    payload = payloads.guild(found)
    if call.query.get("with_counts") in {"true", "True", "1"}:
        count = len(found.members)
        payload |= {"approximate_member_count": count, "approximate_presence_count": count}
    return payload


def guild_channels(world: World, call: ApiCall) -> object:
    """Return the channels of a guild, without its threads."""
    return [payloads.channel(each, world) for each in guild_of(world, call).channels.values()]


def guild_roles(world: World, call: ApiCall) -> object:
    """Return the roles of a guild."""
    return [role.payload() for role in guild_of(world, call).roles.values()]


def guild_emojis(world: World, call: ApiCall) -> object:
    """Return the emojis of a guild."""
    return [each.payload() for each in guild_of(world, call).emojis.values()]


def member(world: World, call: ApiCall) -> object:
    """Somebody in a guild."""
    found = guild_of(world, call).members.get(snowflake(call.ids["user"], "user_id"))
    if found is None:
        raise fault(10007)
    return gateway.member(found.payload()) if world.lean else found.payload()


def members(world: World, call: ApiCall) -> object:
    """Return all in a guild; the owner of the application has to have switched that intent on."""
    here = guild_of(world, call)
    if not world.privileged & GatewayIntents.GUILD_MEMBERS:
        raise fault(50001)
    limit = number(call, "limit", 1, 1, 1000)
    after = snowflake(call.query.get("after", "0"), "after")
    chosen = [here.members[each] for each in sorted(here.members) if each > after]
    return [each.payload() for each in chosen[:limit]]


def edit_my_member(world: World, call: ApiCall) -> object:
    """Return the bot's profile in a guild: nickname, avatar, banner, bio."""
    here = guild_of(world, call)
    fields = routing.fields_of(call)
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
            setattr(mine, name, routing.image(fields[name], name))
    if "bio" in fields:
        mine.bio = fields["bio"] or None
    here.tell_member(mine)
    return mine.payload()


def channel(world: World, call: ApiCall) -> object:
    """Return a channel, thread or DM."""
    return payloads.channel(visible(world, call), world)


def edit_channel(world: World, call: ApiCall) -> object:
    """Rename a channel; archive or lock a thread."""
    found = visible(world, call)
    fields = routing.fields_of(call)
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
    ApiRoute("GET", "/gateway", gateway_url, open=True),
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


def thread_of_message(world: World, call: ApiCall) -> object:
    """Open a thread at a message."""
    parent = visible(world, call)
    starter = message_in(parent, call)
    if parent.guild is None or parent.is_thread:
        raise fault(50024)
    need(world, parent, P.CREATE_PUBLIC_THREADS)
    if starter.thread is not None:
        raise fault(160004)
    return _opened(world, call, parent, starter)


def thread(world: World, call: ApiCall) -> object:
    """Open a thread at no message, or a post in a forum."""
    parent = visible(world, call)
    fields = routing.fields_of(call)
    if parent.guild is None or parent.is_thread:
        raise fault(50024)
    if parent.is_forum:
        need(world, parent, P.SEND_MESSAGES)
        return _posted(world, call, parent, fields)
    private = fields.get("type", 12) == 12
    need(world, parent, P.CREATE_PRIVATE_THREADS if private else P.CREATE_PUBLIC_THREADS)
    return _opened(world, call, parent, None, private=private)


def _name(fields: Json) -> str:
    form = Form()
    if "name" not in fields:
        form.wrong(("name",), "BASE_TYPE_REQUIRED", "This field is required")
    else:
        form.within(("name",), fields["name"], 1, 100)
    form.check()
    return str(fields["name"])


def _opened(
    world: World, call: ApiCall, parent: FakeChannel, starter: FakeMessage | None, *, private: bool = False
) -> ApiAnswer:
    name = _name(routing.fields_of(call))
    assert parent.guild is not None
    opened = parent.guild.open_thread(parent, name, owner=world.bot, starter=starter, private=private)
    return ApiAnswer(201, payloads.channel(opened, world))


def _posted(world: World, call: ApiCall, forum: FakeChannel, fields: Json) -> ApiAnswer:
    name = _name(fields)
    if not isinstance(fields.get("message"), dict):
        raise invalid(("message",), "BASE_TYPE_REQUIRED", "This field is required")
    draft = routing.draft_of(call, world, fields["message"])
    if draft.empty:
        raise fault(50006)
    assert forum.guild is not None
    tags = [snowflake(each, "applied_tags") for each in fields.get("applied_tags") or []]
    opened = forum.guild.open_thread(forum, name, owner=world.bot, tags=tags)
    opened.started_by_message = True
    message = writing.write(world, opened, world.bot, draft, message_id=opened.id)
    payload = payloads.channel(opened, world) | {"message": payloads.message(message, world)}
    return ApiAnswer(201, payload)


def join_thread(world: World, call: ApiCall) -> object:
    """Let the bot follow a thread."""
    found = visible(world, call)
    if not found.is_thread:
        raise fault(50024)
    if world.bot.id not in found.thread_members:
        found.follow(world.bot)
    return None


def leave_thread(world: World, call: ApiCall) -> object:
    """Let the bot follow a thread no more."""
    found = visible(world, call)
    found.thread_members.pop(world.bot.id, None)
    return None


def active_threads(world: World, call: ApiCall) -> object:
    """Return the threads of a guild that are open and that the bot sees."""
    here = guild_of(world, call)
    found = [each for each in here.threads.values() if not each.archived and world.sees(each)]
    mine = [payloads.thread_member(each, world.bot) for each in found if world.bot.id in each.thread_members]
    return {"threads": [payloads.channel(each, world) for each in found], "members": mine}


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


_THREAD_CHANNEL = "/channels/{channel}"
THREAD_ROUTES = [
    ApiRoute("GET", "/guilds/{guild}/threads/active", active_threads),
    ApiRoute("POST", _THREAD_CHANNEL + "/messages/{message}/threads", thread_of_message),
    ApiRoute("POST", _THREAD_CHANNEL + "/threads", thread),
    ApiRoute("PUT", _THREAD_CHANNEL + "/thread-members/@me", join_thread),
    ApiRoute("DELETE", _THREAD_CHANNEL + "/thread-members/@me", leave_thread),
    ApiRoute("GET", _THREAD_CHANNEL + "/threads/archived/public", archived_threads),
]
