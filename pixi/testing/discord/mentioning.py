"""Who is alerted by a message: what its text says, within what was allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pixi.testing.discord.permissions import Permission, in_channel

if TYPE_CHECKING:
    from pixi.testing.discord.channels import FakeChannel
    from pixi.testing.discord.messages import FakeMessage
    from pixi.testing.discord.users import User
    from pixi.testing.discord.world import World

_USER = re.compile(r"<@!?(\d{1,20})>")
_ROLE = re.compile(r"<@&(\d{1,20})>")
_EVERYBODY = re.compile(r"@(?:everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The field `allowed_mentions`: kinds that may alert, and single ids."""

    parse: frozenset[str] = frozenset({"users", "roles", "everyone"})
    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    replied_user: bool = True


@dataclass(slots=True)
class Pinged:
    """Who is alerted."""

    users: list[User] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    everyone: bool = False


def pinged(
    world: World,
    channel: FakeChannel,
    author: User,
    text: str,
    *,
    allowed: Allowed,
    answered: FakeMessage | None = None,
    by_webhook: bool = False,
) -> Pinged:
    """Who is alerted by a text, which `author` writes in a channel, in answer to a message perhaps."""
    found = Pinged()
    may_all = by_webhook or bool(in_channel(channel, author) & Permission.MENTION_EVERYONE)
    if "<@" in text:
        for user_id in dict.fromkeys(map(int, _USER.findall(text))):
            user = world.users.get(user_id)
            if user is not None and ("users" in allowed.parse or user_id in allowed.users):
                found.users.append(user)
        roles = channel.guild.roles if channel.guild else {}
        for role_id in dict.fromkeys(map(int, _ROLE.findall(text))):
            role = roles.get(role_id)
            if role is None or not (role.mentionable or may_all):
                continue
            if "roles" in allowed.parse or role_id in allowed.roles:
                found.roles.append(role_id)
    if answered is not None and allowed.replied_user and answered.webhook is None:
        one = answered.author
        found.users += [one] if one is not author and one not in found.users else []
    found.everyone = "everyone" in allowed.parse and may_all and bool(_EVERYBODY.search(text))
    return found


SILENT = Allowed(frozenset(), replied_user=False)
