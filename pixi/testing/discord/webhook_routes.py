"""Routes of webhooks, and of answers to interactions."""

from __future__ import annotations

import time

from pixi.testing.discord import interactions, routing
from pixi.testing.discord.calls import ApiCall, Json, RefusedCall, fault, invalid, longest, snowflake, within
from pixi.testing.discord.channels import MOST_WEBHOOKS, FakeChannel, Webhook
from pixi.testing.discord.commands import CHAT
from pixi.testing.discord.interactions import LOADING, Interaction
from pixi.testing.discord.message_routes import change
from pixi.testing.discord.messages import CONTEXT_MENU_REPLY, EPHEMERAL, REPLY, SLASH_REPLY, MessageDraft
from pixi.testing.discord.routing import ApiRoute, need, visible
from pixi.testing.discord.users import P
from pixi.testing.discord.world import World

TRUE = frozenset({"true", "True", "1"})
MESSAGE, PROMISE, UPDATE, CHOICES = 4, 5, 7, 8


def interaction_of(world: World, call: ApiCall) -> Interaction | None:
    """The interaction whose token is in the path, where the id is the application's. Raises `RefusedCall`."""
    if call.ids["webhook"] != str(world.application_id):
        return None
    interaction = world.interactions.get(call.ids.get("token", ""))
    if interaction is None:
        raise fault(50027)
    return interaction


def callback(world: World, call: ApiCall) -> object:
    """Return the first answer to an interaction."""
    interaction = world.interactions.get(call.ids["token"])
    if interaction is None or str(interaction.id) != call.ids["interaction"]:
        raise fault(10062)
    if interaction.response is not None:
        raise fault(40060)
    if interaction.late:
        raise fault(10062)
    fields = routing.fields_of(call)
    kind, data = fields.get("type"), fields.get("data") or {}
    allowed = {interactions.AUTOCOMPLETE: {CHOICES}, interactions.COMMAND: {MESSAGE, PROMISE}}
    if kind not in allowed.get(interaction.type, {MESSAGE, PROMISE, UPDATE}):
        raise invalid(("type",), "INTERACTION_RESPONSE_TYPE_INVALID", f"Type {kind} cannot answer this.")
    if kind == MESSAGE:
        _write(world, interaction, routing.draft_of(call, world, data))
    elif kind == PROMISE:
        interactions.promised(interaction, int(data.get("flags") or 0))
    elif kind == UPDATE:
        interaction.original = interaction.source
        if interaction.source is not None:
            change(world, interaction.source, call, data)
    else:
        interaction.choices = _choices(data)
    interaction.response, interaction.responded_at = kind, time.monotonic()
    if call.query.get("with_response") not in TRUE:
        return None
    return _told(interaction)


def _choices(data: Json) -> list[Json]:
    choices = data.get("choices")
    if not isinstance(choices, list):
        raise invalid(("data", "choices"), "BASE_TYPE_REQUIRED", "This field is required")
    if len(choices) > 25:
        raise invalid(("data", "choices"), "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
    for at, choice in enumerate(choices):
        within(("data", "choices", at, "name"), choice.get("name"), 1, 100)
        longest(("data", "choices", at, "value"), choice.get("value"), 100)
    return choices


def _told(interaction: Interaction) -> Json:
    told: Json = {"interaction": {"id": str(interaction.id), "type": interaction.type}}
    if interaction.original is not None:
        told["interaction"]["response_message_id"] = str(interaction.original.id)
        message = interaction.original.payload()
        told["resource"] = {"type": interaction.response, "message": message}
    return told


def _write(
    world: World, interaction: Interaction, draft: MessageDraft, message_id: int | None = None
) -> None:
    menu = interaction.command is not None and interaction.command.type != CHAT
    interaction.original = world.write(
        interaction.channel,
        world.bot,
        draft,
        message_id=message_id,
        interaction=interaction.metadata(),
        reply_type=CONTEXT_MENU_REPLY if menu else SLASH_REPLY,
    )


def fill(world: World, interaction: Interaction, draft: MessageDraft) -> None:
    """The promised message comes; who sees it was said with the promise."""
    promise = interaction.original
    assert promise is not None
    draft.flags = draft.flags & ~EPHEMERAL | promise.flags & EPHEMERAL
    _write(world, interaction, draft, promise.id)


def follow_up(world: World, call: ApiCall, interaction: Interaction) -> object:
    """Another message after the first answer."""
    if interaction.response is None:
        raise fault(10015)
    draft = routing.draft_of(call, world)
    if interaction.deferred and interaction.original is not None:
        fill(world, interaction, draft)
        return interaction.original.payload()
    message = world.write(
        interaction.channel, world.bot, draft, interaction=interaction.metadata(), reply_type=REPLY
    )
    interaction.followups.append(message)
    return message.payload()


def name_of(value: object, field: str) -> None:
    """Raises `RefusedCall`: something is wrong with the name of a webhook."""
    within((field,), value, 1, 80)
    lowered = str(value).lower()
    for word in ("discord", "clyde"):
        if word in lowered:
            raise invalid((field,), "USERNAME_INVALID_CONTAINS", f'Username cannot contain "{word}"')
    if lowered.strip() in {"everyone", "here"}:
        raise invalid((field,), "USERNAME_INVALID", f'Username cannot be "{lowered.strip()}"')


def create(world: World, call: ApiCall) -> object:
    """Make a webhook."""
    channel = visible(world, call)
    if channel.guild is None or channel.is_thread:
        raise fault(50024)
    need(world, channel, P.MANAGE_WEBHOOKS)
    fields = routing.fields_of(call)
    name_of(fields.get("name"), "name")
    avatar = routing.image(fields.get("avatar"), "avatar")
    if len(channel.webhooks) >= MOST_WEBHOOKS:
        raise fault(30007)
    hook = channel.new_webhook(fields["name"], world.bot)
    hook.avatar = hook.face.avatar = avatar
    return hook.payload()


def of_channel(world: World, call: ApiCall) -> object:
    """Return the webhooks of a channel; tokens are told for the application's own ones alone."""
    channel = visible(world, call)
    need(world, channel, P.MANAGE_WEBHOOKS)
    return [hook.payload() for hook in channel.webhooks]


def hook_of(world: World, call: ApiCall) -> Webhook:
    """Return the webhook in the path; a token there has to be its own. Raises `RefusedCall`."""
    hook = world.webhooks.get(snowflake(call.ids["webhook"], "webhook_id"))
    if hook is None:
        raise fault(10015)
    if call.ids.get("token", hook.token) != hook.token:
        raise fault(50027)
    return hook


def edit(world: World, call: ApiCall) -> object:
    """Change a webhook."""
    hook = hook_of(world, call)
    fields = routing.fields_of(call)
    if "name" in fields:
        name_of(fields["name"], "name")
    hook.name = fields.get("name", hook.name)
    if "avatar" in fields:
        hook.avatar = hook.face.avatar = routing.image(fields["avatar"], "avatar")
    return hook.payload()


def execute(world: World, call: ApiCall) -> object:
    """Write through a webhook; or write on to an interaction."""
    interaction = interaction_of(world, call)
    if interaction is not None:
        return follow_up(world, call, interaction)
    hook = hook_of(world, call)
    if world.lean:
        raise RefusedCall(500, 0, "Internal Server Error")
    fields = routing.fields_of(call)
    name = fields.get("username") or None
    if name is not None:
        name_of(name, "username")
    if not str(fields.get("avatar_url") or "https://").startswith(("http://", "https://")):
        raise invalid(("avatar_url",), "URL_TYPE_INVALID_SCHEME", "Scheme must be one of ('http', 'https').")
    draft = routing.draft_of(call, world)
    draft.nonce, draft.flags, draft.stickers = None, draft.flags & ~EPHEMERAL, []  # which it does not know
    draft.check()
    channel = _place(world, call, hook)
    message = world.write(channel, hook.face, draft, webhook=hook, name=name)
    return message.payload() if call.query.get("wait") in TRUE else None


def _place(world: World, call: ApiCall, hook: Webhook) -> FakeChannel:
    given = call.query.get("thread_id")
    if given is not None:
        thread = world.channels.get(snowflake(given, "thread_id"))
        if thread is None or thread.parent is not hook.channel:
            raise fault(10003)
        return thread
    if hook.channel.is_forum:
        message = "Webhooks posted to forum channels must have a thread_name or thread_id"
        raise RefusedCall(400, 220001, message)
    return hook.channel


def edit_original(world: World, call: ApiCall) -> object:
    """Edit the first answer to an interaction."""
    interaction = interaction_of(world, call)
    if interaction is None or interaction.response is None:
        raise fault(10015)
    message = interaction.original
    if message is None or message.deleted:
        raise fault(10008)
    if message.flags & LOADING:
        fill(world, interaction, routing.draft_of(call, world))
    else:
        change(world, message, call, routing.fields_of(call))
    return message.payload()


_HOOK = "/webhooks/{webhook}"
_TOKEN = _HOOK + "/{token}"
ROUTES = [
    ApiRoute("POST", "/interactions/{interaction}/{token}/callback", callback, open=True),
    ApiRoute("POST", "/channels/{channel}/webhooks", create),
    ApiRoute("GET", "/channels/{channel}/webhooks", of_channel),
    ApiRoute("PATCH", _HOOK, edit),
    ApiRoute("POST", _TOKEN, execute, open=True),
    ApiRoute("PATCH", _TOKEN + "/messages/@original", edit_original, open=True),
]
