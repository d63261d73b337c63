"""Who may use the commands that change a place for everybody in it."""

import logging
from typing import TYPE_CHECKING

import discord

from pixi.channels.discord.access import Requester, may_talk
from pixi.channels.discord.places import requester_of
from pixi.channels.discord.requests import FAULTS
from pixi.channels.discord.rules import Rules

if TYPE_CHECKING:
    from discord.types.command import ApplicationCommandPermissions

_log = logging.getLogger("pixi.discord")

_ROLE, _USER = 1, 2
_BROKEN = (*FAULTS, KeyError, TypeError, ValueError)


async def may_govern(interaction: discord.Interaction, rules: Rules, needed: discord.Permissions) -> bool:
    """Whether somebody may change what holds for everybody in a place.

    In a DM the person may. In a guild an admin of the settings may, and whoever has the permissions that
    the command asks for by default. A guild can give a command to others too, on Discord's own page of
    integrations: Discord shows it to them alone, but not every server that speaks its language knows
    that page, so it is asked what was given.
    """
    asker = requester_of(interaction)
    if not may_talk(rules, asker):
        return False
    if asker.guild is None or asker.user in rules.admins:
        return True
    held = interaction.permissions
    if held.administrator or held >= needed or _owns(interaction):
        return True
    return await _was_given(interaction, asker)


def _owns(interaction: discord.Interaction) -> bool:
    guild = interaction.guild
    return guild is not None and guild.owner_id == interaction.user.id


async def _was_given(interaction: discord.Interaction, asker: Requester) -> bool:
    """Whether the guild gave this command, or all of them, to the person or to one of their roles."""
    if asker.guild is None:
        return False
    http, application = interaction.client.http, interaction.application_id
    try:
        found = await http.get_guild_application_command_permissions(application, asker.guild)
        given = {int(each["id"]): each["permissions"] for each in found}
        for_command = given.get(interaction.command_id or 0)
        if for_command is not None:
            return _gives(for_command, asker, everybody=True)
        return _gives(given.get(application, []), asker, everybody=False)
    except _BROKEN as error:
        _log.info("who may use commands in guild %s could not be read: %s", asker.guild, error)
        return False


def _gives(entries: "list[ApplicationCommandPermissions]", asker: Requester, *, everybody: bool) -> bool:
    """What the entries decide: the person's own first, then those of roles, then that of everybody."""
    persons = [
        each["permission"] for each in entries if each["type"] == _USER and int(each["id"]) == asker.user
    ]
    if persons:
        return persons[0]
    by_role = {int(each["id"]): each["permission"] for each in entries if each["type"] == _ROLE}
    roles = [
        permission for role, permission in by_role.items() if role in asker.roles and role != asker.guild
    ]
    if roles:
        return any(roles)
    return everybody and by_role.get(asker.guild or 0, False)
