"""The commands that change what holds in a channel: `/persona`, `/model`, `/reset` and `/stop`."""

import logging
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import discord
from discord import app_commands
from msgspec import Struct
from msgspec.structs import replace
from rapidfuzz import fuzz, process

from pixi.channels.discord.backend import BotBackend, ConversationAddress, channel_config
from pixi.channels.discord.formatting import clipped, escape_line
from pixi.channels.discord.permissions import requester_of
from pixi.channels.discord.requests import FAULTS
from pixi.channels.discord.slash.invocation import NAME, Invocation, Use
from pixi.settings.rules import Requester, Rules, may_talk
from pixi.store.kept import ChannelConfig

if TYPE_CHECKING:
    from discord.types.command import ApplicationCommandPermissions

_log = logging.getLogger("pixi.discord")

_ABOUT = 0.8  # what a line tells of somebody counts for less than the name
_GOOD = 60.0  # of 100, for a suggestion
_NEAR = 60.0  # of 100, for "do you mean"
_TYPED = 100  # characters that are looked at

_ROLE, _USER = 1, 2
_BROKEN = (*FAULTS, KeyError, TypeError, ValueError)
NEEDS = {
    "reset": discord.Permissions(manage_messages=True),
    "persona": discord.Permissions(manage_guild=True),
    "model": discord.Permissions(manage_guild=True),
}
"""Commands that a guild shows to some people only, and what these hold, unless it says otherwise."""

ShowAs = Callable[[discord.Guild, str], Awaitable[None]]
"""Shows the bot as a persona in a guild, where the rules want that. Raises nothing."""

HOW = ("here", "join", "leave")
"""Things that a persona can be asked to do in a channel."""

_SUGGESTIONS = 25  # Discord takes no more
_LABEL = 100


class Choice(Struct, frozen=True):
    """A value that can be chosen.

    Attributes:
        value: by which it is known.
        name: as people see it.
        about: a line of what it is.
    """

    value: str
    name: str
    about: str = ""


def suggest(typed: str, choices: Sequence[Choice], limit: int) -> list[Choice]:
    """Suggest what may be meant by the beginning of a name, or a word about it; the likeliest first."""
    wanted = _key(typed[:_TYPED])
    if not wanted:
        return list(choices[:limit])
    scored = [(_score(wanted, choice), choice) for choice in choices]
    good = sorted((pair for pair in scored if pair[0] >= _GOOD), key=lambda pair: -pair[0])
    return [choice for _, choice in good[:limit]]


def find(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """Return the one of this name: written exactly so, or else alike but for case."""
    exact = next((choice for choice in choices if choice.value == typed), None)
    return exact or _by_key(choices).get(_key(typed))


def nearest(typed: str, choices: Sequence[Choice]) -> Choice | None:
    """Return the one whose name is most like what was typed, if any is."""
    keys = _by_key(choices)
    found = process.extractOne(_key(typed[:_TYPED]), list(keys), scorer=fuzz.ratio, score_cutoff=_NEAR)
    return keys[found[0]] if found else None


def _by_key(choices: Sequence[Choice]) -> Mapping[str, Choice]:
    """Know a choice by both of its names; its value goes before another's name."""
    names = {_key(choice.name): choice for choice in reversed(choices)}
    return names | {_key(choice.value): choice for choice in reversed(choices)}


def _score(wanted: str, choice: Choice) -> float:
    names = (_key(choice.value), _key(choice.name))
    if any(name.startswith(wanted) for name in names):
        return 100.0
    by_name = max(fuzz.WRatio(wanted, name) for name in names)
    about = fuzz.partial_ratio(wanted, _key(choice.about)) if len(wanted) > 2 and choice.about else 0.0
    return max(by_name, about * _ABOUT)


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


async def may_govern(interaction: discord.Interaction, rules: Rules, needed: discord.Permissions) -> bool:
    """Return whether somebody may change what holds for everybody in a place.

    In a DM the person may. In a guild an admin of the settings may, and whoever has the permissions that
    the command asks for by default. A guild can give a command to others too, on Discord's own page of
    integrations: Discord shows it to them alone, but not every server that speaks its language knows
    that page, so it is asked what was given.
    """
    requester = requester_of(interaction)
    if not may_talk(rules, requester):
        return False
    if requester.guild is None or requester.user in rules.admins:
        return True
    held, guild = interaction.permissions, interaction.guild
    owns = guild is not None and guild.owner_id == requester.user
    return held.administrator or held >= needed or owns or await _was_given(interaction, requester)


async def _was_given(interaction: discord.Interaction, requester: Requester) -> bool:
    """Return whether the guild gave this command, or all, to the person or to one of their roles."""
    if requester.guild is None:
        return False
    http, application = interaction.client.http, interaction.application_id
    try:
        found = await http.get_guild_application_command_permissions(application, requester.guild)
        given = {int(each["id"]): each["permissions"] for each in found}
        for_command = given.get(interaction.command_id or 0)
        if for_command is not None:
            return _gives(for_command, requester, everybody=True)
        return _gives(given.get(application, []), requester, everybody=False)
    except _BROKEN as error:
        _log.info("who may use commands in guild %s could not be read: %s", requester.guild, error)
        return False


def _gives(entries: "list[ApplicationCommandPermissions]", requester: Requester, *, everybody: bool) -> bool:
    """Return what the entries decide: the person's own first, then those of roles, then everybody's."""
    persons = [
        each["permission"] for each in entries if each["type"] == _USER and int(each["id"]) == requester.user
    ]
    if persons:
        return persons[0]
    by_role = {int(each["id"]): each["permission"] for each in entries if each["type"] == _ROLE}
    roles = [
        permission
        for role, permission in by_role.items()
        if role in requester.roles and role != requester.guild
    ]
    if roles:
        return any(roles)
    return everybody and by_role.get(requester.guild or 0, False)


class ChannelCommands:
    """`/persona`, `/model`, `/reset` and `/stop`."""

    def __init__(self, use: Use, show_as: ShowAs) -> None:
        self._use = use
        self._show_as = show_as

    async def reset(self, interaction: discord.Interaction) -> None:
        """Forget what was said in a channel, by and to all its personas."""
        use = self._use(interaction)
        if await self._governs(use, "reset"):
            await use.within(self._reset(use))
            await use.answer(use.say("says.reset.done"), public=True)

    async def stop(self, interaction: discord.Interaction) -> None:
        """End the replies that are being written in a channel."""
        use = self._use(interaction)
        stopped = await use.within(self._stop(use))
        await use.answer(use.say("says.stop.done" if stopped else "says.stop.nothing"))

    async def persona(
        self,
        interaction: discord.Interaction,
        name: str | None = None,
        how: str | None = None,
        home: bool | None = None,
    ) -> None:
        """Tell or change which personas are in a channel, and whether every message there is answered."""
        use = self._use(interaction)
        if name is None and how is None and home is None:
            await use.answer(self._who_lives(use))
        elif not await self._governs(use, "persona"):
            return
        elif name is None and how is not None:
            await use.answer(use.say("says.persona.nameless"))
        else:
            await self._change(use, name, how or "here", home)

    async def model(self, interaction: discord.Interaction, name: str | None = None) -> None:
        """Tell or change which model writes in a channel."""
        use = self._use(interaction)
        if name is None:
            now = escape_line(self.model_here(use), NAME)
            await use.answer(use.say("says.model.writes", name=f"**{now}**"))
            return
        if not await self._governs(use, "model"):
            return
        found = find(name, _models(use.backend))
        if found is None:
            names = clipped(", ".join(escape_line(each, NAME) for each in use.backend.models), 1_000)
            await use.answer(use.say("says.model.unknown", name=escape_line(name, NAME), names=names))
            return
        model = "" if found.value == use.backend.models[0] else found.value
        await use.within(use.backend.set_place(use.address(), replace(_own_place(use), model=model)))
        shown = f"**{escape_line(found.value, NAME)}**"
        await use.answer(use.say("says.model.chosen", name=shown), public=True)

    def model_here(self, use: Invocation) -> str:
        """Return the name of the model that writes in a channel."""
        models = use.backend.models
        chosen = use.backend.place(use.address()).model
        return chosen if chosen in models else models[0] if models else ""

    # While somebody types.

    async def suggest_persona(
        self, interaction: discord.Interaction, typed: str
    ) -> list[app_commands.Choice[str]]:
        """Suggest personas that may be meant."""
        return _suggestions(typed, _personas(self._use(interaction).backend))

    async def suggest_model(
        self, interaction: discord.Interaction, typed: str
    ) -> list[app_commands.Choice[str]]:
        """Suggest models that may be meant."""
        return _suggestions(typed, _models(self._use(interaction).backend))

    # What they do.

    async def _governs(self, use: Invocation, command: str) -> bool:
        """Return whether they may; where not, they are told."""
        if await use.within(may_govern(use.interaction, use.backend.rules, NEEDS[command])):
            return True
        await use.answer(use.say("says.managers"))
        return False

    async def _reset(self, use: Invocation) -> None:
        for conversation in use.conversations:
            await use.backend.engine.reset(conversation)

    async def _stop(self, use: Invocation) -> bool:
        return any([await use.backend.engine.stop(conversation) for conversation in use.conversations])

    def _who_lives(self, use: Invocation) -> str:
        lives = use.say("says.persona.lives", names=use.all_shown(use.channel_personas))
        if use.interaction.guild_id is None:
            return lives
        return f"{lives}\n{use.say('says.persona.home' if is_home(use) else 'says.persona.call')}"

    async def _change(self, use: Invocation, name: str | None, how: str, home: bool | None) -> None:
        told: list[str] = []
        here: tuple[str, ...] | None = None
        if name is not None:
            found = find(name, _personas(use.backend))
            if found is None:
                await use.answer(self._unknown(use, name))
                return
            here, text = _after(use.channel_personas, found.value, how)
            names = use.all_shown(here or ())
            told.append(use.say(text, name=f"**{use.shown(found.value)}**", names=names))
            if here is None:
                await use.answer(told[0])
                return
        if home is not None:
            told.append(use.say("says.persona.now_home" if home else "says.persona.now_call"))
        await use.within(self._settle(use, here, home))
        await use.answer("\n".join(told), public=True)
        if here and use.interaction.guild and use.backend.rules.faces == "profile":
            await self._show_as(use.interaction.guild, here[0])

    def _unknown(self, use: Invocation, name: str) -> str:
        close = nearest(name, _personas(use.backend))
        shown = escape_line(name, NAME)
        if close is None:
            return use.say("says.persona.unknown", name=shown)
        return use.say("says.persona.nearest", name=shown, nearest=f"**{use.shown(close.value)}**")

    async def _settle(self, use: Invocation, here: tuple[str, ...] | None, home: bool | None) -> None:
        """Keep what was chosen: for the channel; who has the bot's one face in a guild, for the guild."""
        guild = use.interaction.guild_id
        place = _own_place(use)
        if home is not None:
            place = replace(place, home=home)
        if here is not None and guild is not None and use.backend.rules.faces == "profile":
            address = str(ConversationAddress(use.bot, guild))
            await use.backend.set_place(address, replace(use.backend.place(address), personas=here))
            await self._inherit(use)
            place = replace(place, personas=())
        elif here is not None:
            place = replace(place, personas=here)
        elif home is False and place == ChannelConfig():
            place = replace(place, personas=use.channel_personas)  # else what it belongs to would decide
        await use.backend.set_place(use.address(), place)

    async def _inherit(self, use: Invocation) -> None:
        """Let what holds in the guild hold in what the channel belongs to, too."""
        for each in use.where[1:-1]:
            address = str(ConversationAddress(use.bot, each))
            place = use.backend.place(address)
            if place.personas:
                await use.backend.set_place(address, replace(place, personas=()))


def _personas(backend: BotBackend) -> list[Choice]:
    return [Choice(key, each.name, each.about) for key, each in backend.personas.items()]


def _models(backend: BotBackend) -> list[Choice]:
    return [Choice(name, name) for name in backend.models]


def is_home(use: Invocation) -> bool:
    """Return whether every message in a channel is answered."""
    if any(each in use.backend.rules.home_channels for each in use.requester.channels):
        return True
    return channel_config(use.backend, use.bot, use.where).home


def _own_place(use: Invocation) -> ChannelConfig:
    """Return what was chosen for the channel itself; where nothing was, what it would otherwise lose."""
    own = use.backend.place(use.address())
    if own != ChannelConfig():
        return own
    return ChannelConfig(home=channel_config(use.backend, use.bot, use.where).home)


def _after(here: tuple[str, ...], name: str, how: str) -> tuple[tuple[str, ...] | None, str]:
    """Return who is there then, None where nothing changes; and the key of what is told of it."""
    if how == "join":
        return (here if name in here else (*here, name)), "says.persona.joined"
    if how != "leave":
        return (name,), "says.persona.here"
    if name not in here:
        return None, "says.persona.absent"
    rest = tuple(each for each in here if each != name)
    return (rest, "says.persona.left") if rest else (None, "says.persona.last")


def _suggestions(typed: str, choices: Sequence[Choice]) -> list[app_commands.Choice[str]]:
    fitting = [choice for choice in choices if 0 < len(choice.value) <= _LABEL]
    return [
        app_commands.Choice(name=_label(choice), value=choice.value)
        for choice in suggest(typed, fitting, _SUGGESTIONS)
    ]


def _label(choice: Choice) -> str:
    line = " ".join(f"{choice.name} – {choice.about}".split()) if choice.about else choice.name
    return clipped(line, _LABEL) or choice.value
