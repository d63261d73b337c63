"""The studio: what operators see and do on pages of the server, as routes over the bot's service."""

from collections.abc import Sequence

from pixi.app.service import BotService
from pixi.app.studio import databases, health, live, mcp, people, persona, talks, usage, why
from pixi.core.routes import AddonRoute

_SCREENS = (
    live.routes,
    why.routes,
    persona.routes,
    live.queue_routes,
    talks.routes,
    people.routes,
    people.memory_routes,
    databases.routes,
    usage.routes,
    health.routes,
    mcp.routes,
)


def studio_routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes of all screens."""
    return tuple(route for routes in _SCREENS for route in routes(service))
