"""All of an engine is in the event loop but its store, so its tests hold the clock."""

import pytest


@pytest.fixture(autouse=True)
def _held(request: pytest.FixtureRequest) -> None:
    """Hold the clock, except where a server is waited for."""
    if request.node.get_closest_marker("asyncio") and "postgres" not in request.fixturenames:
        request.getfixturevalue("clock")
