"""What holds for every test of the Discord bot."""

from collections.abc import Iterator
from unittest import mock

import pytest

from pixi.channels.discord import requests
from pixi.channels.discord.gateway import client, patches


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
