"""Messages and lines as rows: JSON for what they say, their pictures kept apart, once per conversation."""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pixi.core.llm import AssistantLine, Line, SystemLine, ToolLine, UserLine
from pixi.core.message import Image, Message, Quoted
from pixi.store.database import Database
from pixi.store.framing import Framing

OVERTAKEN = -1
"""The generation of a turn whose end is to leave nothing, though its conversation was not reset."""

Fetch = Callable[[str], bytes | None]
"""Gives the picture of a digest; None: it is lost, and left out."""


def no_picture(digest: str) -> bytes:
    """Stand in for the picture of a digest where no picture is wanted."""
    return b""


_KINDS: dict[str, type[Line]] = {
    "system": SystemLine,
    "user": UserLine,
    "assistant": AssistantLine,
    "tool": ToolLine,
}
_ENCODER = json.JSONEncoder(ensure_ascii=False)  # `json.dumps` would make one for each row
_Pictured = TypeVar("_Pictured", Message, UserLine, ToolLine)


class EncodedValue(Struct, frozen=True):
    """A value ready to be written. `pictures` are those that `body` names, by digest."""

    body: bytes
    pictures: dict[str, bytes]


def as_utf8(text: str) -> str:
    """Replace half surrogate pairs, which neither a column of text nor every program can hold."""
    return text.encode("utf-8", "replace").decode()


def pack_text(text: str) -> bytes:
    """Encode any text, also half a surrogate pair, which UTF-8 cannot say: a model may write one."""
    return text.encode("utf-8", "surrogatepass")


def unpack_text(body: object) -> str:
    """Decode a text that was packed. What is damaged in it becomes replacement characters.

    Raises:
        ValueError: the row holds no text.
    """
    if not isinstance(body, bytes):
        raise ValueError("a row holds no bytes")
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace")


def pack_message(message: Message) -> EncodedValue:
    """Encode a message. Its number, and that it comes due again, have columns of their own."""
    fields = msgspec.to_builtins(replace(message, images=()) if message.images else message)
    del fields["number"], fields["again"]
    if not message.instructions:  # as it is nearly always
        del fields["instructions"]
    return _pack_pictured(fields, message.images) if message.images else EncodedValue(_packed(fields), {})


def unpack_message(body: bytes, number: int = 0, fetch: Fetch = no_picture) -> Message:
    """Decode a message; without more arguments, without its number and what its pictures show.

    Raises:
        ValueError: the row is damaged.
    """
    return replace(_with_pictures(body, Message, fetch), number=number)


def with_text(body: bytes, text: str) -> bytes:
    """Return the row of a message with another text.

    Raises:
        ValueError: the row is damaged.
    """
    return _packed({**_fields(body), "text": text})


def as_overheard(body: bytes) -> bytes:
    """Return the row of a message that is not meant for the persona any more.

    Raises:
        ValueError: the row is damaged.
    """
    return _packed({**_fields(body), "addressed": False})


def without_quotes(body: bytes, person: str) -> bytes:
    """Return the row of a message without quotes of a person.

    Raises:
        ValueError: the row is damaged.
    """
    fields = _fields(body)
    quoted = msgspec.convert(fields.get("quoted", ()), tuple[Quoted, ...])
    kept = [one for one in quoted if one.author is None or one.author.id != person]
    return _packed({**fields, "quoted": msgspec.to_builtins(kept)})


def digests_in(body: bytes) -> list[str]:
    """Return the digests of the pictures that a row names.

    Raises:
        ValueError: the row is damaged.
    """
    if b'"images":' not in body:
        return []
    return [digest for _, digest in _named(_fields(body).get("images", []))]


def kind_of(line: Line) -> str:
    """Return the name of a line's kind in the table."""
    match line:
        case SystemLine():
            return "system"
        case UserLine():
            return "user"
        case AssistantLine():
            return "assistant"
        case ToolLine():
            return "tool"
        case _:
            assert_never(line)


def pack_line(line: Line) -> EncodedValue:
    """Encode a line."""
    if isinstance(line, UserLine | ToolLine) and line.images:
        return _pack_pictured(msgspec.to_builtins(replace(line, images=())), line.images)
    return EncodedValue(_packed(line), {})


def unpack_line(kind: str, body: bytes, fetch: Fetch = no_picture) -> Line:
    """Decode a line, equal to the byte.

    Raises:
        ValueError: the row is damaged.
    """
    if kind not in _KINDS:
        raise ValueError(f"a row of the unknown kind {kind!r}")
    if kind == "user":
        return _with_pictures(body, UserLine, fetch)
    if kind == "tool":
        return _with_pictures(body, ToolLine, fetch)
    return msgspec.convert(json.loads(unpack_text(body)), _KINDS[kind])


def pack_framing(framing: Framing) -> bytes:
    """Encode how a turn was asked."""
    return msgspec.json.encode(framing)


def unpack_framing(body: bytes) -> Framing | None:
    """Decode how a turn was asked; None if the row is damaged: then it is not known."""
    try:
        return msgspec.json.decode(body, type=Framing)
    except msgspec.DecodeError:
        return None


def _pack_pictured(fields: dict[str, object], images: tuple[Image, ...]) -> EncodedValue:
    digests = [hashlib.sha256(image.data).hexdigest() for image in images]
    fields["images"] = [[image.media_type, digest] for image, digest in zip(images, digests, strict=True)]
    pictures = {digest: image.data for image, digest in zip(images, digests, strict=True)}
    return EncodedValue(_packed(fields), pictures)


def _packed(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, see `pack_text`
        return pack_text(_ENCODER.encode(msgspec.to_builtins(value)))


def _fields(body: bytes) -> dict[str, Any]:
    fields = json.loads(unpack_text(body))
    if not isinstance(fields, dict):
        raise ValueError("a row holds no fields")
    return fields


def _named(images: object) -> list[tuple[str, str]]:
    """Return the pictures that a row names, each by its type and its digest."""
    return msgspec.convert(images, list[tuple[str, str]])


def _with_pictures(body: bytes, kind: type[_Pictured], fetch: Fetch) -> _Pictured:
    fields = _fields(body)
    named = _named(fields.pop("images", []))
    value = msgspec.convert(fields, kind)
    found = ((media_type, fetch(digest)) for media_type, digest in named)
    images = tuple(Image(media_type, data) for media_type, data in found if data is not None)
    return replace(value, images=images) if images else value


def keep_pictures(db: Database, conversation: str, row: EncodedValue) -> None:
    """Keep the pictures that a row names."""
    for digest, data in row.pictures.items():
        db.execute(
            "INSERT INTO pictures (conversation, digest, data) VALUES (?, ?, ?)"
            " ON CONFLICT (conversation, digest) DO NOTHING",
            (conversation, digest, data),
        )


def picture_fetcher(db: Database, conversation: str) -> Fetch:
    """Return a function that gives a conversation's pictures by their digests."""

    def fetch(digest: str) -> bytes | None:
        found = db.execute(
            "SELECT data FROM pictures WHERE conversation = ? AND digest = ?", (conversation, digest)
        ).fetchone()
        return found[0] if found is not None and isinstance(found[0], bytes) else None

    return fetch


def drop_unused_pictures(db: Database, conversation: str, gone: Iterable[bytes]) -> None:
    """Drop those pictures of rows that went which no other row names.

    This reads through the conversation, which is seldom asked for.
    """
    unused = {digest for body in gone for digest in digests_in(body)}
    if not unused:
        return
    rows = db.execute(
        "SELECT body FROM messages WHERE conversation = ? AND body IS NOT NULL"
        " UNION ALL SELECT body FROM lines WHERE conversation = ?",
        (conversation, conversation),
    )
    for (body,) in rows:
        unused.difference_update(digests_in(body))
    db.executemany(
        "DELETE FROM pictures WHERE conversation = ? AND digest = ?",
        [(conversation, digest) for digest in unused],
    )
