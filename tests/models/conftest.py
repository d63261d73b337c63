"""Models that are closed when the test ends."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pixi.models.dialects.dialect import Dialect
from pixi.models.server_model import ServerModel
from tests.models.doors import QUICK, MakeModel
from tests.servers.scripted_openai import ScriptedOpenAI


@pytest.fixture
def dialect() -> type[Dialect] | None:
    """How the models of a module's tests are spoken with; None: as chat completions."""
    return None


@pytest.fixture
async def make(dialect: type[Dialect] | None) -> AsyncIterator[MakeModel]:
    """Makes models at a scripted server."""
    models: list[ServerModel] = []

    def make_model(server: ScriptedOpenAI, **settings: Any) -> ServerModel:
        spoken = dialect() if dialect is not None else None
        settings.setdefault("retries", QUICK)
        models.append(ServerModel("scripted", spoken, base_url=server.base_url, **settings))
        return models[-1]

    yield make_model
    for model in models:
        await model.close()
