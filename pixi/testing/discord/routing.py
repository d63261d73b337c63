"""The frame of the REST interface: path, token, body, limits, hooks, answer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from aiohttp import BodyPartReader, web

from pixi.testing.discord.calls import (
    ApiCall,
    DropConnection,
    Form,
    Hooks,
    Json,
    RateLimits,
    RefusedCall,
    fault,
    invalid,
    no_such_route,
    snowflake,
    unauthorized,
)
from pixi.testing.discord.messages import Upload
from pixi.testing.discord.users import Permission, in_channel, in_guild
from pixi.testing.discord.writing import Allowed, MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.guilds import Guild
    from pixi.testing.discord.messages import FakeMessage
    from pixi.testing.discord.world import World

LONGEST_CONTENT = 2000
LONGEST_NONCE = 25
MOST_FILES = 10
SETTABLE_FLAGS = (1 << 2) | (1 << 6) | (1 << 12) | (1 << 13) | (1 << 15)
KINDS = {"users", "roles", "everyone"}
_WITHOUT_BODY = frozenset({"GET", "DELETE", "HEAD"})
Handler = Callable[["World", ApiCall], object]


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
    """Return the body as an object. Raises `RefusedCall`."""
    if call.body is None:
        return {}
    if not isinstance(call.body, dict):
        raise invalid((), "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    return call.body


def draft_of(call: ApiCall, world: World, body: Json | None = None) -> MessageDraft:
    """Return a message that is to be sent, checked. Raises `RefusedCall` with every field that is wrong."""
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
    """Return one of the stickers that the bot can send. Raises `RefusedCall`."""
    number = snowflake(given, "sticker_ids")
    found = (guild.stickers.get(number) for guild in world.guilds.values())
    sticker = next((each for each in found if each is not None and each.available), None)
    if sticker is None:
        raise fault(50081)
    return sticker.item


def content_of(fields: Json, form: Form) -> str:
    """Return the text, without the blanks around it."""
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
    """Return who may be alerted; left out: everybody whom the text names."""
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
    """Return files that came along, described by `attachments` where that names them."""
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
        calls: every request to the interface, in their order; kept while `keeps`.
        running: how many are being answered now.
    """

    def __init__(self, world: World, routes: list[ApiRoute]) -> None:
        self.calls: list[ApiCall] = []
        self.keeps = True
        self.running = 0
        self.hooks = Hooks()
        self.limits = RateLimits()
        self._world = world
        self._by_shape: dict[tuple[int, str], list[tuple[list[str], ApiRoute]]] = {}
        for route in routes:
            parts = route.template.strip("/").split("/")
            self._by_shape.setdefault((len(parts), parts[0]), []).append((parts, route))

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        parts = [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]
        version, parts = (parts[1], parts[2:]) if len(parts) > 1 else ("", [])
        path = "/" + "/".join(parts)
        call = ApiCall(self._world, request.method, path, request.query, request.headers)
        call.pairs = tuple(request.query.items())
        if self.keeps:
            self.calls.append(call)
        self.running += 1
        self._world.changed()
        try:
            return await self._answered(request, call, version, parts)
        except DropConnection:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        finally:
            self.running -= 1
            self._world.changed()

    async def _answered(
        self, request: web.Request, call: ApiCall, version: str, parts: list[str]
    ) -> web.StreamResponse:
        headers: dict[str, str] = {}
        status, body = 204, None
        try:
            if version not in {"v9", "v10"}:
                raise fault(50041)
            route = self._find(call, parts)
            if not route.open and request.headers.get("Authorization") != f"Bot {self._world.token}":
                raise unauthorized()
            await read(request, call)
            headers = self.limits.pass_(call)
            await self.hooks.run(self.hooks.early, call)
            done = route.handler(self._world, call)
            if isinstance(done, ApiAnswer):
                status, body = done.status, done.body
            elif done is not None:
                status, body = 200, done
            call.status, call.answer = status, body
            self._world.changed()
            await self.hooks.run(self.hooks.late, call)
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
        raise no_such_route()


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
    given = call.query.get(name)
    if given is None:
        return default

    if not given.isdigit():
        raise invalid((name,), "NUMBER_TYPE_COERCE", f'Value "{given}" is not int.')
    if not low <= int(given) <= high:
        kind, word = ("NUMBER_TYPE_MAX", "less") if int(given) > high else ("NUMBER_TYPE_MIN", "greater")
        limit = high if int(given) > high else low
        raise invalid((name,), kind, f"int value should be {word} than or equal to {limit}.")
    return int(given)
