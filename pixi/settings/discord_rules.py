"""What an operator may decide about the bot, and who may talk to it by that: deny first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Faces = Literal["off", "profile", "webhook"]
Ping = Literal["users", "roles", "everyone"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How the bot behaves. Lists hold Discord's ids; an empty `allowed_…` list allows everybody.

    Attributes:
        allowed_users: the people who may talk to the bot; empty: everybody.
        blocked_users: the people whom the bot ignores.
        allowed_roles: the roles whose members may talk to the bot; empty: all.
        blocked_roles: the roles whose members the bot ignores.
        allowed_channels: the channels in which the bot answers; empty: all.
        blocked_channels: the channels in which the bot does not answer.
        allowed_guilds: the servers in which the bot answers; empty: all.
        blocked_guilds: the servers in which the bot does not answer.
        admins: the people who may do everything with the bot, everywhere; the lists of what is allowed do not
            bind them.
        dms: whether the bot answers direct messages.
        bots: whether the bot answers other bots.
        bot_turns: how many turns personas and bots may take in a channel until a person speaks again.
        home_channels: the channels where every message is meant for the persona.
        faces: how a persona appears: as the bot (`off`), as the bot with the persona's name and picture in
            each server (`profile`), or under its own name and picture, several in one channel (`webhook`).
        pings: whom a persona may ping besides the person it answers.
        link_hosts: whether Pixi shows the host beside a link to which a persona gives another name.
        overhear: how many earlier messages a persona sees when somebody calls it.
        catch_up_minutes: how old an unanswered message may be that the bot still answers after a start.
        catch_up_messages: how many such messages the bot reads in each channel.
        patience_seconds: how long the bot tries to post a message while Discord cannot be reached.
        pictures: how many pictures of a message a model that sees is shown.
        picture_megabytes: how large the file of a picture may be.
        picture_pixels: the longer side of a picture; larger ones are scaled down.
        text_files: how many text files of a message the bot reads.
        text_characters: how much the bot reads of a message, and of each text file.
        slash: whether the bot offers slash commands.
        read_history: whether personas may look up older messages of the server, as far as everybody who could
            read the answer may read them.
        stickers: whether personas may send the stickers of the server.
    """

    allowed_users: tuple[int, ...] = ()
    blocked_users: tuple[int, ...] = ()
    allowed_roles: tuple[int, ...] = ()
    blocked_roles: tuple[int, ...] = ()
    allowed_channels: tuple[int, ...] = ()
    blocked_channels: tuple[int, ...] = ()
    allowed_guilds: tuple[int, ...] = ()
    blocked_guilds: tuple[int, ...] = ()
    admins: tuple[int, ...] = ()
    dms: bool = True
    bots: bool = False
    bot_turns: int = 4
    home_channels: tuple[int, ...] = ()
    faces: Faces = "off"
    pings: tuple[Ping, ...] = ()
    link_hosts: bool = True
    overhear: int = 20
    catch_up_minutes: float = 30.0
    catch_up_messages: int = 50
    patience_seconds: float = 30.0
    pictures: int = 4
    picture_megabytes: float = 8.0
    picture_pixels: int = 1_024
    text_files: int = 3
    text_characters: int = 20_000
    slash: bool = True
    read_history: bool = False
    stickers: bool = False


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


def may_talk(rules: Rules, requester: Requester) -> bool:
    """Return whether the bot answers somebody there.

    Whoever or whatever is blocked is denied, admins too. Admins then pass all lists. For the others each
    list that is not empty must name the guild, the channel, and the person or one of their roles. In a DM
    there is no guild, no channel and no role: `dms` decides, and who is named.
    """
    if is_blocked(rules, requester):
        return False
    if requester.user in rules.admins:
        return True
    if requester.is_bot and not rules.bots:
        return False
    if requester.guild is None:
        return rules.dms and _person_allowed(rules, requester)
    return (
        _listed((requester.guild,), rules.allowed_guilds)
        and _listed(requester.channels, rules.allowed_channels)
        and _person_allowed(rules, requester)
    )


def is_blocked(rules: Rules, requester: Requester) -> bool:
    """Return whether somebody, or the place, is on a list of what is blocked: not even overheard."""
    return (
        requester.user in rules.blocked_users
        or not requester.roles.isdisjoint(rules.blocked_roles)
        or requester.guild in rules.blocked_guilds
        or any(channel in rules.blocked_channels for channel in requester.channels)
    )


def is_admin(rules: Rules, requester: Requester) -> bool:
    """Return whether somebody governs the bot there: an admin of the settings, or of the guild."""
    return may_talk(rules, requester) and (
        requester.user in rules.admins or (requester.guild is not None and requester.manages)
    )


def _person_allowed(rules: Rules, requester: Requester) -> bool:
    if not rules.allowed_users and not rules.allowed_roles:
        return True
    return requester.user in rules.allowed_users or not requester.roles.isdisjoint(rules.allowed_roles)


def _listed(these: Iterable[int], allowed: tuple[int, ...]) -> bool:
    return not allowed or any(each in allowed for each in these)
