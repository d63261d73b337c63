"""The frame of the REST interface: path, token, body, limits, hooks, answer."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
from aiohttp import BodyPartReader, web

from pixi.testing.discord.calls import (
    ApiCall,
    DropConnection,
    Hook,
    Json,
    RateLimits,
    RefusedCall,
    fault,
    invalid,
    longest,
    run_hooks,
    snowflake,
    within,
)
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.guilds import Guild, in_channel, in_guild
from pixi.testing.discord.messages import Allowed, FakeMessage, MessageDraft, Upload
from pixi.testing.discord.users import Permission
from pixi.testing.discord.world import World

LONGEST_CONTENT = 2000
LONGEST_NONCE = 25
SETTABLE_FLAGS = (1 << 2) | (1 << 6) | (1 << 12) | (1 << 13) | (1 << 15)
Handler = Callable[[World, ApiCall], object]


async def read(request: web.Request, call: ApiCall, largest: int) -> None:
    """Put the body into the call. Raises `RefusedCall` for files of more than `largest` bytes."""
    if request.content_type == "multipart/form-data":
        await _parts(request, call, largest)
    elif data := await request.read():
        call.body = json.loads(data)


async def _parts(request: web.Request, call: ApiCall, largest: int) -> None:
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        name = part.name or ""
        data = bytes(await part.read(decode=True))
        if part.filename is None:
            assert name == "payload_json"
            call.body = json.loads(data)
            continue
        kind = part.headers.get("Content-Type", "")
        kind = "" if kind == "application/octet-stream" else kind
        call.uploads[name] = Upload(part.filename, kind, data)
        if len(data) > largest:
            raise fault(40005)
    call.files = tuple(upload.name for upload in call.uploads.values())


def fields_of(call: ApiCall) -> Json:
    """Return the body as an object."""
    fields: Json = call.body or {}
    return fields


def draft_of(call: ApiCall, world: World, body: Json | None = None) -> MessageDraft:
    """Return a message that is to be sent, checked. Raises `RefusedCall` for a field that is wrong."""
    fields = fields_of(call) if body is None else body
    draft = MessageDraft(flags=int(fields.get("flags") or 0) & SETTABLE_FLAGS)
    draft.content = content_of(fields)
    _nonce(fields, draft)
    draft.files = files_of(call, fields)
    draft.embeds = embeds_of(fields, [one.name for one in draft.files])
    draft.components = components_of(fields)
    draft.allowed = Allowed() if world.lean else allowed_of(fields)
    draft.stickers = [_sticker(one, world) for one in fields.get("sticker_ids") or []]
    draft.check()
    return draft


def _sticker(given: object, world: World) -> Json:
    """Return one of the stickers that the bot can send. Raises `RefusedCall`."""
    number = snowflake(given, "sticker_ids")
    found = (guild.stickers.get(number) for guild in world.guilds.values())
    sticker = next((each for each in found if each is not None and each.available), None)
    if sticker is None:
        raise fault(50081)
    return sticker.item


def content_of(fields: Json) -> str:
    """Return the text, without the blanks around it."""
    content = fields.get("content")
    if content is None:
        return ""
    longest(("content",), content, LONGEST_CONTENT)
    return str(content).strip()


def _nonce(fields: Json, draft: MessageDraft) -> None:
    nonce = fields.get("nonce")
    if nonce is None:
        return
    longest(("nonce",), nonce, LONGEST_NONCE)
    draft.nonce = nonce
    draft.enforce_nonce = fields.get("enforce_nonce") is True


def embeds_of(fields: Json, files: Collection[str] = ()) -> list[Json]:
    """Embeds: of 6,000 characters together; their pictures may be among `files`."""
    embeds = fields.get("embeds") or []
    total = 0
    for at, embed in enumerate(embeds):
        for name, limit in (("title", 256), ("description", 4096)):
            longest(("embeds", at, name), embed.get(name), limit)
            total += len(embed.get(name) or "")
        _addresses(at, embed, files)
        parts = embed.get("fields") or []
        if len(parts) > 25:
            raise invalid(("embeds", at, "fields"), "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
        for number, part in enumerate(parts):
            for name, limit in (("name", 256), ("value", 1024)):
                place = ("embeds", at, "fields", number, name)
                if not part.get(name):
                    raise invalid(place, "BASE_TYPE_REQUIRED", "This field is required")
                longest(place, part.get(name), limit)
                total += len(part.get(name) or "")
    if total > 6000:
        raise invalid(("embeds",), "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")
    return [{"type": "rich", **embed} for embed in embeds]


def _addresses(at: int, embed: Json, files: Collection[str]) -> None:
    """Raises `RefusedCall`: something is wrong with an address in an embed."""
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
            raise invalid(place, "URL_TYPE_INVALID_SCHEME", message)
        if not rest or any(letter.isspace() for letter in rest):
            raise invalid(place, "URL_TYPE_INVALID_URL", "Not a well formed URL.")
        if scheme == "attachment" and rest not in files:
            raise invalid(place, "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND", f"No file {rest!r}.")
        longest(place, str(address), 2048)


def components_of(fields: Json) -> list[Json]:
    """Rows of buttons, of which the names and labels are checked."""
    rows: list[Json] = fields.get("components") or []
    for at, row in enumerate(rows):
        for number, part in enumerate(row["components"]):
            place = ("components", at, "components", number)
            within((*place, "custom_id"), part.get("custom_id"), 1, 100)
            longest((*place, "label"), part.get("label"), 80)
    return rows


def allowed_of(fields: Json) -> Allowed:
    """Return who may be alerted; left out: everybody whom the text names."""
    given = fields.get("allowed_mentions")
    if given is None:
        return Allowed()
    parse = given.get("parse") or []
    ids: dict[str, frozenset[int]] = {}
    for kind in ("users", "roles"):
        listed = given.get(kind) or []
        ids[kind] = frozenset(snowflake(one, kind) for one in listed)
        if listed and kind in parse:
            message = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            raise invalid(("allowed_mentions",), "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", message)
    replied = given.get("replied_user") is True
    return Allowed(frozenset(parse), ids["users"], ids["roles"], replied)


def files_of(call: ApiCall, fields: Json) -> list[Upload]:
    """Return files that came along, described by `attachments` where that names them."""
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
    found = re.fullmatch(r"data:image/(?:png|jpeg|gif|webp);base64,(.+)", str(value), re.DOTALL)
    if found is None:
        raise invalid((name,), "IMAGE_INVALID", "Invalid image data")
    data = base64.b64decode(found[1], validate=True)
    if len(data) > 10 * 1024 * 1024:
        raise invalid((name,), "BINARY_TYPE_MAX_SIZE", "File cannot be larger than 10240.0 kb.")
    return hashlib.md5(data).hexdigest()


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer with a status of its own; a body of None is none."""

    status: int
    body: object = None


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route. `open`: no bot's token is asked for."""

    method: str
    template: str
    handler: Handler
    open: bool = False


class Rest:
    """Answers requests.

    Attributes:
        calls: every request to the interface, in their order.
        running: how many are being answered now.
        early, late: hooks before a request takes effect; and after it did, before it is answered.
    """

    def __init__(self, world: World, routes: list[ApiRoute]) -> None:
        self.calls: list[ApiCall] = []
        self.running = 0
        self.early: list[Hook] = []
        self.late: list[Hook] = []
        self.limits = RateLimits()
        self._world = world
        self._by_shape: dict[tuple[int, str], list[tuple[list[str], ApiRoute]]] = {}
        for route in routes:
            parts = route.template.strip("/").split("/")
            self._by_shape.setdefault((len(parts), parts[0]), []).append((parts, route))

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        parts = [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]
        parts = parts[2:]  # after `/api/v10`
        path = "/" + "/".join(parts)
        call = ApiCall(request.method, path, request.query, request.headers)
        call.pairs = tuple(request.query.items())
        self.calls.append(call)
        self.running += 1
        self._world.changed()
        try:
            return await self._answered(request, call, parts)
        except DropConnection:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        finally:
            self.running -= 1
            self._world.changed()

    async def _answered(self, request: web.Request, call: ApiCall, parts: list[str]) -> web.StreamResponse:
        headers: dict[str, str] = {}
        status, body = 204, None
        try:
            route = self._find(call, parts)
            if not route.open and request.headers.get("Authorization") != f"Bot {self._world.token}":
                raise RefusedCall(401, 0, "401: Unauthorized")
            await read(request, call, self._world.attachment_limit)
            headers = self.limits.count(call)
            await run_hooks(self.early, call)
            done = route.handler(self._world, call)
            if isinstance(done, ApiAnswer):
                status, body = done.status, done.body
            elif done is not None:
                status, body = 200, done
            call.status, call.answer = status, body
            self._world.changed()
            await run_hooks(self.late, call)
        except RefusedCall as refused:
            status, body = refused.status, refused.body
            headers |= refused.headers
        call.status, call.answer = status, body
        if body is None:
            return web.Response(status=status, headers=headers)
        data = msgspec.json.encode(body)
        return web.Response(status=status, body=data, headers=headers, content_type="application/json")

    def _find(self, call: ApiCall, parts: list[str]) -> ApiRoute:
        other_method = False
        for template, route in self._by_shape.get((len(parts), parts[0] if parts else ""), ()):
            ids = _match(template, parts)
            if ids is None:
                continue
            if route.method == call.method:
                call.route, call.ids = route.template, ids
                return route
            other_method = True
        if other_method:
            raise RefusedCall(405, 0, "405: Method Not Allowed")
        raise RefusedCall(404, 0, "404: Not Found")


def _match(template: list[str], parts: list[str]) -> dict[str, str] | None:
    ids: dict[str, str] = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{"):
            ids[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return ids


# The begin of most routes.


def visible(world: World, call: ApiCall) -> FakeChannel:
    """Return the channel in the path. Raises `RefusedCall`: unknown, or the bot does not see it."""
    channel = world.channels.get(snowflake(call.ids["channel"], "channel_id"))
    if channel is None:
        raise fault(10003)
    if not world.sees(channel):
        raise fault(50001)
    return channel


def need(world: World, channel: FakeChannel, permission: Permission) -> None:
    """Raises `RefusedCall` when the bot lacks a permission in a channel."""
    if permission & ~in_channel(channel, world.bot):
        raise fault(50013)


def need_in_guild(world: World, guild: Guild, permission: Permission) -> None:
    """Raises `RefusedCall` when the bot lacks a permission in a guild."""
    if permission & ~in_guild(guild, world.bot):
        raise fault(50013)


def guild_of(world: World, call: ApiCall) -> Guild:
    """Return the guild in the path. Raises `RefusedCall`."""
    guild = world.guilds.get(snowflake(call.ids["guild"], "guild_id"))
    if guild is None:
        raise fault(10004)
    if world.bot.id not in guild.members:
        raise fault(50001)
    return guild


def message_in(channel: FakeChannel, call: ApiCall) -> FakeMessage:
    """Return the message in the path. Raises `RefusedCall`."""
    message = channel.find(snowflake(call.ids["message"], "message_id"))
    if message is None:
        raise fault(10008)
    return message


def number(call: ApiCall, name: str, default: int, low: int, high: int) -> int:
    """Return a number of the query. Raises `RefusedCall` when it is none, or out of bounds."""
    given = call.query.get(name, str(default))
    if not (given.isdigit() and low <= int(given) <= high):
        raise invalid((name,), "NUMBER_TYPE_MAX", f"int value should be from {low} to {high}.")
    return int(given)
