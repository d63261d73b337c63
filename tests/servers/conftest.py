"""The Discord of a test."""

from collections.abc import AsyncIterator

import pytest

from pixi.testing.discord import LoopbackDiscord


@pytest.fixture
async def server() -> AsyncIterator[LoopbackDiscord]:
    async with LoopbackDiscord() as made:
        yield made
