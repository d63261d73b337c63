"""A server with things written in it, and the archive of whoever asks somewhere in it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pixi.core.channel import Archive, ArchiveQuery, Asker, FoundMessages
from pixi.testing.discord import FakeChannel, User
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.room import Room, room_of

SEARCH = r"/messages/search$"


@asynccontextmanager
async def reading_room() -> AsyncIterator[Room]:
    """A server whose history may be looked up."""
    backend = RecordingBackend()
    backend.obey(read_history=True)
    async with room_of(backend) as room:
        yield room


@dataclass
class Desk:
    """Where somebody asks."""

    archive: Archive
    asking: Asker

    async def search(self, words: str, place: str = "", *, limit: int = 25, **more: Any) -> FoundMessages:
        query = ArchiveQuery(words, place, limit=limit, **more)
        return await self.archive.search(query, self.asking)

    async def texts(self, words: str, place: str = "", **more: Any) -> set[str]:
        """What is found."""
        return {each.text for each in (await self.search(words, place, **more)).messages}


async def desk(room: Room, where: FakeChannel, people: Sequence[User] = ()) -> Desk:
    """Mo asks there; in the name of others, where they are named. All before that was heard of."""
    channel, message = await room.asked("well?", where=where)
    assert channel.archive is not None
    asking = Asker(tuple(str(person.id) for person in people or (room.mo,)), message)
    return Desk(channel.archive, asking)
