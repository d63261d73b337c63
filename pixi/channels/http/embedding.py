"""The talk in a frame of somebody's page: who may frame it, and how a visitor of that page gets in.

The page in the frame is this server's own, so what a browser says of where a request comes from tells nothing
of the page around it. That is told to the browser instead, which holds to it: `frame-ancestors` names the
origins of the publishable key, and nobody else's page shows the frame at all. By itself, in a tab of its own,
the page is not served: there the key was made for nobody.
"""

from aiohttp import web

from pixi.channels.http.backend import Backend
from pixi.channels.http.pages import StaticFiles
from pixi.channels.http.problems import PLAIN, Problem
from pixi.channels.http.visitors import Visitors

_FRAMES = ("iframe", "frame")


class Embeds:
    """Serves the page in the frame.

    Args:
        pages: has it.
        visitors: knows publishable keys.
        backend: knows personas.
    """

    def __init__(self, pages: StaticFiles, visitors: Visitors, backend: Backend) -> None:
        self._pages = pages
        self._visitors = visitors
        self._backend = backend

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Answer with the page for a persona, to be framed by pages of the key alone.

        Raises:
            Problem: 401, the key does not hold; 403, it would stand in no frame; 404, there is no such
                persona for it.
        """
        request[PLAIN] = True  # it is a person who reads it
        # Browsers without this header are held to `frame-ancestors` all the same.
        if request.headers.get("Sec-Fetch-Dest", _FRAMES[0]) not in _FRAMES:
            raise Problem(403, "Only in a frame", "This page stands in frames of others; see docs/widget.md.")
        key = await self._visitors.found(request.query.get("key", ""))
        persona = request.match_info["persona"]
        if persona not in self._backend.personas or (key.personas and persona not in key.personas):
            raise Problem(404, "No such persona", "There is no persona of that name for this key.")
        return self._pages.document(request, "talk/embed.html", key.origins)
