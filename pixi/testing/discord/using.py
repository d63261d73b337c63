"""What people do with the bot's commands, buttons and forms."""

# ruff: noqa: ASYNC109 — a test says how long it waits, in the call

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pixi.testing.discord import interactions
from pixi.testing.discord.calls import Json
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.commands import FakeCommand
from pixi.testing.discord.interactions import Interaction, OptionValue
from pixi.testing.discord.messages import FakeMessage
from pixi.testing.discord.users import User
from pixi.testing.discord.world import LIMIT, World


class Using:
    """The part of the face with which people use commands."""

    world: World

    @property
    def commands(self) -> list[FakeCommand]:
        """Those that are registered everywhere."""
        return self.world.commands.all(None)

    async def slash(
        self,
        person: User,
        channel: FakeChannel,
        line: str,
        options: Mapping[str, OptionValue] | None = None,
        *,
        locale: str | None = None,
    ) -> Interaction:
        """Somebody types a command: `slash(mo, general, "persona", {"name": "Mimi"})`.

        Subcommands follow the name: `"forget me"`. Raises `LookupError` for what Discord's client would
        not offer, and `PermissionError` for what it would not let them use.
        """
        command, data = interactions.typed(self.world, person, channel, line, options or {})
        kind = interactions.COMMAND
        return interactions.begin(self.world, kind, person, channel, data, locale=locale, command=command)

    async def complete(
        self,
        person: User,
        channel: FakeChannel,
        line: str,
        option: str,
        *,
        typed: str = "",
        options: Mapping[str, OptionValue] | None = None,
        locale: str | None = None,
        timeout: float = LIMIT,
    ) -> list[Json]:
        """What autocomplete offers to somebody who typed so much of an option."""
        given = {**(options or {}), option: typed}
        command, data = interactions.typed(self.world, person, channel, line, given, focused=option)
        begun = interactions.begin(
            self.world, interactions.AUTOCOMPLETE, person, channel, data, locale=locale, command=command
        )
        return (await begun.responded(timeout)).choices

    async def message_menu(
        self, person: User, message: FakeMessage, name: str, *, locale: str | None = None
    ) -> Interaction:
        """Somebody chooses a command in the menu of a message."""
        command, data = interactions.on_message(self.world, person, message, name)
        kind = interactions.COMMAND
        return interactions.begin(
            self.world, kind, person, message.channel, data, locale=locale, command=command
        )

    async def person_menu(
        self, person: User, channel: FakeChannel, target: User, name: str, *, locale: str | None = None
    ) -> Interaction:
        """Somebody chooses a command in the menu of somebody."""
        command, data = interactions.on_person(self.world, person, channel, target, name)
        kind = interactions.COMMAND
        return interactions.begin(self.world, kind, person, channel, data, locale=locale, command=command)

    async def press(
        self,
        person: User,
        message: FakeMessage,
        custom_id: str,
        *,
        values: Sequence[str] | None = None,
        locale: str | None = None,
    ) -> Interaction:
        """Somebody presses a button, or chooses values of a menu.

        It need not be on the message any more: the bot may have taken it away while they pressed.
        """
        data: Json = {"custom_id": custom_id, "component_type": 2 if values is None else 3}
        if values is not None:
            data["values"] = list(values)
        kind = interactions.COMPONENT
        return interactions.begin(
            self.world, kind, person, message.channel, data, locale=locale, source=message
        )

    async def submit(self, shown: Interaction, fields: Mapping[str, str]) -> Interaction:
        """Somebody fills in the form that an interaction showed."""
        if shown.modal is None:
            raise LookupError("No form was shown.")
        rows = [
            {"type": 1, "components": [{"type": 4, "custom_id": key, "value": value}]}
            for key, value in fields.items()
        ]
        data: Json = {"custom_id": shown.modal["custom_id"], "components": rows}
        kind = interactions.MODAL
        return interactions.begin(self.world, kind, shown.person, shown.channel, data, source=shown.source)
