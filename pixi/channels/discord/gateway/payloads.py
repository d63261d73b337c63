"""Puts into a server's answers what discord.py takes for granted, and not every server sends."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

Json = dict[str, Any]

_FILE_LIMIT = 10 * 1024 * 1024  # bytes, what Discord takes of everybody
_REPLY = 19  # type of a message
_THREAD = 11  # type of a channel
_OF_USER = {"username": "", "discriminator": "0", "avatar": None}
_OF_MEMBER = {"roles": (), "flags": 0}
_OF_MESSAGE = {"type": 0, "content": "", "mentions": (), "mention_roles": ()}
_OF_ATTACHMENT = {"filename": "file", "size": 0, "url": ""}
_OF_CHANNEL = {"name": "", "position": 0}
_OF_ROLE = {"name": "", "permissions": 0}
_OF_THREAD = {"name": "", "owner_id": 0, "message_count": 0, "member_count": 0}
_OF_THREAD_DATA = {"archived": False, "auto_archive_duration": 1_440, "archive_timestamp": None}
_BESIDE_GUILD = (
    *("presences", "voice_states", "stage_instances", "guild_scheduled_events", "soundboard_sounds"),
    *("stickers", "members", "emojis", "threads"),
)
"""Parts of a guild without which one can talk in it."""

_OF_A_MESSAGE_THAT_COUNTS = frozenset(
    (
        *("id", "channel_id", "guild_id", "author", "member", "webhook_id", "application_id", "type"),
        *("content", "timestamp", "edited_timestamp", "mentions", "mention_roles", "mention_everyone"),
    )
)
"""Parts of a message without which it would be another."""


def complete(event: str, data: Any) -> bool:
    """Complete an event of the gateway in place; return False if it tells nothing and is to be dropped.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is not of the form that such an event has.
    """
    if event == "MESSAGE_UPDATE" and data.get("content") is None:
        return False  # boxes were added, and of the rest nothing is told
    if kind := _KINDS_BY_EVENT.get(event):
        _COMPLETING[kind](data)
    return True


def complete_answer(path: str, answer: Any) -> None:
    """Complete an answer of REST in place, as an event of the gateway would be; `path` as discord.py has it.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: it is not of the form that such an answer has.
    """
    if kind := _KINDS_BY_PATH.get(path):
        for each in answer if isinstance(answer, list) else (answer,):
            _COMPLETING[kind](each)


def with_less(event: str, data: Any) -> Iterator[Any]:
    """Give the data of an event that could not be read with ever less of what may be odd in it."""
    match event:
        case "GUILD_CREATE":
            for parts in (_BESIDE_GUILD[:5], _BESIDE_GUILD, (*_BESIDE_GUILD, "roles")):
                yield {key: value for key, value in data.items() if key not in parts}
        case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
            # What it quotes is looked up by the reference, or not told of.
            yield {key: value for key, value in data.items() if key != "referenced_message"}
            kept = {key: value for key, value in data.items() if key in _OF_A_MESSAGE_THAT_COUNTS}
            if "message_reference" in data:
                yield kept | {"message_reference": data["message_reference"]}
            yield kept


def complete_ready(data: Any, gateway: str) -> None:
    """Complete READY in place; `gateway` is where a session is resumed that does not tell where."""
    data["resume_gateway_url"] = data.get("resume_gateway_url") or gateway
    data["guilds"] = data.get("guilds") or []
    data.setdefault("session_id", None)
    if isinstance(user := data.get("user"), dict):
        _fill(user, _OF_USER)


def _complete_message(data: Json) -> None:
    answered = data.get("referenced_message")
    was_deleted = "referenced_message" in data and answered is None and data.get("message_reference")
    _without_nulls(data)
    if was_deleted:
        data["referenced_message"] = None
    if reference := data.get("message_reference"):
        data.setdefault("type", _REPLY)
        reference.setdefault("channel_id", data.get("channel_id"))
    _fill(data, _OF_MESSAGE)
    author = data.setdefault("author", {})
    author["id"] = author.get("id") or 0  # nobody's
    _fill(author, _OF_USER)
    if (member := data.get("member")) is not None:
        if "roles" not in member:  # nobody is to pass for somebody without roles: they are asked for
            del data["member"]
        _complete_member(member)
    for user in data["mentions"]:
        _fill(user, _OF_USER)
        if member := user.get("member"):
            _complete_member(member)
    for reaction in data.get("reactions", ()):
        _fill(reaction, {"me": False})
    for attachment in data.get("attachments", ()):
        _fill(attachment, _OF_ATTACHMENT)
        _fill(attachment, {"proxy_url": attachment["url"]})
    if thread := data.get("thread"):
        _fill(thread, {"type": _THREAD, "parent_id": data.get("channel_id")})
        _complete_thread(thread)
    if answered:
        answered.setdefault("channel_id", data.get("channel_id"))
        _complete_message(answered)


def _complete_member(data: Json) -> None:
    _fill(data, _OF_MEMBER)
    data["roles"] = [role["id"] if isinstance(role, dict) else role for role in data["roles"]]
    if data.get("permissions", 0) is None:
        del data["permissions"]
    if user := data.get("user"):
        _fill(user, _OF_USER)


def _complete_guild(data: Json) -> None:
    _without_nulls(data)
    for channel in data.get("channels", ()):
        _fill(channel, _OF_CHANNEL)
    for role in data.get("roles", ()):
        _fill(role, _OF_ROLE)
    for member in data.get("members", ()):
        _complete_member(member)
    for thread in data.get("threads", ()):
        _complete_thread(thread)


def _complete_thread(data: Json) -> None:
    _fill(data, _OF_THREAD)
    _fill(data, {"thread_metadata": {}})
    _fill(data["thread_metadata"], _OF_THREAD_DATA)


def _complete_interaction(data: Json) -> None:
    _without_nulls(data)
    _fill(data, {"attachment_size_limit": _FILE_LIMIT, "version": 1})
    if not data.get("channel") and data.get("channel_id"):
        data["channel"] = {"id": data["channel_id"], **({} if data.get("guild_id") else {"type": 1})}
    if member := data.get("member"):
        _complete_member(member)
    if user := data.get("user"):
        _fill(user, _OF_USER)


def _without_nulls(data: Json) -> None:
    """Delete what is null where discord.py knows only of what is there and what is not."""
    for key in [key for key, value in data.items() if value is None]:
        del data[key]


def _fill(data: Json, usual: Mapping[str, Any]) -> None:
    for key, value in usual.items():
        if data.get(key) is None:
            data[key] = value


_COMPLETING: Mapping[str, Callable[[Json], None]] = {
    "message": _complete_message,
    "member": _complete_member,
    "guild": _complete_guild,
    "channel": partial(_fill, usual=_OF_CHANNEL),
    "thread": _complete_thread,
    "interaction": _complete_interaction,
}
_KINDS_BY_EVENT = {
    "MESSAGE_CREATE": "message",
    "MESSAGE_UPDATE": "message",
    "GUILD_CREATE": "guild",
    "GUILD_UPDATE": "guild",
    "CHANNEL_CREATE": "channel",
    "CHANNEL_UPDATE": "channel",
    "THREAD_CREATE": "thread",
    "THREAD_UPDATE": "thread",
    "INTERACTION_CREATE": "interaction",
}
_KINDS_BY_PATH = {
    "/channels/{channel_id}/messages": "message",
    "/channels/{channel_id}/messages/{message_id}": "message",
    "/guilds/{guild_id}/members/{member_id}": "member",
}
