"""Routes of the answers to interactions: the first one, and what follows through their webhook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pixi.testing.discord import bodies, interactions, payloads, writing
from pixi.testing.discord.calls import ApiCall
from pixi.testing.discord.faults import Form, Json, fault, invalid
from pixi.testing.discord.interactions import Interaction
from pixi.testing.discord.message_routes import change
from pixi.testing.discord.messages import CONTEXT_MENU_REPLY, EPHEMERAL, REPLY, SLASH_REPLY
from pixi.testing.discord.routing import ApiRoute
from pixi.testing.discord.writing import MessageDraft

if TYPE_CHECKING:
    from pixi.testing.discord.world import World

TRUE = frozenset({"true", "True", "1"})
MESSAGE, PROMISE, PROMISED_UPDATE, UPDATE, CHOICES, FORM = 4, 5, 6, 7, 8, 9


def interaction_of(world: World, call: ApiCall) -> Interaction | None:
    """The interaction whose token is in the path, where the id is the application's. Raises `RefusedCall`."""
    if call.ids["webhook"] != str(world.application_id):
        return None
    interaction = world.interactions.get(call.ids.get("token", ""))
    if interaction is None or interaction.expired:
        raise fault(50027)
    return interaction


def callback(world: World, call: ApiCall) -> object:
    """The first answer to an interaction."""
    interaction = world.interactions.get(call.ids["token"])
    if interaction is None or str(interaction.id) != call.ids["interaction"]:
        raise fault(10062)
    if interaction.response is not None:
        raise fault(40060)
    if interaction.late:
        raise fault(10062)
    fields = bodies.fields_of(call)
    kind, data = fields.get("type"), fields.get("data") or {}
    allowed = {interactions.AUTOCOMPLETE: {CHOICES}, interactions.COMMAND: {MESSAGE, PROMISE, FORM}}
    if kind not in allowed.get(interaction.type, {MESSAGE, PROMISE, PROMISED_UPDATE, UPDATE, FORM}):
        raise invalid(("type",), "INTERACTION_RESPONSE_TYPE_INVALID", f"Type {kind} cannot answer this.")
    if kind == MESSAGE:
        draft = bodies.draft_of(call, world, data)
        if draft.empty:
            raise fault(50006)
        _write(world, interaction, draft)
    elif kind == PROMISE:
        interactions.promised(interaction, int(data.get("flags") or 0))
    elif kind in {PROMISED_UPDATE, UPDATE}:
        interaction.original = interaction.source
        if kind == UPDATE and interaction.source is not None:
            change(world, interaction.source, call, data)
    elif kind == CHOICES:
        interaction.choices = _choices(data)
    else:
        interaction.modal = data
    interaction.response, interaction.responded_at = kind, time.monotonic()
    if call.query.get("with_response") not in TRUE:
        return None
    return _told(world, interaction)


def _choices(data: Json) -> list[Json]:
    choices = data.get("choices")
    form = Form()
    if not isinstance(choices, list):
        raise invalid(("data", "choices"), "BASE_TYPE_REQUIRED", "This field is required")
    if len(choices) > 25:
        form.wrong(("data", "choices"), "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
    for at, choice in enumerate(choices):
        form.within(("data", "choices", at, "name"), choice.get("name"), 1, 100)
        form.longest(("data", "choices", at, "value"), choice.get("value"), 100)
    form.check()
    return choices


def _told(world: World, interaction: Interaction) -> Json:
    told: Json = {
        "interaction": {
            "id": str(interaction.id),
            "type": interaction.type,
            "response_message_loading": interaction.deferred,
            "response_message_ephemeral": interaction.ephemeral,
        }
    }
    if interaction.original is not None:
        told["interaction"]["response_message_id"] = str(interaction.original.id)
        message = payloads.message(interaction.original, world)
        told["resource"] = {"type": interaction.response, "message": message}
    return told


def _write(
    world: World, interaction: Interaction, draft: MessageDraft, message_id: int | None = None
) -> None:
    menu = interaction.command is not None and interaction.command.type != 1
    interaction.original = writing.write(
        world, interaction.channel, world.bot, draft, interaction=interaction.metadata(),
        reply_type=CONTEXT_MENU_REPLY if menu else SLASH_REPLY, message_id=message_id,
    )  # fmt: skip


def fill(world: World, interaction: Interaction, draft: MessageDraft) -> None:
    """The promised message comes; who sees it was said with the promise."""
    if draft.empty:
        raise fault(50006)
    promise = interaction.original
    assert promise is not None
    draft.flags = draft.flags & ~EPHEMERAL | promise.flags & EPHEMERAL
    _write(world, interaction, draft, promise.id)


def follow_up(world: World, call: ApiCall, interaction: Interaction) -> object:
    """Another message after the first answer."""
    if interaction.response is None:
        raise fault(10015)
    draft = bodies.draft_of(call, world)
    if draft.empty:
        raise fault(50006)
    if interaction.deferred and interaction.original is not None:
        fill(world, interaction, draft)
        return payloads.message(interaction.original, world)
    message = writing.write(
        world, interaction.channel, world.bot, draft, interaction=interaction.metadata(), reply_type=REPLY
    )
    interaction.followups.append(message)
    return payloads.message(message, world)


ROUTES = [
    ApiRoute("POST", "/interactions/{interaction}/{token}/callback", callback, open=True),
]
