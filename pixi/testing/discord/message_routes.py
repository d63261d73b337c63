"""Routes of messages: writing, reading, editing, deleting, reacting, typing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import emoji as emojis

from pixi.testing.discord import bodies, lean, payloads, writing
from pixi.testing.discord.calls import ApiCall
from pixi.testing.discord.channels import WRITABLE, FakeChannel, Typing
from pixi.testing.discord.faults import Form, Json, fault, invalid, snowflake
from pixi.testing.discord.mentioning import Allowed
from pixi.testing.discord.messages import EPHEMERAL, WRITTEN, FakeMessage, Reaction, attach
from pixi.testing.discord.permissions import Permission as P
from pixi.testing.discord.permissions import in_channel, may_send
from pixi.testing.discord.routing import ApiRoute, message_in, need, number, visible
from pixi.testing.discord.writing import MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

MOST_REACTIONS = 20
SUPPRESS_EMBEDS = 1 << 2
TWO_WEEKS = 14 * 86_400


def create(world: World, call: ApiCall) -> object:
    """Write a message."""
    channel = visible(world, call)
    may_write(world, channel)
    draft = bodies.draft_of(call, world)
    draft.flags &= ~EPHEMERAL
    if draft.enforce_nonce and draft.nonce is not None:
        before = writing.made_before(world, world.bot, draft.nonce)
        if before is not None:
            return _created(before, world)
    fields = bodies.fields_of(call)
    refer(world, channel, draft, fields.get("message_reference"))
    if draft.empty and draft.forwards is None:
        raise fault(50006)
    if draft.files:
        need(world, channel, P.ATTACH_FILES)
    if draft.embeds:
        need(world, channel, P.EMBED_LINKS)
    message = writing.write(world, channel, world.bot, draft)
    writing.remember_nonce(world, message)
    return _created(message, world)


def _created(message: FakeMessage, world: World) -> Json:
    payload = payloads.message(message, world)
    return payload | {"nonce": message.nonce} if message.nonce is not None else payload


def may_write(world: World, channel: FakeChannel) -> None:
    """Raises `RefusedCall` when the bot cannot write there."""
    if channel.type not in WRITABLE:
        raise fault(50008)
    if not may_send(channel, world.bot):
        raise fault(50013)
    if channel.guild is None and any(not user.accepts_dms for user in channel.recipients):
        raise fault(50007)
    if channel.is_thread and channel.locked and not in_channel(channel, world.bot) & P.MANAGE_THREADS:
        raise fault(50083)


def refer(world: World, channel: FakeChannel, draft: MessageDraft, given: object) -> None:
    """Point the draft at the message that it answers or forwards. Raises `RefusedCall`."""
    if given is None:
        return
    if not isinstance(given, dict):
        raise invalid(
            ("message_reference",), "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType"
        )
    place = ("message_reference",)
    if given.get("message_id") is None:
        raise invalid((*place, "message_id"), "BASE_TYPE_REQUIRED", "This field is required")
    message_id = snowflake(given["message_id"], "message_id")
    if given.get("type") == 1:
        source = world.channels.get(snowflake(given.get("channel_id"), "channel_id"))
        found = source.find(message_id) if source and world.sees(source) else None
        if found is None:
            raise fault(10008)
        draft.forwards = found
        return
    there = given.get("channel_id")
    if there is not None and snowflake(there, "channel_id") != channel.id:
        message = "Cannot reply to a message in a different channel"
        raise invalid(place, "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL", message)
    if not in_channel(channel, world.bot) & P.READ_MESSAGE_HISTORY:
        raise fault(160002)
    answered = channel.find(message_id)
    if answered is None:
        if given.get("fail_if_not_exists") is False:
            return
        raise invalid(place, "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
    if answered.type not in WRITTEN:
        raise invalid(place, "REPLIES_CANNOT_REFERENCE_SYSTEM_MESSAGE", "Cannot reply to a system message")
    draft.answers = answered


def page(world: World, call: ApiCall) -> object:
    """A stretch of messages, newest first; without the right to read history there are none."""
    channel = visible(world, call)
    limit = number(call, "limit", 50, 1, 100)
    bounds = {
        name: snowflake(call.query[name], name)
        for name in ("before", "after", "around")
        if name in call.query
    }
    if channel.type not in WRITABLE:
        raise fault(50008)
    if not in_channel(channel, world.bot) & P.READ_MESSAGE_HISTORY:
        return []
    found = channel.page(
        limit, before=bounds.get("before"), after=bounds.get("after"), around=bounds.get("around")
    )
    return [world.readable(one, payloads.message(one, world)) for one in found]


def one(world: World, call: ApiCall) -> object:
    """A single message."""
    channel = visible(world, call)
    need(world, channel, P.READ_MESSAGE_HISTORY)
    message = message_in(channel, call)
    payload = world.readable(message, payloads.message(message, world))
    return lean.fetched(payload) if world.lean else payload


def edit(world: World, call: ApiCall) -> object:
    """Edit a message of the bot's."""
    channel = visible(world, call)
    message = message_in(channel, call)
    fields = bodies.fields_of(call)
    if message.author is not world.bot:
        if set(fields) - {"flags"} or not fields:
            raise fault(50005)
        need(world, channel, P.MANAGE_MESSAGES)
        message.flags = message.flags & ~SUPPRESS_EMBEDS | int(fields["flags"]) & SUPPRESS_EMBEDS
        writing.rewrite(world, message, None)
        return payloads.message(message, world)
    if message.type not in WRITTEN:
        raise fault(50021)
    change(world, message, call, fields)
    return payloads.message(message, world)


def change(world: World, message: FakeMessage, call: ApiCall, fields: Json) -> None:
    """Give a message what a body says; what it leaves out stays. Raises `RefusedCall`."""
    form = Form()
    content = bodies.content_of(fields, form) if "content" in fields else None
    embeds = bodies.embeds_of(fields, form) if "embeds" in fields else message.embeds
    components = bodies.components_of(fields, form) if "components" in fields else message.components
    allowed = Allowed() if world.lean else bodies.allowed_of(fields, form)
    added = bodies.files_of(call, fields, form)
    form.check()
    kept = message.attachments
    if "attachments" in fields:
        stay = {str(one.get("id")) for one in fields["attachments"] or []}
        kept = [one for one in message.attachments if str(one.id) in stay]
    text = message.content if content is None else content
    if not (text or embeds or components or kept or added or message.stickers):
        raise fault(50006)
    message.embeds, message.components = embeds, components
    fresh = [attach(upload, message.channel.id, world.ids.next()) for upload in added]
    world.files.update({one.path: one for one in fresh})
    message.attachments = [*kept, *fresh]
    writing.rewrite(world, message, text, allowed)


def delete(world: World, call: ApiCall) -> object:
    """Delete a message: an own one, or with the right to manage."""
    channel = visible(world, call)
    message = message_in(channel, call)
    if message.author is not world.bot:
        if channel.guild is None:
            raise fault(50003)
        need(world, channel, P.MANAGE_MESSAGES)
    writing.remove(world, message)
    return None


def bulk_delete(world: World, call: ApiCall) -> object:
    """Delete several messages at once."""
    channel = visible(world, call)
    if channel.guild is None:
        raise fault(50003)
    need(world, channel, P.MANAGE_MESSAGES)
    ids = bodies.fields_of(call).get("messages") or []
    if not 2 <= len(ids) <= 100:
        raise fault(50016)
    found = [channel.find(snowflake(one, "messages")) for one in ids]
    messages = [each for each in found if each is not None]
    if any(each.created < time.time() - TWO_WEEKS for each in messages):
        raise fault(50034)
    if messages:
        writing.remove(world, *messages)
    return None


def typing(world: World, call: ApiCall) -> object:
    """The bot begins to type."""
    channel = visible(world, call)
    may_write(world, channel)
    channel.typings.append(Typing(world.bot, time.monotonic()))
    writing.start_typing(world, channel, world.bot)
    return None


def react(world: World, call: ApiCall) -> object:
    """The bot reacts."""
    channel = visible(world, call)
    need(world, channel, P.READ_MESSAGE_HISTORY)
    message = message_in(channel, call)
    reaction = emoji_of(world, channel, call.ids["emoji"])
    if str(reaction.id or reaction.name) not in message.found:
        need(world, channel, P.ADD_REACTIONS)
        if len(message.found) >= MOST_REACTIONS:
            raise fault(30010)
    writing.add_reaction(world, message, world.bot, reaction)
    return None


def emoji_of(world: World, channel: FakeChannel, given: str) -> Reaction:
    """The emoji in the path: itself, or `name:id` of one that the bot can use. Raises `RefusedCall`."""
    _, separator, emoji_id = given.rpartition(":")
    if not separator:
        if not emojis.is_emoji(given) and not emojis.is_emoji(given + "\ufe0f"):
            raise fault(10014)
        return Reaction(given)
    found = world.emojis.get(int(emoji_id)) if emoji_id.isdigit() else None
    if found is None or not found[1].available or found[0].id not in world.guilds:
        raise fault(10014)
    guild, emoji = found
    if guild is not channel.guild:
        need(world, channel, P.USE_EXTERNAL_EMOJIS)
    return Reaction(emoji.name, emoji.id, emoji.animated)


def unreact(world: World, call: ApiCall) -> object:
    """Take a reaction away: the bot's own, or with the right to manage somebody's."""
    channel = visible(world, call)
    message = message_in(channel, call)
    whose = call.ids.get("user", "@me")
    user = world.bot if whose == "@me" else world.users.get(snowflake(whose, "user_id"))
    if user is None:
        raise fault(10013)
    if user is not world.bot:
        need(world, channel, P.MANAGE_MESSAGES)
    given = call.ids["emoji"]
    writing.drop_reaction(world, message, user, given.rpartition(":")[2] or given)
    return None


def reactors(world: World, call: ApiCall) -> object:
    """Who reacted with an emoji."""
    channel = visible(world, call)
    message = message_in(channel, call)
    given = call.ids["emoji"]
    reaction = message.found.get(given.rpartition(":")[2] or given)
    if reaction is None:
        return []
    after = snowflake(call.query.get("after", "0"), "after")
    limit = number(call, "limit", 25, 1, 100)
    users = sorted(reaction.users.values(), key=lambda user: user.id)
    return [user.payload() for user in users if user.id > after][:limit]


_MESSAGES = "/channels/{channel}/messages"
_REACTION = _MESSAGES + "/{message}/reactions/{emoji}"
ROUTES = [
    ApiRoute("POST", _MESSAGES, create),
    ApiRoute("GET", _MESSAGES, page),
    ApiRoute("POST", _MESSAGES + "/bulk-delete", bulk_delete),
    ApiRoute("GET", _MESSAGES + "/{message}", one),
    ApiRoute("PATCH", _MESSAGES + "/{message}", edit),
    ApiRoute("DELETE", _MESSAGES + "/{message}", delete),
    ApiRoute("POST", "/channels/{channel}/typing", typing),
    ApiRoute("PUT", _REACTION + "/@me", react),
    ApiRoute("DELETE", _REACTION + "/@me", unreact),
    ApiRoute("DELETE", _REACTION + "/{user}", unreact),
    ApiRoute("GET", _REACTION, reactors),
]
