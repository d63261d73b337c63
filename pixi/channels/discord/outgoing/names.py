"""How a persona shows on Discord: names and pictures in the forms that Discord takes."""

import asyncio
import hashlib
import logging
import re
from pathlib import Path

from pixi.channels.discord.incoming.wording import one_line
from pixi.channels.discord.outgoing.splitting import units
from pixi.core.persona import Persona

_log = logging.getLogger("pixi.discord")

_LONGEST_NAME = 80
_LONGEST_NICK = 32
_MARK = 6  # hexadecimal digits that tell one picture from another
_LARGEST_PICTURE = 8_000_000  # bytes; Discord takes some more
_FORBIDDEN = {"discord": ("i", "í"), "clyde": ("y", "ý")}
"""Words that no webhook's name may hold, and the letter that is written differently."""

_RESERVED = frozenset(("everyone", "here", "system message"))
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")


def name_for_webhook(name: str) -> str:
    """A name as a webhook may bear it: 1 to 80 characters, and none of the words that Discord forbids."""
    name = one_line(name)
    for word, (letter, other) in _FORBIDDEN.items():
        for found in set(re.findall(word, name, flags=re.IGNORECASE)):
            unlike = found.replace(letter, other).replace(letter.upper(), other.upper())
            name = name.replace(found, unlike)
    name = re.sub("```|[@#:]", "", name).strip()
    while units(name) > _LONGEST_NAME:
        name = name[:-1].rstrip()
    return f"{name}." if name.casefold() in _RESERVED else name or "Persona"


def webhook_marked(persona: str, picture: bytes | None) -> str:
    """What a webhook itself is called: its persona's name on the shelf, and which picture it was given.

    People see it in a channel's settings only; each message shows the persona's own name.
    """
    name = name_for_webhook(persona)
    if picture is None:
        return name
    return f"{_room_for_mark(name)} {hashlib.sha256(picture).hexdigest()[:_MARK]}"


def is_marked_for(name: str, persona: str) -> bool:
    """Whether a webhook is called for this persona, whichever picture it was given."""
    bare, _, mark = name.rpartition(" ")
    marked = len(mark) == _MARK and set(mark) <= set("0123456789abcdef")
    borne = name_for_webhook(persona)
    return name == borne or (marked and bare == _room_for_mark(borne))


def _room_for_mark(name: str) -> str:
    while units(name) > _LONGEST_NAME - _MARK - 1:
        name = name[:-1].rstrip()
    return name


def nickname(name: str) -> str:
    """A name as a member of a server may bear it: 1 to 32 characters."""
    name = one_line(name)
    while units(name) > _LONGEST_NICK:
        name = name[:-1].rstrip()
    return name or "Persona"


def picture_address(persona: Persona) -> str:
    """Where its picture is on the web; "" where it is a file, or where there is none."""
    return persona.avatar if persona.avatar.lower().startswith("https://") else ""


async def picture_file(persona: Persona) -> bytes | None:
    """Its picture from a file, as Discord takes it; None, and a line in the log, where there is none."""
    if not persona.avatar or picture_address(persona):
        return None
    try:
        data = await asyncio.to_thread(_read, Path(persona.avatar))
    except OSError as error:
        _log.warning("the picture of %s cannot be read: %s", one_line(persona.name), error)
        return None
    if len(data) > _LARGEST_PICTURE:
        why = f"it is larger than {_LARGEST_PICTURE // 1_000_000} MB"
    elif not data.startswith(_PICTURES) and not (data[:4] == b"RIFF" and data[8:12] == b"WEBP"):
        why = "it is no PNG, JPEG, GIF or WebP"
    else:
        return data
    _log.warning("the picture of %s is not shown: %s", one_line(persona.name), why)
    return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_PICTURE + 1)
