"""What holds for every test of the Discord bot, and the servers that most of them play on."""

from collections.abc import AsyncIterator, Iterator
from unittest import mock

import pytest

from pixi.channels.discord import requests
from pixi.channels.discord.gateway import client, patches
from tests.channels.discord.backend import RecordingBackend
from tests.channels.discord.commands import Stage, stage
from tests.channels.discord.plain_server import PlainServer, plain_server
from tests.channels.discord.room import Room, room_of
from tests.channels.discord.scene import Scene, scene_with


@pytest.fixture(autouse=True)
def _no_idle_waiting() -> Iterator[None]:
    """All guilds of a test come at once, and its server lets sessions and connections begin at once;
    what is tried again is tried soon."""
    with (
        mock.patch.multiple(client, _LAST_GUILD=0.02, _BETWEEN_SESSIONS=0.0),
        mock.patch.object(patches, "_AT_ONCE", 0.0),
        mock.patch.object(requests, "_FIRST_PAUSE", 0.01),
    ):
        yield


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with room_of(RecordingBackend()) as made:
        yield made


@pytest.fixture
async def here() -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scene_with(monkeypatch) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[PlainServer]:
    async with plain_server() as made:
        yield made
