"""Interactions: people's commands and buttons, and the bot's answers."""

# ruff: noqa: ASYNC109 — a test says how long it waits, in the call

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pixi.testing.discord.calls import Json
from pixi.testing.discord.channels import FakeChannel
from pixi.testing.discord.commands import CHAT, GROUP, MESSAGE, SUBCOMMAND, FakeCommand
from pixi.testing.discord.guilds import in_channel
from pixi.testing.discord.messages import EPHEMERAL, FakeMessage
from pixi.testing.discord.users import Permission, User
from pixi.testing.discord.world import LIMIT

COMMAND, COMPONENT, AUTOCOMPLETE = 2, 3, 4
LOADING = 1 << 7
PATIENCE = 3.0

OptionValue = str | int | float | bool


@dataclass(eq=False)
class Interaction:
    """Somebody used a command, a button, or types an option.

    Attributes:
        response: the type of the first answer: 4 a message, 5 a message to come, 6 and 7 for buttons,
            8 choices, 9 a form; None: nothing yet.
        original: the message that answers it; while it is still to come it has the flag 128.
        followups: further messages.
        choices: what autocomplete offers.
        at: when it began; `responded_at`: when the first answer came; both on the monotonic clock.
    """

    id: int
    token: str
    type: int
    person: User
    channel: FakeChannel
    command: FakeCommand | None = None
    source: FakeMessage | None = None
    response: int | None = None
    original: FakeMessage | None = None
    followups: list[FakeMessage] = field(default_factory=list)
    choices: list[Json] = field(default_factory=list)
    at: float = field(default_factory=time.monotonic)
    responded_at: float | None = None

    @property
    def deferred(self) -> bool:
        """A message was promised and has not come."""
        return self.original is not None and bool(self.original.flags & LOADING)

    @property
    def content(self) -> str | None:
        """The text of the answer; None: there is none yet."""
        return None if self.original is None or self.deferred else self.original.content

    @property
    def ephemeral(self) -> bool:
        """True if only who asked sees the answer."""
        return self.original is not None and self.original.ephemeral

    @property
    def late(self) -> bool:
        """True if nothing came within three seconds: people see that the application did not respond."""
        return (self.responded_at or time.monotonic()) - self.at > PATIENCE

    async def responded(self, timeout: float = LIMIT) -> Interaction:
        """Return once there is a first answer of any kind. Raises `TimeoutError`."""
        await self._until(lambda: self.response is not None, timeout)
        return self

    async def answered(self, timeout: float = LIMIT) -> str:
        """Return the text of the answer, once it is there. Raises `TimeoutError`."""
        await self._until(lambda: self.content is not None, timeout)
        return self.content or ""

    async def _until(self, done: Callable[[], bool], timeout: float) -> None:
        async with asyncio.timeout(timeout):
            while not done():
                await self.channel.world.next_change()

    def metadata(self) -> Json:
        """Return what the answering message tells of it."""
        return {"id": str(self.id), "type": self.type, "user": self.person.payload()}


def begin(
    kind: int,
    person: User,
    channel: FakeChannel,
    data: Json,
    *,
    locale: str | None = None,
    command: FakeCommand | None = None,
    source: FakeMessage | None = None,
) -> Interaction:
    """Tell the bot that somebody did something."""
    guild, world = channel.guild, channel.world
    payload: Json = {
        "id": str(world.ids.next()),
        "application_id": str(world.application_id),
        "type": kind,
        "data": data,
        "channel": channel.payload() | {"permissions": _bits(channel, person)},
        "channel_id": str(channel.id),
        "token": secrets.token_urlsafe(64),
        "version": 1,
        "app_permissions": _bits(channel, world.bot),
        "locale": locale or person.locale,
        "context": 0 if guild else 1,
        "attachment_size_limit": world.attachment_limit,
    }
    if guild is not None:
        member = guild.members.get(person.id) or guild.join(person)
        payload |= {
            "guild_id": str(guild.id),
            "guild_locale": guild.locale,
            "member": member.payload() | {"permissions": _bits(channel, person)},
        }
    else:
        payload["user"] = person.payload()
    if source is not None:
        payload["message"] = source.payload()
    interaction = Interaction(int(payload["id"]), payload["token"], kind, person, channel, command, source)
    world.interactions[interaction.token] = interaction
    world.tell_bot("INTERACTION_CREATE", guild, payload)
    world.changed()
    return interaction


def _bits(channel: FakeChannel, user: User) -> str:
    return str(int(in_channel(channel, user)))


def usable(name: str, kind: int, person: User, channel: FakeChannel) -> FakeCommand:
    """Return the command that somebody sees under a name.

    Raises `LookupError` where there is none, and `PermissionError` where it is not theirs to use.
    """
    guild, kept = channel.guild, channel.world.commands.kept
    command = kept.get((kind, name))
    if command is None:
        known = sorted(each.name for each in kept.values() if each.type == kind)
        raise LookupError(f"There is no command {name!r}; there are {', '.join(known) or 'none'}.")
    if guild is None:
        return command
    guild.join(person)
    mine = in_channel(channel, person)
    needed = command.body.get("default_member_permissions")
    lacks = needed is not None and (int(needed) == 0 or bool(int(needed) & ~int(mine)))
    if lacks and not mine & Permission.ADMINISTRATOR:
        raise PermissionError(f"{person.name} may not use {name!r}.")
    if not mine & Permission.USE_APPLICATION_COMMANDS:
        raise PermissionError(f"{person.name} may use no commands here.")
    return command


def typed(
    person: User,
    channel: FakeChannel,
    line: str,
    options: Mapping[str, OptionValue],
    *,
    focused: str | None = None,
) -> tuple[FakeCommand, Json]:
    """Return the data of a typed command; `line` is its name, and the names of subcommands after it."""
    name, *path = line.split()
    command = usable(name, CHAT, person, channel)
    data: Json = {"id": str(command.id), "name": command.name, "type": CHAT}
    known = command.body.get("options") or []
    here = data
    for step in path:
        branch = _option(known, step)
        if branch["type"] not in {SUBCOMMAND, GROUP}:
            raise LookupError(f"{step!r} is no subcommand of {name!r}.")
        below: Json = {"name": step, "type": branch["type"]}
        here["options"] = [below]
        here, known = below, branch.get("options") or []
    given = []
    for key, value in options.items():
        option = _option(known, key)
        entry: Json = {"name": key, "type": option["type"], "value": _value(value, option)}
        given.append(entry | {"focused": True} if key == focused else entry)
    if given:
        here["options"] = given
    return command, data


def _option(known: list[Json], name: str) -> Json:
    for option in known:
        if option["name"] == name:
            return option
    raise LookupError(
        f"There is no option {name!r}; there are {', '.join(one['name'] for one in known) or 'none'}."
    )


def _value(value: OptionValue, option: Json) -> object:
    choices = option.get("choices") or []
    if not choices:
        return value
    for choice in choices:
        if value in {choice["name"], choice["value"]}:
            return choice["value"]
    raise LookupError(f"{value!r} is no choice of {option['name']!r}.")


def on_message(person: User, message: FakeMessage, name: str) -> tuple[FakeCommand, Json]:
    """Return the data of a command in the menu of a message."""
    command = usable(name, MESSAGE, person, message.channel)
    data: Json = {
        "id": str(command.id),
        "name": command.name,
        "type": MESSAGE,
        "target_id": str(message.id),
        "resolved": {"messages": {str(message.id): message.payload()}},
    }
    return command, data


def promised(interaction: Interaction, flags: int) -> None:
    """The bot thinks; its message is to come."""
    world = interaction.channel.world
    interaction.original = FakeMessage(
        world.ids.next(),
        interaction.channel,
        world.bot,
        "",
        type=20,
        flags=LOADING | flags & EPHEMERAL,
        webhook_id=world.application_id,
        application_id=world.application_id,
        interaction=interaction.metadata(),
    )
