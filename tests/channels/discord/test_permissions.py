"""Who reads a channel, and what somebody may do there: Discord's permissions and the rules together."""

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from pixi.channels.discord import permissions
from pixi.core.message import Rights, Venue
from pixi.settings.rules import Rules
from pixi.testing.discord import FakeChannel, Permission, User
from tests.channels.discord.room import Room
from tests.waiting import until, within

VIEW = Permission.VIEW_CHANNEL
SPEAK = (
    VIEW | Permission.SEND_MESSAGES | Permission.SEND_MESSAGES_IN_THREADS | Permission.READ_MESSAGE_HISTORY
)
NOBODY, MANAGER, OPERATOR = Rights(), Rights(manager=True), Rights(manager=True, operator=True)


def closed(room: Room, kind: str = "text", *, parent: FakeChannel | None = None) -> FakeChannel:
    """A channel that not everybody sees; the bot does."""
    channel = room.guild.channel("closed", kind, parent=parent, deny_everyone=VIEW)
    channel.overwrite(room.discord.bot, allow=SPEAK)
    return channel


async def venue(room: Room, where: FakeChannel) -> Venue:
    channel, _ = await room.asked(where=where)
    return channel.venue


async def rights(room: Room, person: User | str, where: FakeChannel | None = None) -> Rights:
    channel, _ = await room.asked(where=where)
    return await channel.rights(person if isinstance(person, str) else str(person.id))


def looked_up(room: Room, person: User) -> int:
    return len(room.discord.asked("GET", rf"/members/{person.id}$"))


# Who reads it.


async def test_a_direct_message_is_read_by_one(room: Room) -> None:
    dm = room.discord.dm(room.mo)
    assert await venue(room, dm) == Venue("", "one", f"discord:{dm.id}")


async def test_what_everyone_sees_is_read_by_all(room: Room) -> None:
    here = f"discord:{room.guild.id}"
    for where in (room.general, room.guild.channel("voice", "voice")):
        assert await venue(room, where) == Venue(here, "all", f"discord:{where.id}")
    thread = room.guild.thread(room.general)
    assert await venue(room, thread) == Venue(here, "all", f"discord:{room.general.id}"), "it counts to that"


async def test_what_not_everyone_sees_is_read_by_some(room: Room) -> None:
    here = f"discord:{room.guild.id}"
    den = closed(room)
    invited = [room.mo, room.discord.bot]
    private = room.guild.thread(room.general, private=True, members=invited)
    for where in (den, closed(room, "voice"), room.guild.thread(den), private):
        found = await venue(room, where)
        assert (found.guild, found.audience) == (here, "some")


async def test_a_channel_in_a_hidden_category_goes_by_its_own_overwrites(room: Room) -> None:
    category = closed(room, "category")
    shown = room.guild.channel("shown", parent=category)
    assert (await venue(room, shown)).audience == "all"
    assert (await venue(room, closed(room, parent=category))).audience == "some"


async def test_a_channel_that_is_closed_is_known_as_closed_at_once(room: Room) -> None:
    channel, _ = await room.asked()
    assert channel.venue.audience == "all"
    room.general.overwrite(room.discord.bot, allow=SPEAK)
    room.general.overwrite(room.guild.everyone, deny=VIEW)
    await until(lambda: channel.venue.audience != "all")
    room.general.overwrite(room.guild.everyone, allow=VIEW)
    await until(lambda: channel.venue.audience == "all")


async def test_where_the_role_of_everybody_sees_nothing_each_channel_decides(room: Room) -> None:
    channel, _ = await room.asked()
    room.guild.change_role(room.guild.everyone, SPEAK & ~VIEW)
    room.general.overwrite(room.discord.bot, allow=SPEAK)
    await until(lambda: channel.venue.audience != "all")


# What somebody may do.

RULES: list[tuple[dict[str, Any], str, Rights, Rights]] = [
    # rules, who, in the guild, in a direct message
    ({}, "mo", NOBODY, NOBODY),
    ({}, "boss", MANAGER, NOBODY),
    ({}, "owner", MANAGER, NOBODY),
    ({}, "head", MANAGER, NOBODY),
    ({}, "stranger", NOBODY, NOBODY),
    ({}, "nonsense", NOBODY, NOBODY),
    ({}, "robot", NOBODY, NOBODY),
    ({"bots": True}, "robot", MANAGER, NOBODY),
    ({"admins": ["mo"]}, "mo", OPERATOR, OPERATOR),
    ({"admins": ["mo"]}, "boss", MANAGER, NOBODY),
    ({"admins": ["stranger"]}, "stranger", OPERATOR, OPERATOR),
    ({"admins": ["mo"], "blocked_users": ["mo"]}, "mo", NOBODY, NOBODY),
    ({"blocked_users": ["boss"]}, "boss", NOBODY, NOBODY),
    ({"admins": ["mo"], "blocked_guilds": ["guild"]}, "mo", NOBODY, OPERATOR),
    ({"admins": ["mo"], "blocked_channels": ["general"]}, "mo", NOBODY, OPERATOR),
    ({"admins": ["boss"], "blocked_roles": ["bosses"]}, "boss", NOBODY, OPERATOR),
    ({"admins": ["mo"], "allowed_users": ["ana"]}, "mo", OPERATOR, OPERATOR),
    ({"allowed_users": ["mo"]}, "boss", NOBODY, NOBODY),
    ({"admins": ["mo"], "dms": False}, "mo", OPERATOR, OPERATOR),
]


async def test_what_the_rules_and_discord_allow(room: Room) -> None:
    bosses = room.guild.role("bosses", Permission.MANAGE_GUILD)
    people = {
        "mo": room.mo,
        "ana": room.ana,
        "owner": room.guild.owner,
        "boss": room.discord.person("boss"),
        "head": room.discord.person("head", permissions=Permission.ADMINISTRATOR),
        "robot": room.discord.person("robot", permissions=Permission.MANAGE_GUILD, bot=True),
        "stranger": room.discord.person("stranger"),
    }
    room.guild.join(people["boss"], roles=[bosses])
    for name in ("head", "robot"):
        room.guild.join(people[name])
    ids = {name: person.id for name, person in people.items()}
    ids |= {"guild": room.guild.id, "general": room.general.id, "bosses": bosses.id}
    there, _ = await room.asked()
    private, _ = await room.asked(where=room.discord.dm(room.mo))
    for rules, who, in_guild, in_dm in RULES:
        room.backend.rules = Rules()
        room.backend.obey(
            **{
                key: tuple(ids[one] for one in value) if isinstance(value, list) else value
                for key, value in rules.items()
            }
        )
        person = str(ids.get(who, "terminal:mo"))
        assert await there.rights(person) == in_guild, (rules, who)
        assert await private.rights(person) == in_dm, (rules, who)


async def test_discord_is_asked_once_a_minute(room: Room) -> None:
    channel, _ = await room.asked()
    boss = room.discord.person("boss", permissions=Permission.MANAGE_GUILD)
    room.guild.join(boss)
    for _ in range(5):
        assert await channel.rights(str(boss.id)) == MANAGER
    assert looked_up(room, boss) == 1
    room.guild.leave(boss)
    assert await channel.rights(str(boss.id)) == MANAGER
    known, key = channel._context.directory._members, (room.guild.id, boss.id)
    held = known.get(key)
    assert held is not None
    known.put(key, replace(held, until=held.until - permissions.MEMBER_SECONDS))
    assert await channel.rights(str(boss.id)) == NOBODY
    assert await channel.rights(str(boss.id)) == NOBODY
    assert looked_up(room, boss) == 2


async def test_a_role_that_loses_its_permissions_counts_at_once(room: Room) -> None:
    channel, _ = await room.asked()
    role = room.guild.role("helpers", Permission.MANAGE_GUILD)
    room.guild.join(room.ana, roles=[role])
    assert await channel.rights(str(room.ana.id)) == MANAGER
    room.guild.change_role(role, Permission(0))
    async with within("the loss"):
        while await channel.rights(str(room.ana.id)) != NOBODY:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert looked_up(room, room.ana) == 1


async def test_who_is_silenced_manages_nothing(room: Room) -> None:
    boss = room.discord.person("boss", permissions=Permission.MANAGE_GUILD)
    room.guild.join(boss)
    room.guild.silence(boss, time.time() + 600)
    assert await rights(room, boss) == NOBODY


@pytest.mark.parametrize("blocks_roles", [False, True])
async def test_of_whom_discord_does_not_tell_nothing_is_believed(room: Room, blocks_roles: bool) -> None:
    channel, _ = await room.asked()
    boss = room.discord.person("boss", permissions=Permission.MANAGE_GUILD)
    room.guild.join(boss)
    room.backend.obey(admins=(room.mo.id,), blocked_roles=(1,) if blocks_roles else ())
    room.discord.fail("GET", r"/members/", 403, code=50001, times=None)
    assert await channel.rights(str(boss.id)) == NOBODY
    assert await channel.rights(str(room.mo.id)) == (NOBODY if blocks_roles else OPERATOR)


async def test_only_so_many_members_are_remembered(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_REMEMBERED", 2)
    channel, _ = await room.asked()
    channel._context.directory.forget()
    people = [room.discord.person(f"p{number}") for number in range(4)]
    for person in people:
        await channel.rights(str(person.id))
    assert len(channel._context.directory._members) == 2


async def test_a_channel_of_which_nothing_is_known_gives_nobody_rights(room: Room) -> None:
    channel, _ = await room.asked()
    room.backend.obey(admins=(room.mo.id,))
    channel.target = channel._context.client.get_partial_messageable(1)
    assert channel.venue == Venue("", "some", "discord:1")
    assert await channel.rights(str(room.mo.id)) == NOBODY
