"""The studio: what operators see and do on pages of the server, as routes over the household."""

from collections.abc import Callable, Sequence

from pixi.app.household import Household
from pixi.app.studio import databases, health, mcp, persona
from pixi.core.routes import AddonRoute

_SCREENS: tuple[Callable[[Household], Sequence[AddonRoute]], ...] = (
    persona.routes,
    databases.routes,
    health.routes,
    mcp.routes,
)


def studio_routes(house: Household) -> Sequence[AddonRoute]:
    """Return the routes of all screens."""
    return tuple(route for routes in _SCREENS for route in routes(house))
