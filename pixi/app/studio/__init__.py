"""The studio: what operators see and do on pages of the server, as routes over the household."""

from collections.abc import Sequence

from pixi.app.household import Household
from pixi.app.studio import databases, health, live, mcp, memory, people, persona, queue, talks, usage, why
from pixi.core.routes import AddonRoute

_SCREENS = (live, why, persona, queue, talks, people, memory, databases, usage, health, mcp)


def studio_routes(house: Household) -> Sequence[AddonRoute]:
    """Return the routes of all screens."""
    return tuple(route for screen in _SCREENS for route in screen.routes(house))
