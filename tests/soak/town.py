"""The town: its rooms, threads, DMs and people, and who of the personas lives where."""

import random
from dataclasses import dataclass

from pixi.testing.discord import FakeChannel, Guild, LoopbackDiscord, Permission, User

_PEOPLE = 120
_DMS = 40
"""At most: a bot that was away looks for no more of them than fifty."""


@dataclass(frozen=True, slots=True)
class Place:
    """A room and the personas that live in it, the first speaker first.

    Attributes:
        partner: who talks there alone with the bot; None: everybody talks there.
    """

    room: FakeChannel
    personas: tuple[str, ...]
    partner: User | None = None


@dataclass(frozen=True, slots=True)
class Town:
    """All of it. `boss` may reset a room."""

    places: list[Place]
    people: list[User]
    boss: User


async def furnish(discord: LoopbackDiscord, conversations: int, chance: random.Random) -> Town:
    """Rooms for so many conversations; the bot need not be there yet."""
    guilds = [discord.guild("Pancake House"), discord.guild("Tea House")]
    people = [discord.person(f"person{number}") for number in range(_PEOPLE)]
    boss = discord.person("Boss", permissions=Permission.MANAGE_GUILD | Permission.MANAGE_MESSAGES)
    direct = min(_DMS, conversations // 6)
    places = [Place(discord.dm(person), ("pixi",), person) for person in people[:direct]]
    left = conversations - direct
    while left > 0:
        rooms, left = _rooms(guilds[len(places) % 2], left, len(places), chance)
        places += rooms
    return Town(places, people, boss)


def _rooms(guild: Guild, left: int, number: int, chance: random.Random) -> tuple[list[Place], int]:
    """One more channel, perhaps with threads; gives what is left of the conversations then."""
    personas = chance.choices([("pixi",), ("edda",), ("pixi", "edda")], [6, 2, 2])[0]
    room = guild.channel(f"room-{number}")
    threads = [guild.thread(room, f"thread-{number}-{at}") for at in range(chance.choice([0, 0, 1, 2]))]
    places = [Place(each, personas) for each in (room, *threads)]
    return places, left - len(places) * len(personas)


async def settle_in(discord: LoopbackDiscord, town: Town) -> None:
    """Tell the bot who lives where, as the boss does it: threads go by the channel that they belong to."""
    for place in town.places:
        if place.room.is_thread or place.personas == ("pixi",):
            continue
        how = "here" if place.personas == ("edda",) else "join"
        begun = await discord.slash(town.boss, place.room, "persona", {"name": "edda", "how": how})
        await begun.answered(20)
