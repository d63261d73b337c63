"""Payloads of channels, messages and guilds, as clients see them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pixi.testing.discord import gateway
from pixi.testing.discord.calls import Json
from pixi.testing.discord.ids import moment, time_of
from pixi.testing.discord.messages import CONTEXT_MENU_REPLY, REPLY, THREAD_STARTER, FakeMessage
from pixi.testing.discord.users import in_channel, in_guild

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World

ANSWERING = frozenset({REPLY, THREAD_STARTER, CONTEXT_MENU_REPLY})


def message(one: FakeMessage, world: World, *, nested: bool = False) -> Json:
    """Return a message as REST gives it."""
    payload: Json = {
        "id": str(one.id),
        "channel_id": str(one.channel.id),
        "type": one.type,
        "content": one.content,
        "author": author(one),
        "timestamp": moment(one.created),
        "edited_timestamp": moment(one.edited) if one.edited else None,
        "tts": False,
        "mention_everyone": one.pings.everyone,
        "mentions": [_mentioned(user, one) for user in one.pings.users],
        "mention_roles": [str(role) for role in one.pings.roles],
        "attachments": [each.payload(world.origin) for each in one.attachments],
        "embeds": one.embeds,
        "components": one.components,
        "pinned": any(one is pinned for pinned, _ in one.channel.pins),
        "flags": one.flags | (1 << 5 if one.thread else 0),
    }
    if one.found:
        payload["reactions"] = [reaction.payload(world.bot) for reaction in one.found.values()]
    if one.stickers:
        payload["sticker_items"] = one.stickers
    if one.webhook_id is not None:
        payload["webhook_id"] = str(one.webhook_id)
    if one.application_id is not None:
        payload["application_id"] = str(one.application_id)
    if one.interaction is not None:
        payload["interaction_metadata"] = one.interaction
    if one.reference is not None:
        payload["message_reference"] = one.reference.payload()
    if one.snapshots:
        payload["message_snapshots"] = one.snapshots
    if one.type in ANSWERING and one.reference is not None and not nested:
        there = one.answered if one.answered and not one.answered.deleted else None
        payload["referenced_message"] = message(there, world, nested=True) if there else None
    if one.thread is not None and not nested:
        payload["thread"] = channel(one.thread, world)
    return gateway.message(payload) if world.lean else payload


def author(one: FakeMessage) -> Json:
    """Return who wrote it: a webhook is shown as it called itself."""
    if one.webhook is None:
        return one.author.payload()
    name = one.name if one.name is not None else one.webhook.name
    return one.author.payload() | {"username": name, "global_name": None}


def _mentioned(user: User, one: FakeMessage) -> Json:
    guild = one.channel.guild
    member = guild.members.get(user.id) if guild else None
    payload = user.payload()
    return payload | {"member": member.payload(user=False)} if member else payload


def message_event(one: FakeMessage, world: World, *, nonce: bool = False) -> Json:
    """Return a message as the gateway gives it: it tells the guild and the author's membership too."""
    payload = message(one, world)
    guild = one.channel.guild
    if guild is not None:
        payload["guild_id"] = str(guild.id)
        member = guild.members.get(one.author.id)
        if member is not None and one.webhook is None:
            told = member.payload(user=False)
            payload["member"] = gateway.member(told) if world.lean else told
    payload["channel_type"] = one.channel.type
    if nonce and one.nonce is not None:
        payload["nonce"] = one.nonce
    return payload


def without_content(payload: Json) -> Json:
    """Return a message for an application that may not read what people write."""
    nothing: Json = {"content": "", "embeds": [], "attachments": [], "components": []}
    bare = payload | nothing
    bare.pop("message_snapshots", None)
    if answered := payload.get("referenced_message"):
        bare["referenced_message"] = answered | nothing
    return bare


def channel(one: FakeChannel, world: World) -> Json:
    """Return a channel, thread or DM."""
    payload: Json = {
        "id": str(one.id),
        "type": one.type,
        "last_message_id": str(one.last_message_id) if one.last_message_id else None,
        "flags": 0,
    }
    if one.guild is None:
        others = [user.payload() for user in one.recipients if user is not world.bot]
        return payload | {"recipients": others}
    payload |= {
        "guild_id": str(one.guild.id),
        "name": one.name,
        "parent_id": str(one.parent.id) if one.parent else None,
    }
    if one.is_thread:
        return payload | _thread(one, world)
    payload |= {
        "position": one.position,
        "permission_overwrites": [
            {
                "id": str(target),
                "type": 0 if target in one.guild.roles else 1,
                "allow": str(int(allow)),
                "deny": str(int(deny)),
            }
            for target, (allow, deny) in one.overwrites.items()
        ],
        "nsfw": one.nsfw,
    }
    if one.type == 2:  # voice
        payload |= {"bitrate": 64_000, "user_limit": 0}
    if one.is_forum:
        payload["available_tags"] = [
            {"id": str(tag_id), "name": name, "moderated": False, "emoji_id": None, "emoji_name": None}
            for tag_id, name in one.tags.items()
        ]
    return payload


def _thread(one: FakeChannel, world: World) -> Json:
    payload: Json = {
        "owner_id": str(one.owner.id if one.owner else world.bot.id),
        "message_count": max(0, one.message_count - 1 if one.started_by_message else one.message_count),
        "member_count": len(one.thread_members),
        "applied_tags": [str(tag) for tag in one.applied_tags],
        "thread_metadata": {
            "archived": one.archived,
            "auto_archive_duration": 1440,
            "archive_timestamp": moment(time_of(one.id)),
            "locked": one.locked,
        },
    }
    if world.bot.id in one.thread_members:
        payload["member"] = thread_member(one, world.bot)
    return payload


def thread_member(one: FakeChannel, user: User) -> Json:
    """Tell that somebody follows a thread."""
    return {
        "id": str(one.id),
        "user_id": str(user.id),
        "join_timestamp": moment(one.thread_members.get(user.id, time.time())),
        "flags": 1,
    }


def guild(one: Guild) -> Json:
    """Return a guild as REST gives it."""
    return {
        "id": str(one.id),
        "name": one.name,
        "owner_id": str(one.owner.id),
        "roles": [role.payload() for role in one.roles.values()],
        "emojis": [emoji.payload() for emoji in one.emojis.values()],
        "stickers": [sticker.payload(one.id) for sticker in one.stickers.values()],
        "features": ["COMMUNITY"],
        "preferred_locale": one.locale,
    }


def guild_create(one: Guild, world: World) -> Json:
    """Return a guild as the gateway opens it; of its members the bot alone."""
    bot = world.bot
    threads = [each for each in one.threads.values() if not each.archived and in_channel(each, bot)]
    return guild(one) | {
        "member_count": len(one.members),
        "members": [one.members[bot.id].payload()],
        "channels": [channel(each, world) for each in one.channels.values()],
        "threads": [channel(each, world) for each in threads],
    }


def partial_guild(one: Guild, world: World) -> Json:
    """Return a guild in the list of those that the bot is in."""
    told = {
        "id": str(one.id),
        "name": one.name,
        "owner": one.owner is world.bot,
        "permissions": str(int(in_guild(one, world.bot))),
    }
    if world.lean:
        del told["permissions"]
    return told
