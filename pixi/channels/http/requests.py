"""Bodies, queries and headers of requests, read and checked; and the JSON of answers."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast, get_args

import msgspec
from aiohttp import web

from pixi.channels.http.access import MOST_CHARACTERS, Problem, joint_digest
from pixi.channels.http.bodies import MOST_LETTERS, Attachment, ChatQuery
from pixi.channels.http.feed import Protocol
from pixi.core.untrusted import data_without_halves
from pixi.store.kept import KeyedRequest

T = TypeVar("T")

BODY_SECONDS = 20.0
"""Seconds in which a body must arrive."""


async def read_body(request: web.Request) -> bytes:
    """Read the body of a request.

    Raises:
        Problem: 408, the body takes too long; 413, it is too long; 415, it is no JSON.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise Problem(408, "Too slow", f"The body must arrive within {BODY_SECONDS:g} seconds.") from None
    except web.HTTPRequestEntityTooLarge:
        raise Problem(
            413, "Too long", "The body is too long; [http] max_body_bytes sets the limit."
        ) from None
    # A page of another site can send forms and plain text here without asking, but no JSON.
    if body and request.content_type != "application/json":
        raise Problem(415, "No JSON", "Send the body as JSON, with Content-Type: application/json.")
    return body


def decode_body(body: bytes, kind: type[T]) -> T:
    """Decode a JSON body.

    Raises:
        Problem: 400, it is no JSON; 422, a field of it is wrong.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        detail, pointer = _place_of(error)
        raise wrong_field(pointer, detail) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "No JSON", f"The body must be one JSON object: {detail}.") from None


def wrong_field(pointer: str, detail: str) -> Problem:
    """Return the problem of a field, named by its JSON pointer; "" for the whole body."""
    told = f"{detail.rstrip('.')}{f' (at {pointer})' if pointer else ''}."
    return Problem(422, "A field is wrong", told, errors=({"pointer": pointer, "detail": detail},))


class _Peek(msgspec.Struct):
    """The field of a body by which its kind is told; the others are passed over."""

    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def has_messages(body: bytes) -> bool:
    """Return True if a body has the field `messages`, as AI SDK's have. Bad JSON is told of later."""
    try:
        return msgspec.json.decode(body, type=_Peek).messages is not msgspec.UNSET
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False


def texts_in(parts: object) -> list[str]:
    """Return the texts in a list of parts, empty ones among them; where it is no list, none."""
    listed = parts if isinstance(parts, list) else []
    texts = [part.get("text") for part in listed if isinstance(part, dict) and part.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


def words_in(parts: object) -> str:
    """Return the texts of a message's parts that have words in them, joined."""
    return "\n".join(filter(str.strip, texts_in(parts)))


def said_by_page(
    message: Mapping[str, Any], text: str, at: str, files: Sequence[Attachment]
) -> tuple[str, str]:
    """Return the id and the text of a message of a page; with files it needs no text.

    Raises:
        Problem: 422, it is no person's, or lacks one of them, or is too long.
    """
    message_id = message.get("id")
    if message.get("role") != "user":
        raise wrong_field(at, "The last message must be a user's: there is nothing to answer.")
    if not isinstance(message_id, str) or not 1 <= len(message_id) <= MOST_CHARACTERS:
        raise wrong_field(f"{at}/id", f"The message needs an id of at most {MOST_CHARACTERS} characters.")
    if not (text.strip() or files) or len(text) > MOST_LETTERS:
        raise wrong_field(at, f"The message needs a text of at most {MOST_LETTERS} characters.")
    return message_id, text


def protocol_of(request: web.Request, otherwise: Protocol) -> Protocol:
    """Return the protocol of a stream that a request asks for; `otherwise`, where none is."""
    asked = read_query(request, ChatQuery).protocol or otherwise
    given = request.headers.get("X-Pixi-Protocol") or asked
    if given not in get_args(Protocol):
        raise Problem(400, "No such protocol", f"protocol must be one of {', '.join(get_args(Protocol))}.")
    return cast(Protocol, given)


def wants_adaptive(request: web.Request) -> bool:
    """Return True if a request asks for cards as Adaptive Cards.

    Raises:
        Problem: 400, it asks for a form that there is not.
    """
    return read_query(request, ChatQuery).cards == "adaptive"


def read_query(request: web.Request, kind: type[T]) -> T:
    """Read the query of a request.

    Raises:
        Problem: 400, a parameter is wrong.
    """
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        detail, pointer = _place_of(error)
        raise Problem(
            400,
            "A parameter is wrong",
            f"{pointer.removeprefix('/')}: {detail}.",
            errors=({"pointer": pointer, "detail": detail},),
        ) from None


def check_parameters(request: web.Request, kind: type[Any] | None) -> None:
    """See that all parameters of the query are known.

    Args:
        request: with its query.
        kind: the type of the query; None: there is no parameter.

    Raises:
        Problem: 400, one is not; the nearest known one is named.
    """
    known: tuple[str, ...] = () if kind is None else kind.__struct_encode_fields__
    for name in request.query:
        if name not in known:
            near = get_close_matches(name, known, 1)
            mend = f"Did you mean {near[0]}?" if near else f"There is: {', '.join(known) or 'none'}."
            raise Problem(
                400,
                "A parameter is wrong",
                f"{name[:80]!r} is no parameter here. {mend}",
                errors=({"pointer": f"/{name[:80]}", "detail": "it is not known"},),
            )


def _place_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return what is wrong, and a JSON pointer to the field; "" for the whole."""
    detail, _, path = str(error).partition(" - at `$")
    known = path.rstrip("`").partition("[...]")[0]  # which one of a list or an object is not told further on
    return detail, re.sub(r"\.|\[(\d+)\]", r"/\1", known)


def idempotency_key(request: web.Request) -> str:
    """Return the key by which the same request is known again; "" for none."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > MOST_CHARACTERS:
        raise Problem(400, "Bad key", f"Idempotency-Key holds {MOST_CHARACTERS} characters at most.")
    if not key.isprintable():
        raise Problem(400, "Bad key", "Idempotency-Key holds printable characters alone.")
    return key


def keyed_request(
    request: web.Request, person: str, asked: object, *where: str, message_id: str = ""
) -> KeyedRequest | None:
    """Return what a request with an `Idempotency-Key` is known by; None: it has none.

    Args:
        request: with the header.
        person: id of who sends it.
        asked: its body, as it was read.
        where: what else belongs to it, such as the persona.
        message_id: of what it says; "": it is made of the key.
    """
    key = idempotency_key(request)
    if not key:
        return None
    own = joint_digest(person, key)
    digest = joint_digest(*where, msgspec.json.encode(asked, order="sorted").decode())
    return KeyedRequest(own, digest, message_id or f"idem:{own}")


def server_of(request: web.Request) -> str:
    """Return the address of this server, as a client called it; a proxy before it may speak TLS in its place.

    Of several proxies, each adds its own; the first is the one that the client reached.
    """
    forwarded, _, _ = request.headers.get("X-Forwarded-Proto", "").partition(",")
    is_secure = request.secure or forwarded.strip().lower() == "https"
    return f"{'https' if is_secure else 'http'}://{request.host}"


def json_answer(value: object, status: int = 200) -> web.Response:
    """Return a value as a JSON answer. Half of a surrogate pair, which has no UTF-8, becomes U+FFFD."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        body = msgspec.json.encode(data_without_halves(msgspec.to_builtins(value)))
    return web.Response(body=body, status=status, content_type="application/json")
