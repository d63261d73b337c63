"""Who may talk to the bot, and who governs it: one decision from the rules, deny first."""

from collections.abc import Iterable
from dataclasses import dataclass

from pixi.channels.discord.rules import Rules


@dataclass(frozen=True, slots=True)
class Requester:
    """Somebody who wants something of the bot, and where.

    Attributes:
        roles: ids of their roles in the guild; empty in a DM.
        guild: id of the guild; None in a DM.
        channels: ids of the channel, and of what it belongs to: a thread's parent, a channel's category.
        manages: Discord lets them manage the guild.
        is_bot: it is a bot or a webhook.
    """

    user: int
    roles: frozenset[int] = frozenset()
    guild: int | None = None
    channels: tuple[int, ...] = ()
    manages: bool = False
    is_bot: bool = False


def may_talk(rules: Rules, asker: Requester) -> bool:
    """Whether the bot answers them there.

    Whoever or whatever is blocked is denied, admins too. Admins then pass all lists. For the others each
    list that is not empty must name the guild, the channel, and the person or one of their roles. In a DM
    there is no guild, no channel and no role: `dms` decides, and who is named.
    """
    if is_blocked(rules, asker):
        return False
    if asker.user in rules.admins:
        return True
    if asker.is_bot and not rules.bots:
        return False
    if asker.guild is None:
        return rules.dms and _person_allowed(rules, asker)
    return (
        _listed((asker.guild,), rules.allowed_guilds)
        and _listed(asker.channels, rules.allowed_channels)
        and _person_allowed(rules, asker)
    )


def is_blocked(rules: Rules, asker: Requester) -> bool:
    """Whether they, or the place, are on a list of what is blocked: not even overheard."""
    return (
        asker.user in rules.blocked_users
        or not asker.roles.isdisjoint(rules.blocked_roles)
        or asker.guild in rules.blocked_guilds
        or any(channel in rules.blocked_channels for channel in asker.channels)
    )


def is_admin(rules: Rules, asker: Requester) -> bool:
    """Whether they govern the bot there: an admin of the settings, or one of the guild who may talk to it."""
    return may_talk(rules, asker) and (
        asker.user in rules.admins or (asker.guild is not None and asker.manages)
    )


def _person_allowed(rules: Rules, asker: Requester) -> bool:
    if not rules.allowed_users and not rules.allowed_roles:
        return True
    return asker.user in rules.allowed_users or not asker.roles.isdisjoint(rules.allowed_roles)


def _listed(these: Iterable[int], allowed: tuple[int, ...]) -> bool:
    return not allowed or any(each in allowed for each in these)
