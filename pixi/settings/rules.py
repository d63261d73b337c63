"""An operator's rules for Discord and the HTTP server: who may talk, and which origins may ask."""

import errno
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from pixi.core.errors import ConfigError

Faces = Literal["off", "profile", "webhook"]
Ping = Literal["users", "roles", "everyone"]
_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?")
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the bot. Lists hold Discord's ids; an empty `allowed_…` list allows everybody.

    Attributes:
        allowed_users: the people who may talk to the bot; empty: everybody.
        blocked_users: the people whom the bot ignores.
        allowed_roles: the roles whose members may talk to the bot; empty: all.
        blocked_roles: the roles whose members the bot ignores.
        allowed_channels: the channels in which the bot answers; empty: all.
        blocked_channels: the channels in which the bot does not answer.
        allowed_guilds: the servers in which the bot answers; empty: all.
        blocked_guilds: the servers in which the bot does not answer.
        admins: the people who may do everything with the bot, everywhere; the lists of what is allowed do not
            bind them.
        dms: whether the bot answers direct messages.
        bots: whether the bot answers other bots.
        bot_turns: how many turns personas and bots may take in a channel until a person speaks again.
        home_channels: the channels where every message is meant for the persona.
        faces: how a persona appears: as the bot (`off`), as the bot with the persona's name and picture in
            each server (`profile`), or under its own name and picture, several in one channel (`webhook`).
        pings: whom a persona may ping besides the person it answers.
        link_hosts: whether Pixi shows the host beside a link to which a persona gives another name.
        overhear: how many earlier messages a persona sees when somebody calls it.
        catch_up_minutes: how old an unanswered message may be that the bot still answers after a start.
        catch_up_messages: how many such messages the bot reads in each channel.
        patience_seconds: how long the bot tries to post a message while Discord cannot be reached.
        pictures: how many pictures of a message a model that sees is shown.
        picture_megabytes: how large the file of a picture may be.
        picture_pixels: the longer side of a picture; larger ones are scaled down.
        text_files: how many text files of a message the bot reads.
        text_characters: how much the bot reads of a message, and of each text file.
        requests_per_second: how many requests Discord takes from the bot in a second; 0: 50, and any number
            at another server.
        queues: the personas whose conversations wait in queues of their own, for workers with `--queues`.
        slash: whether the bot offers slash commands.
        read_history: whether personas may look up older messages of the server, as far as everybody who could
            read the answer may read them.
        stickers: whether personas may send the stickers of the server.
    """

    allowed_users: tuple[int, ...] = ()
    blocked_users: tuple[int, ...] = ()
    allowed_roles: tuple[int, ...] = ()
    blocked_roles: tuple[int, ...] = ()
    allowed_channels: tuple[int, ...] = ()
    blocked_channels: tuple[int, ...] = ()
    allowed_guilds: tuple[int, ...] = ()
    blocked_guilds: tuple[int, ...] = ()
    admins: tuple[int, ...] = ()
    dms: bool = True
    bots: bool = False
    bot_turns: Annotated[int, Meta(ge=0, le=100)] = 4
    home_channels: tuple[int, ...] = ()
    faces: Faces = "off"
    pings: tuple[Ping, ...] = ()
    link_hosts: bool = True
    overhear: Annotated[int, Meta(ge=0, le=100)] = 20
    catch_up_minutes: Annotated[float, Meta(ge=0, le=10_080)] = 30.0
    catch_up_messages: Annotated[int, Meta(ge=0, le=50)] = 50
    patience_seconds: Annotated[float, Meta(ge=0, le=600)] = 30.0
    pictures: Annotated[int, Meta(ge=0, le=10)] = 4  # at most as many as a message can carry
    picture_megabytes: Annotated[float, Meta(ge=0.1, le=100)] = 8.0
    picture_pixels: Annotated[int, Meta(ge=64, le=8_192)] = 1_024
    text_files: Annotated[int, Meta(ge=0, le=10)] = 3
    text_characters: Annotated[int, Meta(ge=100, le=1_000_000)] = 20_000
    requests_per_second: Annotated[int, Meta(ge=0, le=100_000)] = 0
    queues: tuple[str, ...] = ()
    slash: bool = True
    read_history: bool = False
    stickers: bool = False


@dataclass(frozen=True, slots=True)
class Requester:
    """Somebody who wants something of the bot, and where.

    Attributes:
        roles: ids of their roles in the guild; empty in a DM.
        guild: id of the guild; None in a DM.
        channels: ids of the channel, and of what it belongs to: a thread's parent, a channel's category.
        manages: Discord lets them manage the guild.
        is_bot: it is a bot or a webhook.
    """

    user: int
    roles: frozenset[int] = frozenset()
    guild: int | None = None
    channels: tuple[int, ...] = ()
    manages: bool = False
    is_bot: bool = False


def may_talk(rules: Rules, requester: Requester) -> bool:
    """Return whether the bot answers somebody there.

    Whoever or whatever is blocked is denied, admins too. Admins then pass all lists. For the others each
    list that is not empty must name the guild, the channel, and the person or one of their roles. In a DM
    there is no guild, no channel and no role: `dms` decides, and who is named.
    """
    if is_blocked(rules, requester):
        return False
    if requester.user in rules.admins:
        return True
    if requester.is_bot and not rules.bots:
        return False
    if requester.guild is None:
        return rules.dms and _person_allowed(rules, requester)
    return (
        _listed((requester.guild,), rules.allowed_guilds)
        and _listed(requester.channels, rules.allowed_channels)
        and _person_allowed(rules, requester)
    )


def is_blocked(rules: Rules, requester: Requester) -> bool:
    """Return whether somebody, or the place, is on a list of what is blocked: not even overheard."""
    return (
        requester.user in rules.blocked_users
        or not requester.roles.isdisjoint(rules.blocked_roles)
        or requester.guild in rules.blocked_guilds
        or any(channel in rules.blocked_channels for channel in requester.channels)
    )


def is_admin(rules: Rules, requester: Requester) -> bool:
    """Return whether somebody governs the bot there: an admin of the settings, or of the guild."""
    return may_talk(rules, requester) and (
        requester.user in rules.admins or (requester.guild is not None and requester.manages)
    )


def _person_allowed(rules: Rules, requester: Requester) -> bool:
    if not rules.allowed_users and not rules.allowed_roles:
        return True
    return requester.user in rules.allowed_users or not requester.roles.isdisjoint(rules.allowed_roles)


def _listed(these: Iterable[int], allowed: tuple[int, ...]) -> bool:
    return not allowed or any(each in allowed for each in these)


@dataclass(frozen=True, slots=True)
class HttpRules:
    """Rules for requests, and for showing a persona.

    Attributes:
        local: whether programs on this machine may talk without a key; set false behind a proxy that does not
            name the client.
        allowed_hosts: further names of the server.
        allowed_origins: web pages that may call the server, such as `https://example.org`.
        address_header: the header in which a proxy names the client, such as `X-Forwarded-For`.
        requests_per_minute: how many requests one caller may make in a minute.
        key_requests_per_minute: how many requests all callers of one key may make in a minute, together.
        visitor_requests_per_minute: how many requests one visitor of a page may make in a minute.
        visitor_messages_per_day: how many messages one visitor may write in a day.
        visitors_per_address: how many new visitors one address may bring in an hour; together they may do
            that many times what one may.
        turns_per_person: how many replies to one person may be written at once.
        max_body_bytes: how many bytes the body of a request may have.
        files: the folder for files that people send.
        max_file_bytes: how many bytes one such file may have.
        file_bytes_per_person: how many bytes all files of one person may have together.
        file_characters: how much of a file's text the persona reads.
        attachment_hosts: the hosts from which Pixi may fetch a file that a message names by its address.
        show_tools: whether clients see which tools were called, with their results.
        silence: what a chat program gets when the persona says nothing.
        reactions: whether chat programs see reactions as a line, or not at all.
        conversation_headers: the headers in which a chat program names the talk.
        system: whether the persona sees the system prompt of a chat program as a note, or not at all, or
            has it behind its own prompt, by keys with the scope `instruct`.
        notes: whether operators see the private notes as reasoning, by keys with the scope `operate`.
    """

    local: bool = True
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    address_header: str = ""
    requests_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 60
    key_requests_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 600
    visitor_requests_per_minute: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    visitor_messages_per_day: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    visitors_per_address: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    turns_per_person: Annotated[int, Meta(ge=1, le=10_000)] = 4
    max_body_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 1_000_000
    files: Path = Path("pixi-files")
    max_file_bytes: Annotated[int, Meta(ge=1_000, le=10_000_000_000)] = 10_000_000
    file_bytes_per_person: Annotated[int, Meta(ge=0, le=1_000_000_000_000)] = 100_000_000
    file_characters: Annotated[int, Meta(ge=100, le=1_000_000)] = 20_000
    attachment_hosts: tuple[str, ...] = ()
    show_tools: bool = False
    silence: str = "…"
    reactions: Literal["drop", "line"] = "drop"
    conversation_headers: tuple[str, ...] = ("X-OpenWebUI-Chat-Id", "X-Conversation-Id")
    system: Literal["note", "ignore", "append"] = "note"
    notes: Literal["hidden", "reasoning"] = "hidden"


def origin_of(text: str) -> str | None:
    """Return an origin as browsers send it (`https://example.org`), or None if the text is none.

    A name that is not written in ASCII, `*`, `null`, a path and a user's name are no part of an origin.
    """
    if not text.isascii() or not text.isprintable():
        return None
    scheme, mark, host = text.strip().rstrip("/").partition("://")
    scheme = scheme.lower()
    try:
        parts = urlsplit(f"{scheme}://{host.lower()}")
        port = parts.port
    except ValueError:
        return None
    name = parts.netloc.removesuffix(f":{port}")
    if not mark or scheme not in _USUAL_PORTS or port == 0 or not _HOST.fullmatch(name):
        return None
    if parts.path or parts.query or parts.fragment:
        return None
    return f"{scheme}://{name}" if port in (None, _USUAL_PORTS[scheme]) else f"{scheme}://{name}:{port}"


def is_own(origin: str, host: str) -> bool:
    """Return True for the origin of a page that this server itself served. `host`: as it was asked for."""
    return bool(host) and origin.partition("://")[2] == host.lower()


def url_of(host: str, port: int) -> str:
    """Return the address of a server that listens there."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def cannot_listen(where: str, error: OSError | UnicodeError) -> ConfigError:
    """Make the error of a port that cannot be opened. `where`: as the operator chose it."""
    if isinstance(error, socket.gaierror):
        reason = "there is no such host"
    elif isinstance(error, UnicodeError):
        reason = "no name of a host"
    elif error.errno == errno.EADDRINUSE:
        reason = "another program does, perhaps another Pixi"
    else:  # asyncio puts the address in front
        reason = str(error.strerror).rpartition(": ")[2]
    return ConfigError(f"{where}: cannot listen there ({reason}); choose another port or address.")
