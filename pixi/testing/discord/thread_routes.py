"""Routes of threads and of posts in forums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pixi.testing.discord import bodies, payloads, writing
from pixi.testing.discord.calls import ApiCall
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.faults import Form, Json, fault, invalid, snowflake
from pixi.testing.discord.messages import FakeMessage
from pixi.testing.discord.permissions import Permission as P
from pixi.testing.discord.routing import ApiAnswer, ApiRoute, guild_of, message_in, need, number, visible

if TYPE_CHECKING:
    from pixi.testing.discord.world import World


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
    fields = bodies.fields_of(call)
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
    name = _name(bodies.fields_of(call))
    assert parent.guild is not None
    opened = parent.guild.open_thread(parent, name, owner=world.bot, starter=starter, private=private)
    return ApiAnswer(201, payloads.channel(opened, world))


def _posted(world: World, call: ApiCall, forum: FakeChannel, fields: Json) -> ApiAnswer:
    name = _name(fields)
    if not isinstance(fields.get("message"), dict):
        raise invalid(("message",), "BASE_TYPE_REQUIRED", "This field is required")
    draft = bodies.draft_of(call, world, fields["message"])
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
    """The bot follows a thread."""
    found = visible(world, call)
    if not found.is_thread:
        raise fault(50024)
    if world.bot.id not in found.thread_members:
        found.follow(world.bot)
    return None


def leave_thread(world: World, call: ApiCall) -> object:
    """The bot follows a thread no more."""
    found = visible(world, call)
    found.thread_members.pop(world.bot.id, None)
    return None


def active_threads(world: World, call: ApiCall) -> object:
    """The threads of a guild that are open and that the bot sees."""
    here = guild_of(world, call)
    found = [each for each in here.threads.values() if not each.archived and world.sees(each)]
    mine = [payloads.thread_member(each, world.bot) for each in found if world.bot.id in each.thread_members]
    return {"threads": [payloads.channel(each, world) for each in found], "members": mine}


def archived_threads(world: World, call: ApiCall) -> object:
    """The archived public threads of a channel, the newest first."""
    parent = visible(world, call)
    need(world, parent, P.READ_MESSAGE_HISTORY)
    limit = number(call, "limit", 50, 1, 100)
    threads = parent.guild.threads.values() if parent.guild else ()
    found = [each for each in threads if each.parent is parent and each.archived and not each.private]
    found.sort(key=lambda each: -each.id)
    told = [payloads.channel(each, world) for each in found[:limit]]
    return {"threads": told, "members": [], "has_more": len(found) > limit}


_CHANNEL = "/channels/{channel}"
ROUTES = [
    ApiRoute("GET", "/guilds/{guild}/threads/active", active_threads),
    ApiRoute("POST", _CHANNEL + "/messages/{message}/threads", thread_of_message),
    ApiRoute("POST", _CHANNEL + "/threads", thread),
    ApiRoute("PUT", _CHANNEL + "/thread-members/@me", join_thread),
    ApiRoute("DELETE", _CHANNEL + "/thread-members/@me", leave_thread),
    ApiRoute("GET", _CHANNEL + "/threads/archived/public", archived_threads),
]
