"""Nobody is told of what they may not read: whoever asks, wherever, of every kind of place."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations

import pytest

from pixi.channels.discord.archive.visibility import NOT_HERE
from pixi.core.channel import Archive, ArchiveQuery, Asker
from pixi.core.errors import ChannelError
from pixi.testing.discord import FakeChannel, FakeRole, Permission, User
from pixi.testing.discord.guilds import in_channel
from tests.channels.discord.archives import SEARCH, reading_room
from tests.channels.discord.room import Room
from tests.waiting import until

P = Permission
READING = P.VIEW_CHANNEL | P.READ_MESSAGE_HISTORY
SPEAK = READING | P.SEND_MESSAGES | P.SEND_MESSAGES_IN_THREADS | P.CONNECT


@dataclass
class Town:
    """A server in which people of all kinds of roles are, rooms of all kinds, and in each a secret.

    Attributes:
        rooms: where one can ask.
        places: where something is written.
        people: all who are in the server but the bot.
        searched: the server has a search.
    """

    room: Room
    rooms: dict[str, FakeChannel] = field(default_factory=dict)
    places: dict[str, FakeChannel] = field(default_factory=dict)
    people: dict[str, User] = field(default_factory=dict)
    roles: dict[str, FakeRole] = field(default_factory=dict)
    searched: bool = True

    def settle(self) -> None:
        """People of every set of roles, and Ana, who has none."""
        guild, discord = self.room.guild, self.room.discord
        for name in ("mods", "vips", "muted"):
            self.roles[name] = guild.role(name)
        self.roles["heads"] = guild.role("heads", P.ADMINISTRATOR)
        for names in chain.from_iterable(combinations(("mods", "vips", "muted"), n) for n in range(4)):
            person = self.people["+".join(names) or "nobody"] = discord.person("-".join(names) or "nobody")
            guild.join(person, roles=[self.roles[name] for name in names])
        self.people |= {"ana": self.room.ana, "mo": self.room.mo, "head": discord.person("head")}
        guild.join(self.people["head"], roles=[self.roles["heads"]])
        self.people["landlord"] = guild.owner

    def build(self) -> None:
        """Rooms."""
        guild, general = self.room.guild, self.room.general
        forum = guild.forum("questions", tags=["solved"])
        rooms = {
            "general": general,
            "mods": self.closed("mods", "mods"),
            "vips": self.closed("vips", "vips"),
            "mods and vips": self.closed("mods-and-vips", "mods", "vips"),
            "ana's": self.closed("anas"),
            "adult": guild.channel("adult", nsfw=True),
            "voice": guild.channel("voice", "voice"),
            "no muted": guild.channel("no-muted"),
            "mods, no muted": self.closed("mods-no-muted", "mods"),
            "no history": guild.channel("no-history"),
            "not mo": guild.channel("not-mo"),
            "locked voice": guild.channel("locked", "voice"),
            "news": guild.channel("news", "news"),
        }
        rooms["ana's"].overwrite(self.room.ana, allow=SPEAK)
        rooms["no muted"].overwrite(self.roles["muted"], deny=P.VIEW_CHANNEL)
        rooms["mods, no muted"].overwrite(self.roles["muted"], deny=P.VIEW_CHANNEL)
        rooms["no history"].overwrite(guild.everyone, deny=P.READ_MESSAGE_HISTORY)
        rooms["no history"].overwrite(self.room.discord.bot, allow=SPEAK)
        rooms["locked voice"].overwrite(self.room.discord.bot, allow=SPEAK)
        rooms["locked voice"].overwrite(guild.everyone, deny=P.CONNECT)
        rooms["not mo"].overwrite(self.room.mo, deny=P.VIEW_CHANNEL)
        rooms["thread"] = guild.thread(general, "thread", owner=guild.owner)
        rooms["mods' thread"] = guild.thread(rooms["mods"], "mods-thread", owner=guild.owner)
        members = [self.room.discord.bot, self.room.mo, self.room.ana]
        rooms["private"] = guild.thread(general, "private", owner=guild.owner, private=True, members=members)
        others = {
            "hidden": self.closed("hidden", bot=False),
            "unread by the bot": guild.channel("unread", deny_bot=P.READ_MESSAGE_HISTORY),
            "asleep": guild.thread(general, "asleep", owner=guild.owner),
            "private asleep": guild.thread(
                general, "private-asleep", owner=guild.owner, private=True, members=members
            ),
            "the mods' asleep": guild.thread(rooms["mods"], "mods-asleep", owner=guild.owner),
        }
        self.rooms, self.places = rooms, rooms | others
        self.forum = forum

    def closed(self, name: str, *roles: str, bot: bool = True) -> FakeChannel:
        """A channel for some roles, of which the bot knows."""
        channel = self.room.guild.channel(name)
        for role in roles:
            channel.overwrite(self.roles[role], allow=READING)
        if bot:
            channel.overwrite(self.room.discord.bot, allow=SPEAK)
        channel.overwrite(self.room.guild.everyone, deny=P.VIEW_CHANNEL)
        return channel

    async def write(self) -> None:
        """In each place a secret, and a post in the forum."""
        owner = self.room.guild.owner
        for name, place in self.places.items():
            place.pin(await place.say(owner, f"the secret of {name}"))
        for place in self.places.values():
            if "asleep" in place.name:
                place.update(archived=True)
        self.places["post"] = self.rooms["post"] = await self.forum.post(owner, "post", "the secret of post")

    # Who may know of what, by the server's own reckoning.

    def reads(self, person: User, place: FakeChannel) -> bool:
        needed = READING | (P.CONNECT if place.type == 2 else P(0))
        return in_channel(place, person) & needed == needed

    def audience(self, place: FakeChannel) -> list[User]:
        """Whoever sees what is said there; of a private thread whoever may be let in."""
        there = place.parent if place.private and place.parent else place
        return [each for each in self.people.values() if in_channel(there, each) & P.VIEW_CHANNEL]

    def may_tell(self, place: FakeChannel, here: FakeChannel, askers: tuple[User, ...]) -> bool:
        """The promise: all who ask, all who read along and the bot may read it; and what is private stays."""
        readers = [*askers, self.room.discord.bot, *(() if place.private else self.audience(here))]
        if place.private and place is not here:
            return False
        room, mine = place.parent or place, here.parent or here
        if place.private and not all(self.reads(each, room) for each in self.audience(here)):
            return False
        return all(self.reads(each, place) for each in readers) and (mine.nsfw or not room.nsfw)


@asynccontextmanager
async def town_of(room: Room) -> AsyncIterator[Town]:
    town = Town(room)
    town.settle()
    town.build()
    await town.write()
    yield town


@pytest.fixture(params=["searched", "read through"])
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    async with reading_room() as room, town_of(room) as town:
        if request.param == "read through":
            room.discord.fail("GET", SEARCH, 404, times=None)
            town.searched = False
        yield town


def in_the_name_of(*people: User) -> Asker:
    return Asker(tuple(str(person.id) for person in people))


async def test_in_every_room_everybody_is_told_what_all_there_may_read_and_nothing_else(town: Town) -> None:
    counted = told_of = 0
    for number, here in enumerate(town.rooms.values()):
        archive = await archive_of(town, here)
        there = [each for each in town.people.values() if in_channel(here, each) & P.VIEW_CHANNEL]
        every = [*((each,) for each in town.people.values()), *list(combinations(there, 2))[:6]]
        if not town.searched and not here.private:  # by whom is the same for both: in every room others ask
            every = every[number % 5 :: 5]
        for askers in every:
            counted += 1
            found = await archive.search(ArchiveQuery("secret", limit=25), in_the_name_of(*askers))
            told = {each.text.removeprefix("the secret of ") for each in found.messages}
            wanted = {name for name, place in town.places.items() if town.may_tell(place, here, askers)}
            if not town.searched:  # only what is awake is read through
                wanted -= {"asleep", "the mods' asleep"}
            assert told == wanted, (here, askers, told ^ wanted)
            told_of += len(told)
    assert counted > (200 if town.searched else 50)
    assert told_of > 150


async def archive_of(town: Town, here: FakeChannel) -> Archive:
    """The archive of a room; the owner, who gets in everywhere, has the bot called there."""
    message = await here.say(town.room.guild.owner, f"{town.room.discord.bot.mention} well?")
    received = town.room.backend.received
    await until(lambda: any(heard.id == str(message.id) for heard, _ in received))
    channel = next(channel for heard, channel in received if heard.id == str(message.id))
    assert channel.archive is not None
    return channel.archive


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 8))]
)
async def test_however_a_server_is_furnished_nobody_is_told_what_somebody_there_may_not_read(
    seed: int,
) -> None:
    async with reading_room() as room:
        town = Town(room)
        furnish(town, random.Random(seed))
        for name, place in town.places.items():
            await place.say(room.guild.owner, f"the secret of {name}")
        told_of = 0
        for here in town.rooms.values():
            archive = await archive_of(town, here)
            for asker in town.people.values():
                found = await archive.search(ArchiveQuery("secret", limit=25), in_the_name_of(asker))
                for each in found.messages:
                    place = town.places[each.text.removeprefix("the secret of ")]
                    assert town.may_tell(place, here, (asker,)), (here, asker, place)
                    told_of += 1
        assert told_of > 50


def furnish(town: Town, dice: random.Random) -> None:
    """People with any roles, and rooms that allow and deny anything to anybody."""
    room, guild = town.room, town.room.guild
    bits = (P(0), P(0), P.VIEW_CHANNEL, READING, P.READ_MESSAGE_HISTORY, READING | P.CONNECT)
    roles = [guild.role(f"role-{number}", dice.choice(bits)) for number in range(3)]
    roles.append(guild.role("heads", P.ADMINISTRATOR))
    town.people = {"mo": room.mo, "ana": room.ana, "landlord": guild.owner}
    for number in range(5):
        person = town.people[str(number)] = room.discord.person(f"person-{number}")
        guild.join(person, roles=[role for role in roles if dice.random() < 0.3])
    likely = {guild.everyone: 0.5} | dict.fromkeys(roles, 0.5) | dict.fromkeys([room.mo, room.ana], 0.15)
    for number in range(14):
        here = guild.channel(f"room-{number}", "voice" if number % 5 == 4 else "text", nsfw=number % 6 == 5)
        here.overwrite(room.discord.bot, allow=SPEAK)  # before the others: it is to hear of them
        for each, share in likely.items():
            if dice.random() < share:
                allowed = dice.choice(bits)
                here.overwrite(each, allow=allowed, deny=dice.choice(bits) & ~allowed)
        town.places[here.name] = town.rooms[here.name] = here


@pytest.mark.parametrize("town", ["searched"], indirect=True)
async def test_a_place_that_may_not_be_read_and_one_that_is_not_there_are_told_of_in_the_same_words(
    town: Town,
) -> None:
    nowhere = str(town.room.discord.world.ids.next())
    for room, here in enumerate(town.rooms.values()):
        archive = await archive_of(town, here)
        askers = in_the_name_of(*[each for each in (town.room.ana,) if in_channel(here, each)])
        if not askers.people:
            continue
        for number, (name, place) in enumerate(town.places.items()):
            link = f"https://discord.com/channels/{town.room.guild.id}/{place.id}/{place.last_message_id}"
            forms = (place.name, str(place.id), place.mention, link)
            meant = forms[(room + number) % 4]  # in turn, all of them
            told = await read(archive, meant, askers)
            may = town.may_tell(place, here, (town.room.ana,))
            may = may and not (place.archived and meant == place.name)  # which nobody tells of
            assert (f"the secret of {name}" in told) is may, (here, name, meant, told)
            if not may:
                assert told == [NOT_HERE], (here, name, meant)
        for meant in ("nowhere", nowhere, f"<#{nowhere}>", f"https://discord.com/channels/1/{nowhere}/1"):
            assert await read(archive, meant, askers) == [NOT_HERE]


async def read(archive: Archive, where: str, asking: Asker) -> list[str]:
    """What is told of a place: the texts of what stands there and is pinned there; or why nothing is."""
    told = []
    for look in (archive.read(where, asking, way="around", limit=25), archive.pins(where, asking, limit=25)):
        try:
            told += [each.text for each in (await look).messages]
        except ChannelError as error:
            told.append(str(error))
    return list(dict.fromkeys(told))
