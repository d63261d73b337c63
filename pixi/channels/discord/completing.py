"""Puts into a server's events what discord.py takes for granted, and not every server sends."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from discord.gateway import DiscordWebSocket

Json = dict[str, Any]

_REPLY = 19  # type of a message
_OF_USER = {"username": "", "discriminator": "0", "avatar": None}
_OF_MEMBER = {"roles": (), "flags": 0}
_OF_MESSAGE = {"type": 0, "content": "", "mentions": (), "mention_roles": ()}
_OF_CHANNEL = {"name": "", "position": 0}
_OF_ROLE = {"name": "", "permissions": 0}
_OF_THREAD = {"name": "", "owner_id": 0, "message_count": 0, "member_count": 0}
_OF_THREAD_DATA = {"archived": False, "auto_archive_duration": 1_440, "archive_timestamp": None}
_ASIDE = (
    *("presences", "voice_states", "stage_instances", "guild_scheduled_events", "soundboard_sounds"),
    *("stickers", "members", "emojis", "threads"),
)
"""Parts of a guild without which one can talk in it."""

_NOBODY: Mapping[str, Any] = {"id": 0, **_OF_USER}


def complete(event: str, data: Any) -> bool:
    """Complete an event's data in place; False where the event is better left alone."""
    match event:
        case "MESSAGE_CREATE":
            _complete_message(data)
        case "MESSAGE_UPDATE":
            if data.get("content") is None:
                return False  # boxes were added, and of the rest nothing is told
            data.setdefault("author", dict(_NOBODY))
            _complete_message(data)
        case "GUILD_CREATE" | "GUILD_UPDATE":
            _complete_guild(data)
        case "CHANNEL_CREATE" | "CHANNEL_UPDATE":
            _fill(data, _OF_CHANNEL)
        case "THREAD_CREATE" | "THREAD_UPDATE":
            _complete_thread(data)
        case "INTERACTION_CREATE":
            _without_nulls(data)
            if member := data.get("member"):
                _complete_member(member)
            if user := data.get("user"):
                _fill(user, _OF_USER)
    return True


def with_less(event: str, data: Any) -> Iterator[Any]:
    """The data of an event that could not be read with ever less of what may be odd in it."""
    if event == "GUILD_CREATE":
        for parts in (_ASIDE[:5], _ASIDE, (*_ASIDE, "roles")):
            yield {key: value for key, value in data.items() if key not in parts}


@contextmanager
def complete_sessions() -> Iterator[None]:
    """Let discord.py begin and resume sessions on servers that leave out where, or tell nothing of it.

    Holds for the whole process, until the block is left.
    """
    before = DiscordWebSocket.received_message
    name = "received_message"
    setattr(DiscordWebSocket, name, _completing(before))
    try:
        yield
    finally:
        setattr(DiscordWebSocket, name, before)


def _completing(receive: Callable[..., Any]) -> Callable[..., Any]:
    async def received_message(self: DiscordWebSocket, msg: Any, /) -> None:
        text = self._decompressor.decompress(msg) if type(msg) is bytes else msg
        if text is not None:
            await receive(self, _session(self, text))

    return received_message


def _session(socket: DiscordWebSocket, text: str) -> str:
    """A frame; where it may begin or resume a session, with what that takes."""
    if '"READY"' not in text and '"RESUMED"' not in text:
        return text
    frame = json.loads(text)
    data, event = frame.get("d"), frame.get("t")
    if event == "RESUMED" and not isinstance(data, dict):
        frame["d"] = {}
    elif event == "READY" and isinstance(data, dict):
        data["resume_gateway_url"] = data.get("resume_gateway_url") or str(socket.DEFAULT_GATEWAY)
        data["guilds"] = data.get("guilds") or []
        data.setdefault("session_id", None)
        if isinstance(user := data.get("user"), dict):
            _fill(user, _OF_USER)
    else:
        return text
    return json.dumps(frame)


def _complete_message(data: Json) -> None:
    answered = data.get("referenced_message")
    was_deleted = "referenced_message" in data and answered is None and data.get("message_reference")
    _without_nulls(data)
    if was_deleted:
        data["referenced_message"] = None
    if data.get("message_reference"):
        data.setdefault("type", _REPLY)
    _fill(data, _OF_MESSAGE)
    if author := data.get("author"):
        _fill(author, _OF_USER)
    if member := data.get("member"):
        if "roles" not in member:  # nobody is to pass for somebody without roles: they are asked for
            del data["member"]
        _complete_member(member)
    for user in data["mentions"]:
        _fill(user, _OF_USER)
        if member := user.get("member"):
            _complete_member(member)
    if answered:
        answered.setdefault("channel_id", data.get("channel_id"))
        answered.setdefault("author", dict(_NOBODY))
        _complete_message(answered)


def _complete_member(data: Json) -> None:
    _fill(data, _OF_MEMBER)
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
    _fill(data.setdefault("thread_metadata", {}), _OF_THREAD_DATA)


def _without_nulls(data: Json) -> None:
    """What is null where discord.py knows only of what is there and what is not."""
    for key in [key for key, value in data.items() if value is None]:
        del data[key]


def _fill(data: Json, usual: Mapping[str, Any]) -> None:
    for key, value in usual.items():
        if data.get(key) is None:
            data[key] = value
