"""Tells Discord which commands there are, when what it knows is something else."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import discord
from discord import app_commands
from discord.http import Route

from pixi.channels.discord.requests import DiscordRefused, send_request
from pixi.core.errors import ChannelError

_log = logging.getLogger("pixi.discord")

_SECONDS = 60.0
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)

Json = Mapping[str, Any]


class CommandRegistration:
    """Registers the commands of a tree, for all guilds and DMs."""

    def __init__(self, tree: app_commands.CommandTree[discord.Client]) -> None:
        self._tree = tree

    async def register(self, *, offered: bool) -> None:
        """Register them where the server knows others; where they are not offered, take them away.

        Nothing is raised: what fails costs a line.
        """
        try:
            await (self._offer() if offered else self._withdraw())
        except ChannelError as error:
            _log.warning("the slash commands could not be registered: %s", error)
        except _UNREADABLE as error:
            _log.warning("the slash commands could not be registered: %r in Discord's answer", error)

    async def _offer(self) -> None:
        wanted = await self._payload()
        try:
            known = [_meaning(command) for command in await self._known()]
        except (ChannelError, *_UNREADABLE) as error:
            _log.debug("which slash commands are registered could not be read: %s", error)
            known = []
        if _sorted(known) == _sorted([_meaning(command) for command in wanted]):
            return
        try:
            await self._register(wanted)
        except DiscordRefused as error:
            if error.status != 400:
                raise
            _log.info("the slash commands are registered without translations and limits: %s", error)
            await self._register([_plain(command) for command in wanted])
        _log.info("%d commands were registered", len(wanted))

    async def _register(self, commands: Sequence[Json]) -> None:
        http, application = self._tree.client.http, self._application()
        payload = [dict(command) for command in commands]
        await send_request(
            lambda: http.bulk_upsert_global_commands(application, payload=payload),
            "commands",
            seconds=_SECONDS,
        )

    async def _withdraw(self) -> None:
        """Take away those that we registered; others that the application has stay."""
        http, application = self._tree.client.http, self._application()
        ours = {(command["type"], command["name"]) for command in await self._payload()}
        for command in await self._known():
            if (command.get("type", 1), command["name"]) in ours:
                number = int(command["id"])
                deletion = partial(http.delete_global_command, application, number)
                await send_request(deletion, "commands", seconds=_SECONDS)

    async def _payload(self) -> list[dict[str, Any]]:
        translator = self._tree.translator
        assert translator is not None  # it was installed with the commands
        commands = self._tree.get_commands()
        return [await command.get_translated_payload(self._tree, translator) for command in commands]

    async def _known(self) -> Sequence[Json]:
        """What the server knows, translations too, which are left out unless asked for."""
        route = Route("GET", "/applications/{application_id}/commands", application_id=self._application())
        http = self._tree.client.http
        known: Sequence[Json] = await send_request(
            lambda: http.request(route, params={"with_localizations": "true"}), "commands", seconds=_SECONDS
        )
        return known

    def _application(self) -> int:
        client = self._tree.client
        application = client.application_id or (client.user.id if client.user else None)
        if application is None:
            raise ChannelError("Discord did not tell the id of the application.")
        return application


def _meaning(command: Json) -> Json:
    """What matters of a command, in one form for what we send and for what a server keeps."""
    permissions = command.get("default_member_permissions")
    return {
        **_named(command),
        "type": command.get("type", 1),
        "permissions": None if permissions is None else int(permissions),
        "contexts": sorted(command.get("contexts") or ()),
        "installs": sorted(command.get("integration_types") or ()),
        "nsfw": bool(command.get("nsfw")),
        "options": [_option(option) for option in command.get("options") or ()],
    }


_PLAIN = ("name", "description", "type", "default_member_permissions", "required", "value")
_PLAIN_WITHIN = ("options", "choices")


def _plain(thing: Json) -> dict[str, Any]:
    """Return a command, option or choice with nothing but what every server takes."""
    plain = {key: thing[key] for key in _PLAIN if thing.get(key) is not None and thing[key] != ""}
    for key in _PLAIN_WITHIN:
        if thing.get(key):
            plain[key] = [_plain(each) for each in thing[key]]
    return plain


def _option(option: Json) -> Json:
    return {
        **_named(option),
        "type": option["type"],
        "required": bool(option.get("required")),
        "autocomplete": bool(option.get("autocomplete")),
        "range": [option.get(key) for key in ("min_value", "max_value", "min_length", "max_length")],
        "choices": [{**_named(choice), "value": choice["value"]} for choice in option.get("choices") or ()],
        "options": [_option(each) for each in option.get("options") or ()],
    }


def _named(thing: Json) -> Json:
    """Name and description with their translations; those that are like the original count for nothing."""
    told: dict[str, Any] = {}
    for key in ("name", "description"):
        original = thing.get(key) or ""
        translations = thing.get(f"{key}_localizations") or {}
        told[key] = original
        told[f"{key}s"] = {locale: text for locale, text in translations.items() if text and text != original}
    return told


def _sorted(commands: Sequence[Json]) -> list[Json]:
    return sorted(commands, key=lambda command: (command["type"], command["name"]))
