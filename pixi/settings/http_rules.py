"""What an operator decides of the HTTP server, and the form of addresses in it."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError

_HOST = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?")
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpRules:
    """How requests are taken, and how a persona is shown.

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
        system: whether the persona sees the system prompt of a chat program as a note, or not at all.
        notes: whether chat programs see the private notes, as reasoning.
    """

    local: bool = True
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    address_header: str = ""
    requests_per_minute: int = 60
    key_requests_per_minute: int = 600
    visitor_requests_per_minute: int = 20
    visitor_messages_per_day: int = 100
    visitors_per_address: int = 10
    turns_per_person: int = 4
    max_body_bytes: int = 1_000_000
    files: Path = Path("pixi-files")
    max_file_bytes: int = 10_000_000
    file_bytes_per_person: int = 100_000_000
    file_characters: int = 20_000
    attachment_hosts: tuple[str, ...] = ()
    show_tools: bool = False
    silence: str = "…"
    reactions: Literal["drop", "line"] = "drop"
    conversation_headers: tuple[str, ...] = ("X-OpenWebUI-Chat-Id", "X-Conversation-Id")
    system: Literal["note", "ignore"] = "note"
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
    reason = str(error.strerror).partition(" (")[0] if isinstance(error, OSError) else "no name of a host"
    if isinstance(error, socket.gaierror):
        reason = "there is no such host"
    return ConfigError(f"{where}: cannot listen there ({reason}); choose another port or address.")
