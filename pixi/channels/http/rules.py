"""What an operator decides of the server: a part of the settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class HttpRules:
    """How requests are taken, and how a persona is shown.

    Attributes:
        local: whether programs on this machine may talk without a key; false behind a proxy that does not say
            whose requests it passes on.
        allowed_hosts: further names under which the server may be asked.
        allowed_origins: web pages that may ask the server, such as `https://example.org`.
        address_header: the header in which a proxy tells whose requests it passes on, such as
            `X-Forwarded-For`.
        requests_per_minute: how many requests one caller may make in a minute.
        key_requests_per_minute: how many requests all may make in a minute who come by one key.
        visitor_requests_per_minute: how many requests one visitor of a page may make in a minute.
        visitor_messages_per_day: how many messages one visitor may write in a day.
        visitors_per_address: how many visitors may begin from one address in an hour; all of them together
            may do so many times what one may.
        turns_per_person: how many replies to one person may be under way at once.
        max_body_bytes: how many bytes the body of a request may have.
        files: the folder for files that people send.
        max_file_bytes: how many bytes one such file may have.
        file_bytes_per_person: how many bytes all files of one person may have together.
        file_characters: how much of a file's text the persona is told.
        attachment_hosts: the hosts from which a file may be fetched that a message names by its address.
        show_tools: whether clients are told which tools were called, and what came of it.
        silence: what a chat program gets that needs a text, where the persona said nothing.
        reactions: whether chat programs are shown reactions as a line, or not at all.
        conversation_headers: the headers in which a chat program names the talk.
        system: whether the system prompt of a chat program is a note to the persona, or ignored.
        notes: whether chat programs are shown the private notes, as reasoning.
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
