"""The screen Databases: folders of documents, how far each was read, and what a model finds in them."""

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from pixi.app.databases import DatabaseState, broken, database_refs, folders_of, inspect_open
from pixi.app.service import BotService
from pixi.app.studio.rows import operator_route
from pixi.core.errors import ConfigError, PixiError
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.untrusted import display_path
from pixi.knowledge.registry import DatabaseRef

if TYPE_CHECKING:
    from pixi.knowledge.database import DirectoryDatabase

_LIST = "/api/studio/databases"
_ONE = f"{_LIST}/{{name}}"

_MOST_FAULTS = 500


class SetAsideFile(Struct):
    """A file that could not be read, and why."""

    file: str
    reason: str


class DatabaseForm(Struct):
    """A database as `pixi-persona databases --json` tells of it, and how far reading is.

    Attributes:
        state: in a word or a few.
        trouble: why it cannot be read at all.
        faults: files that were set aside, the first 500.
        set_aside: how many those are in all.
        shipped: it came with Pixi.
        done, total: files that were read, of those that were new or changed at the last look.
        finished: nothing is left to read.
        personas: names of files of personas that look things up in it.
    """

    name: str
    title: str
    about: str
    folder: str
    tools: list[str]
    entries: int
    files: int
    bytes: int
    state: str
    trouble: str | None
    passed_over: dict[str, int]
    faults: list[SetAsideFile]
    set_aside: int
    shipped: bool
    done: int
    total: int
    finished: bool
    personas: list[str]


class DatabaseList(Struct):
    """The databases that the settings allow. `folder`: where the operator's own lie."""

    databases: list[DatabaseForm]
    folder: str


class SearchRequest(Struct, forbid_unknown_fields=True):
    """Search as a model would."""

    query: Annotated[str, Meta(min_length=1, max_length=2_000)]
    limit: Annotated[int, Meta(ge=1, le=100)] = 8


class QueryRequest(Struct, forbid_unknown_fields=True):
    """Have entries read for a question, as a model would. `ids`: which; none: the best that are found."""

    question: Annotated[str, Meta(min_length=1, max_length=2_000)]
    ids: Annotated[list[int], Meta(max_length=50)] = []


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the routes."""
    screen = _DatabasesScreen(service)
    return (
        operator_route("GET", _LIST, screen.list, "List the databases"),
        operator_route("POST", f"{_ONE}/search", screen.search, "Search a database, as a model does"),
        operator_route("POST", f"{_ONE}/query", screen.query, "Have a database read for a question"),
    )


class _DatabasesScreen:
    """Answers the routes. A database that somebody looks at is opened, and followed from then on."""

    def __init__(self, service: BotService) -> None:
        self._service = service

    async def list(self, caller: Caller, asked: None) -> DatabaseList:
        """Answer with all databases."""
        settings = self._service.settings
        try:
            refs = await asyncio.to_thread(database_refs, settings)
            folder = display_path(folders_of(settings)[0])
        except ConfigError as error:
            raise RouteError(409, "The folder cannot be read", str(error)) from error
        return DatabaseList([await self._form(each) for each in refs], folder)

    async def search(self, caller: Caller, asked: SearchRequest) -> dict[str, Any]:
        """Answer with what a model gets from a search."""
        from pixi.addons.knowledge import search_result

        database = await self._opened(caller.path["name"])
        return await search_result(database, asked.query, asked.limit)

    async def query(self, caller: Caller, asked: QueryRequest) -> AsyncGenerator[dict[str, Any], None]:
        """Yield how far reading is, as `progress`; then what a model gets, as `result`."""
        from pixi.addons.knowledge import query_result

        database = await self._opened(caller.path["name"])
        if spent := await self._service.overspent():
            raise RouteError(429, "Spent", spent)
        latest = ""  # line of progress that was not told yet
        more = asyncio.Event()

        def progress(line: str) -> None:
            nonlocal latest
            latest = line
            more.set()

        reader = await self._service.library.reader()
        work = asyncio.ensure_future(
            query_result(
                database,
                reader,
                asked.question,
                asked.ids,
                self._service.engine.count,
                seconds=math.inf,
                progress=progress,
            )
        )
        work.add_done_callback(lambda _: more.set())
        try:
            while not work.done():
                await more.wait()
                more.clear()
                if latest and not work.done():
                    line, latest = latest, ""
                    yield {"event": "progress", "text": line}
            yield {"event": "result", "result": work.result()}
        except PixiError as error:
            yield {"event": "error", "text": str(error)}
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _opened(self, name: str) -> "DirectoryDatabase":
        """Open a database by the name of its folder.

        Raises:
            RouteError: there is none, or it cannot be opened.
        """
        library = self._service.library
        try:
            found = await asyncio.to_thread(library.find, name)
        except ConfigError as error:
            raise RouteError(404, "No such database", str(error)) from error
        try:
            await library.want([found.name])
        except PixiError as error:
            if found.name not in library.databases:
                raise RouteError(409, "It cannot be opened", str(error)) from error
            # It is open, and who reads entries out is not there: a search needs nobody.
        return library.databases[found.name]

    async def _form(self, ref: DatabaseRef) -> DatabaseForm:
        try:
            database = await self._opened(ref.name)
        except RouteError as error:
            return self._told(await broken(ref, error), 0, 0, finished=False)
        inspected = await inspect_open(ref, database)
        state = database.state
        return self._told(inspected, state.done, state.total, finished=state.finished)

    def _told(self, found: DatabaseState, done: int, total: int, *, finished: bool) -> DatabaseForm:
        form = found.to_json()
        faults = [SetAsideFile(**each) for each in form.pop("faults")]
        name = found.ref.name.casefold()
        personas = []
        for file, persona in self._service.personas.items():
            if name in (each.casefold() for each in persona.databases):
                personas.append(file)
        return DatabaseForm(
            **form,
            faults=faults[:_MOST_FAULTS],
            set_aside=len(faults),
            shipped=found.ref.shipped,
            done=done,
            total=total,
            finished=finished,
            personas=personas,
        )
