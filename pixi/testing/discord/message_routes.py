"""Routes of messages, and the search among them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import emoji as emojis

from pixi.testing.discord import routing
from pixi.testing.discord.calls import ApiCall, Json, fault, invalid, snowflake
from pixi.testing.discord.channels import WRITABLE, FakeChannel, Typing
from pixi.testing.discord.guilds import Guild, in_channel, may_send
from pixi.testing.discord.ids import moment
from pixi.testing.discord.messages import EPHEMERAL, WRITTEN, Allowed, FakeMessage, MessageDraft, Reaction
from pixi.testing.discord.routing import ApiAnswer, ApiRoute, guild_of, message_in, need, number, visible
from pixi.testing.discord.users import P
from pixi.testing.discord.world import World

MOST_REACTIONS = 20


def create(world: World, call: ApiCall) -> object:
    """Write a message."""
    channel = visible(world, call)
    may_write(world, channel)
    draft = routing.draft_of(call, world)
    draft.flags &= ~EPHEMERAL
    if draft.enforce_nonce and draft.nonce is not None:
        before = world.made_before(world.bot, draft.nonce)
        if before is not None:
            return _created(before)
    fields = routing.fields_of(call)
    refer(world, channel, draft, fields.get("message_reference"))
    if draft.files:
        need(world, channel, P.ATTACH_FILES)
    if draft.embeds:
        need(world, channel, P.EMBED_LINKS)
    message = world.write(channel, world.bot, draft)
    world.remember_nonce(message)
    return _created(message)


def _created(message: FakeMessage) -> Json:
    payload = message.payload()
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
    """Point the draft at the message that it answers. Raises `RefusedCall`."""
    if given is None:
        return
    place = ("message_reference",)
    if not isinstance(given, dict) or given.get("message_id") is None:
        raise invalid((*place, "message_id"), "BASE_TYPE_REQUIRED", "This field is required")
    message_id = snowflake(given["message_id"], "message_id")
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
    """Return a stretch of messages, newest first; without the right to read history there are none."""
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
    return [world.readable(one) for one in found]


def one(world: World, call: ApiCall) -> object:
    """Return a single message."""
    channel = visible(world, call)
    need(world, channel, P.READ_MESSAGE_HISTORY)
    message = message_in(channel, call)
    payload = world.readable(message)
    if world.lean:
        del payload["mentions"]
    return payload


def edit(world: World, call: ApiCall) -> object:
    """Edit a message of the bot's."""
    channel = visible(world, call)
    message = message_in(channel, call)
    if message.author is not world.bot:
        raise fault(50005)
    change(world, message, call, routing.fields_of(call))
    return message.payload()


def change(world: World, message: FakeMessage, call: ApiCall, fields: Json) -> None:
    """Give a message what a body says; what it leaves out stays. Raises `RefusedCall`."""
    content = routing.content_of(fields) if "content" in fields else None
    embeds = routing.embeds_of(fields) if "embeds" in fields else message.embeds
    components = routing.components_of(fields) if "components" in fields else message.components
    allowed = Allowed() if world.lean else routing.allowed_of(fields)
    added = routing.files_of(call, fields)
    kept = message.attachments
    if "attachments" in fields:
        stay = {str(one.get("id")) for one in fields["attachments"] or []}
        kept = [one for one in message.attachments if str(one.id) in stay]
    text = message.content if content is None else content
    if not (text or embeds or components or kept or added or message.stickers):
        raise fault(50006)
    message.embeds, message.components = embeds, components
    message.attachments = [*kept, *(world.attach(message.channel, upload) for upload in added)]
    world.rewrite(message, text, allowed)


def typing(world: World, call: ApiCall) -> object:
    """Let the bot begin to type."""
    channel = visible(world, call)
    may_write(world, channel)
    channel.typings.append(Typing(world.bot, time.monotonic()))
    return None


def react(world: World, call: ApiCall) -> object:
    """Put a reaction of the bot's on a message."""
    channel = visible(world, call)
    need(world, channel, P.READ_MESSAGE_HISTORY)
    message = message_in(channel, call)
    reaction = emoji_of(world, channel, call.ids["emoji"])
    if str(reaction.id or reaction.name) not in message.by_emoji:
        need(world, channel, P.ADD_REACTIONS)
        if len(message.by_emoji) >= MOST_REACTIONS:
            raise fault(30010)
    world.add_reaction(message, world.bot, reaction)
    return None


def emoji_of(world: World, channel: FakeChannel, given: str) -> Reaction:
    """The emoji in the path: itself, or `name:id` of one that the bot can use. Raises `RefusedCall`."""
    _, separator, emoji_id = given.rpartition(":")
    if not separator:
        if not emojis.is_emoji(given) and not emojis.is_emoji(given + "\ufe0f"):
            raise fault(10014)
        return Reaction(given)
    found = world.emojis.get(int(emoji_id)) if emoji_id.isdigit() else None
    if found is None or found[0].id not in world.guilds:
        raise fault(10014)
    guild, emoji = found
    if guild is not channel.guild:
        need(world, channel, P.USE_EXTERNAL_EMOJIS)
    return Reaction(emoji.name, emoji.id)


MOST_CHANNELS = 500
LONGEST_CONTENT = 1024
READ = P.VIEW_CHANNEL | P.READ_MESSAGE_HISTORY


def search(world: World, call: ApiCall) -> object:
    """Return the messages of a guild that match, as far as the bot may read them, in groups of one."""
    guild = guild_of(world, call)
    if not world.shows_content:
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
    messages = [message.payload() | {"hit": True} for message in chosen]
    for each in messages:
        each.pop("reactions", None)
    return {
        "total_results": len(found),
        "messages": [[each] for each in messages],
        "threads": [each.payload() for each in threads.values()],
    }


def _readable(world: World, guild: Guild, channels: set[int], *, adult: bool) -> Iterator[FakeChannel]:
    """Yield channels and threads that the bot may read; one that is named means its threads too."""
    for each in (*guild.channels.values(), *guild.threads.values()):
        room = each.parent if each.is_thread and each.parent else each
        if channels and not {each.id, room.id} & channels:
            continue
        if in_channel(each, world.bot) & READ == READ and (adult or not room.nsfw):
            yield each


def pins(world: World, call: ApiCall) -> object:
    """Return the pinned messages of a channel, the last pinned first."""
    channel = visible(world, call)
    limit = number(call, "limit", 50, 1, 50)
    if channel.type not in WRITABLE:
        raise fault(50008)
    if not in_channel(channel, world.bot) & P.READ_MESSAGE_HISTORY:
        return {"items": [], "has_more": False}
    found = [
        {"pinned_at": moment(at), "message": world.readable(message)}
        for message, at in reversed(channel.pins)
    ]
    return {"items": found[:limit], "has_more": len(found) > limit}


def old_pins(world: World, call: ApiCall) -> object:
    """Return the same, as it was asked for before there were pages."""
    found = pins(world, call)
    return [each["message"] for each in found["items"]]  # type: ignore[index]


def _ids(call: ApiCall, name: str) -> set[int]:
    return {snowflake(value, name) for key, value in call.pairs if key == name}


def _bound(call: ApiCall, name: str) -> int:
    return snowflake(call.query[name], name) if name in call.query else 0


_MESSAGES = "/channels/{channel}/messages"
_REACTION = _MESSAGES + "/{message}/reactions/{emoji}"
ROUTES = [  # the first that fits answers: `/messages/pins` is no message
    ApiRoute("GET", "/guilds/{guild}/messages/search", search),
    ApiRoute("GET", _MESSAGES + "/pins", pins),
    ApiRoute("GET", "/channels/{channel}/pins", old_pins),
    ApiRoute("POST", _MESSAGES, create),
    ApiRoute("GET", _MESSAGES, page),
    ApiRoute("GET", _MESSAGES + "/{message}", one),
    ApiRoute("PATCH", _MESSAGES + "/{message}", edit),
    ApiRoute("POST", "/channels/{channel}/typing", typing),
    ApiRoute("PUT", _REACTION + "/@me", react),
]
