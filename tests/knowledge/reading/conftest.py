from collections.abc import AsyncIterator

import pytest

from pixi.knowledge.reading import Readers


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    async with Readers(workers=1) as readers:
        yield readers
