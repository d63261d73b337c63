"""What an operator decides of the server: a part of the settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class HttpRules:
    """How requests are taken, and how a persona is shown.

    Attributes:
        local: programs on this machine may talk without a key. To be false behind a proxy that does not say
            whose requests it passes on.
        allowed_hosts: names under which it may be asked, besides `host` and this machine's.
        allowed_origins: web pages that may ask it, e.g. `https://example.org`. Those of publishable keys may
            for visitors.
        address_header: where a proxy tells whose requests it passes on, e.g. `X-Forwarded-For`; "": requests
            come from where the connection comes from. Visitors are limited by it.
        requests_per_minute: of one principal.
        key_requests_per_minute: of all together who come by one key.
        visitor_requests_per_minute: of one visitor.
        visitor_messages_per_day: of one visitor.
        visitors_per_address: that may begin there in an hour. All who come from there may together do so many
            times what one may.
        turns_per_person: that may be under way at once, each in a talk of its own.
        max_body_bytes: how long the body of a request may be.
        files: the folder in which files lie that people send; each store has one of its own in it.
        max_file_bytes: how large one of them may be.
        file_bytes_per_person: how large all of one person's may be together.
        file_characters: how much of the text of one the persona is told.
        attachment_hosts: from which a file may be fetched that a message names by its address, e.g. the media
            server of an app; (): from nowhere.
        show_tools: clients are told which tools were called, and what came of it.
        silence: what a client gets that must get a text, where the persona said nothing.
        reactions: what becomes of them where there is text alone: nothing, or a line of their own.
        conversation_headers: of the OpenAI-compatible endpoint, those that name the talk.
        system: what becomes of a system prompt that an OpenAI client sends: the persona gets it as a note of
            the application, or not at all.
        notes: what becomes of them there: nothing, or they go out as reasoning.
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
