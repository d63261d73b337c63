"""Bodies of requests: read as JSON or multipart, and messages checked as Discord checks them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from aiohttp import BodyPartReader, web

from pixi.testing.discord.calls import ApiCall, Form, Json, fault, invalid, snowflake
from pixi.testing.discord.messages import Upload
from pixi.testing.discord.writing import Allowed, MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

LONGEST_CONTENT = 2000
LONGEST_NONCE = 25
MOST_FILES = 10
SETTABLE_FLAGS = (1 << 2) | (1 << 6) | (1 << 12) | (1 << 13) | (1 << 15)
KINDS = {"users", "roles", "everyone"}
_WITHOUT_BODY = frozenset({"GET", "DELETE", "HEAD"})


async def read(request: web.Request, call: ApiCall) -> None:
    """Put the body into the call. Raises `RefusedCall` for a kind or a form that Discord does not take."""
    if not request.can_read_body:
        return
    kind = request.content_type
    if kind == "multipart/form-data":
        await _parts(request, call)
        return
    data = await request.read()
    if not data:
        return
    if kind != "application/json":
        if call.method in _WITHOUT_BODY or "Content-Type" not in request.headers:
            return
        message = "Expected \"Content-Type\" header to be one of {'application/json'}."
        raise invalid((), "CONTENT_TYPE_INVALID", message)
    call.body = _json(data)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise fault(50109) from None


async def _parts(request: web.Request, call: ApiCall) -> None:
    total = 0
    fields: Json = {}
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        name = part.name or ""
        data = bytes(await part.read(decode=True))
        total += len(data)
        if part.filename is None:
            if name == "payload_json":
                call.body = _json(data)
            else:
                fields[name] = data.decode()
            continue
        kind = part.headers.get("Content-Type", "")
        kind = "" if kind == "application/octet-stream" else kind
        call.uploads[name] = Upload(part.filename, kind, data)
        if len(data) > call.world.attachment_limit:
            raise fault(40005)
    if total > call.world.attachment_limit * MOST_FILES:
        raise fault(40005)
    if call.body is None and fields:
        call.body = fields
    call.files = tuple(upload.name for upload in call.uploads.values())


def fields_of(call: ApiCall) -> Json:
    """The body as an object. Raises `RefusedCall`."""
    if call.body is None:
        return {}
    if not isinstance(call.body, dict):
        raise invalid((), "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    return call.body


def draft_of(call: ApiCall, world: World, body: Json | None = None) -> MessageDraft:
    """A message that is to be sent, checked. Raises `RefusedCall` with every field that is wrong."""
    fields = fields_of(call) if body is None else body
    form = Form()
    draft = MessageDraft(tts=fields.get("tts") is True, flags=int(fields.get("flags") or 0) & SETTABLE_FLAGS)
    draft.content = content_of(fields, form)
    _nonce(fields, form, draft)
    draft.files = files_of(call, fields, form)
    draft.embeds = embeds_of(fields, form, [one.name for one in draft.files])
    draft.components = components_of(fields, form)
    draft.allowed = Allowed() if world.lean else allowed_of(fields, form)
    draft.stickers = [_sticker(one, world) for one in fields.get("sticker_ids") or []]
    form.check()
    return draft


def _sticker(given: object, world: World) -> Json:
    """One of the stickers that the bot can send. Raises `RefusedCall`."""
    number = snowflake(given, "sticker_ids")
    found = (guild.stickers.get(number) for guild in world.guilds.values())
    sticker = next((each for each in found if each is not None and each.available), None)
    if sticker is None:
        raise fault(50081)
    return sticker.item


def content_of(fields: Json, form: Form) -> str:
    """The text, without the blanks around it."""
    content = fields.get("content")
    if content is None:
        return ""
    if not isinstance(content, str):
        content = str(content)
    form.longest(("content",), content, LONGEST_CONTENT)
    return content.strip()


def _nonce(fields: Json, form: Form, draft: MessageDraft) -> None:
    nonce = fields.get("nonce")
    if nonce is None:
        return
    if isinstance(nonce, bool) or not isinstance(nonce, str | int):
        form.wrong(("nonce",), "NONCE_TYPE_COERCE", f'Value "{nonce}" is not a nonce.')
        return
    form.longest(("nonce",), nonce, LONGEST_NONCE)
    draft.nonce = nonce
    draft.enforce_nonce = fields.get("enforce_nonce") is True


def embeds_of(fields: Json, form: Form, files: Collection[str] = ()) -> list[Json]:
    """Embeds: at most 10, of 6,000 characters together; their pictures may be among `files`."""
    embeds = fields.get("embeds") or []
    if not isinstance(embeds, list) or len(embeds) > 10:
        form.wrong(("embeds",), "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
        return []
    total = 0
    for at, embed in enumerate(embeds):
        for name, limit in (("title", 256), ("description", 4096)):
            form.longest(("embeds", at, name), embed.get(name), limit)
            total += len(embed.get(name) or "")
        footer = (embed.get("footer") or {}).get("text")
        form.longest(("embeds", at, "footer", "text"), footer, 2048)
        total += len(footer or "")
        _addresses(at, embed, form, files)
        parts = embed.get("fields") or []
        if len(parts) > 25:
            form.wrong(("embeds", at, "fields"), "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
        for number, part in enumerate(parts):
            for name, limit in (("name", 256), ("value", 1024)):
                place = ("embeds", at, "fields", number, name)
                if not part.get(name):
                    form.wrong(place, "BASE_TYPE_REQUIRED", "This field is required")
                form.longest(place, part.get(name), limit)
                total += len(part.get(name) or "")
    if total > 6000:
        form.wrong(("embeds",), "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")
    return [{"type": "rich", **embed} for embed in embeds]


def _addresses(at: int, embed: Json, form: Form, files: Collection[str]) -> None:
    """Note what is wrong with the addresses in an embed."""
    image = (embed.get("image") or {}).get("url")
    for place, address, schemes in (
        (("embeds", at, "url"), embed.get("url"), ("http", "https")),
        (("embeds", at, "image", "url"), image, ("http", "https", "attachment")),
    ):
        if address is None:
            continue
        scheme, _, rest = str(address).partition("://")
        if scheme not in schemes:
            message = f'Scheme "{scheme}" is not supported. Scheme must be one of {schemes}.'
            form.wrong(place, "URL_TYPE_INVALID_SCHEME", message)
        elif not rest or any(letter.isspace() for letter in rest):
            form.wrong(place, "URL_TYPE_INVALID_URL", "Not a well formed URL.")
        elif scheme == "attachment" and rest not in files:
            form.wrong(place, "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND", f"No file {rest!r}.")
        form.longest(place, str(address), 2048)


def components_of(fields: Json, form: Form) -> list[Json]:
    """Rows of buttons and menus: at most 5, of at most 5 buttons each."""
    rows = fields.get("components") or []
    if not isinstance(rows, list) or len(rows) > 5:
        form.wrong(("components",), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        return []
    names: set[str] = set()
    for at, row in enumerate(rows):
        within = row.get("components") or []
        if row.get("type") != 1 or not 1 <= len(within) <= 5:
            form.wrong(("components", at), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for number, part in enumerate(within):
            place = ("components", at, "components", number)
            if part.get("type") == 2 and part.get("style") in {5, 6}:  # they lead elsewhere
                continue
            form.within((*place, "custom_id"), part.get("custom_id"), 1, 100)
            if part.get("type") == 2:
                form.longest((*place, "label"), part.get("label"), 80)
            if part.get("custom_id") in names:
                message = "Component custom id cannot be duplicated"
                form.wrong((*place, "custom_id"), "COMPONENT_CUSTOM_ID_DUPLICATED", message)
            names.add(str(part.get("custom_id")))
    return rows


def allowed_of(fields: Json, form: Form) -> Allowed:
    """Who may be alerted; left out: everybody whom the text names."""
    given = fields.get("allowed_mentions")
    if given is None:
        return Allowed()
    parse = given.get("parse") or []
    for at, kind in enumerate(parse):
        if kind not in KINDS:
            message = "Value must be one of {'everyone', 'roles', 'users'}."
            form.wrong(("allowed_mentions", "parse", at), "BASE_TYPE_CHOICES", message)
    ids: dict[str, frozenset[int]] = {}
    for kind in ("users", "roles"):
        listed = given.get(kind) or []
        ids[kind] = frozenset(snowflake(one, kind) for one in listed)
        if len(listed) > 100:
            form.wrong(("allowed_mentions", kind), "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length.")
        if listed and kind in parse:
            message = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            form.wrong(("allowed_mentions",), "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", message)
    replied = given.get("replied_user") is True
    return Allowed(frozenset(parse), ids["users"], ids["roles"], replied)


def files_of(call: ApiCall, fields: Json, form: Form) -> list[Upload]:
    """Files that came along, described by `attachments` where that names them."""
    if len(call.uploads) > MOST_FILES:
        form.wrong(("attachments",), "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    described = {str(one.get("id")): one for one in fields.get("attachments") or []}
    files: list[Upload] = []
    for name, upload in call.uploads.items():
        number = name.removeprefix("files[").removesuffix("]") if name.startswith("files[") else "0"
        about = described.get(number, {})
        files.append(
            Upload(about.get("filename") or upload.name, upload.type, upload.data, about.get("description"))
        )
    return files


def image(value: object, name: str) -> str | None:
    """Image data of a form, `data:image/png;base64,…`, as a hash; None takes the image away."""

    if value is None:
        return None
    kinds = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/gif;base64,")
    if not isinstance(value, str) or not value.startswith((*kinds, "data:image/webp;base64,")):
        raise invalid((name,), "IMAGE_INVALID", "Invalid image data")
    try:
        data = base64.b64decode(value.partition(",")[2], validate=True)
    except ValueError:
        raise invalid((name,), "IMAGE_INVALID", "Invalid image data") from None
    if len(data) > 10 * 1024 * 1024:
        raise invalid((name,), "BINARY_TYPE_MAX_SIZE", "File cannot be larger than 10240.0 kb.")
    return hashlib.md5(data).hexdigest()
