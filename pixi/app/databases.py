"""The databases that personas name: found, opened, searched for a persona, and looked at without opening."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from pixi.app.models import ModelPool
from pixi.core.errors import ConfigError, Reporter, silent
from pixi.core.persona import Persona
from pixi.core.spending import Count
from pixi.core.stamps import Citation
from pixi.core.untrusted import display_path
from pixi.knowledge.registry import DatabaseRef, database_folders, databases_in, find_database, source_of
from pixi.models.breaker import Breakers
from pixi.settings import EmbeddingSettings, Settings

if TYPE_CHECKING:
    from pixi.knowledge.database import DirectoryDatabase
    from pixi.knowledge.entry import Fault, Source
    from pixi.knowledge.retrieval import RetrievalAgent
    from pixi.models.embeddings import OpenAIEmbeddings
    from pixi.models.model import Model
    from pixi.toolbox.addon import Addon
    from pixi.toolbox.tools import Toolbox

_HELPER = "helper"
_MOST_CITED = 3  # passages of one database that are shown to a model unasked


class DatabasePool:
    """Databases by the names of their folders.

    Args:
        settings: where they are, and which model reads them out.
        main: the model that answers; it reads too where the settings name no other for it. None: there is
            none, and what reads is opened by itself.
        follow: whether changes of the files are followed.
        reads: whether there is to be an agent once a database is open.
        progress: told what takes long.
        breakers: those of the servers that this program asks; None: nobody else asks any.

    Attributes:
        count: told what the model of meanings uses; None: nobody records it.
        databases: that are open, by name.
    """

    def __init__(
        self,
        settings: Settings,
        main: "Model | None",
        *,
        follow: bool = False,
        reads: bool = True,
        progress: Reporter,
        breakers: Breakers | None = None,
    ) -> None:
        self._settings = settings
        self._main = main
        self._follow = follow
        self._reads = reads
        self._progress = progress
        self._breakers = breakers or Breakers()
        self.count: Count | None = None
        self.databases: dict[str, DirectoryDatabase] = {}
        self._refs: dict[str, DatabaseRef] = {}
        self._registered: set[str] = set()
        self._helper: ModelPool | None = None
        self._agent: RetrievalAgent | None = None
        self._embedder: OpenAIEmbeddings | None = None
        self._opening = asyncio.Lock()

    @property
    def agent(self) -> "RetrievalAgent":
        """The agent that reads entries out. There is one once a database is open, if there is to be one."""
        assert self._agent is not None
        return self._agent

    def find(self, name: str) -> DatabaseRef:
        """Return the database of a name, open or not; upper and lower case are the same.

        Raises:
            ConfigError: there is none, or the settings do not allow it; the text names the mend.
        """
        folders = folders_of(self._settings)
        found = find_database(name, folders)
        allowed = self._settings.databases.names
        if allowed is not None and found not in databases_in(folders, allowed):
            raise ConfigError(f"`names` of [databases] leaves out the database {found.name!r}; add it there.")
        return found

    def missing(self, persona: Persona) -> list[str]:
        """List what is wrong with the databases that a persona names; each names the nearest, or the mend."""
        faults: list[str] = []
        for name in persona.databases:
            try:
                self.find(name)
            except ConfigError as error:
                faults.extend(error.faults)
        return list(dict.fromkeys(faults))

    def check(self, persona: Persona) -> None:
        """See that there is every database that a persona names.

        Raises:
            ConfigError: some are missing; see `missing`.
        """
        if faults := self.missing(persona):
            who = f"persona {persona.name!r} ({persona.origin or 'in code'})"
            raise ConfigError(*(f"{who}: {fault}" for fault in faults))

    async def want(self, names: Iterable[str]) -> None:
        """Open databases, as far as they exist and are not open. Reading their files goes on beside.

        Raises:
            ConfigError: one cannot be opened, or the model that is to read.
            ModelError: that model's server cannot be asked.
        """
        names = tuple(names)
        async with self._opening:
            if names:  # somebody may be typing already, or be answered
                tools = ("pixi.knowledge.retrieval", "pixi.addons.knowledge") if self._reads else ()
                for part in ("pixi.knowledge.database", *tools):
                    await asyncio.to_thread(importlib.import_module, part)
            for name in names:
                try:
                    ref = await asyncio.to_thread(self.find, name)
                except ConfigError:
                    continue  # `check` tells of it
                if ref.name not in self.databases:
                    await self._open_one(ref)
            if self.databases and self._reads and self._agent is None:
                await self._open_agent()

    def register(self, addon: "Addon") -> None:
        """Register the tools of the databases that are open, as far as they are not registered."""
        if self.databases.keys() <= self._registered:
            return
        from pixi.addons.knowledge import knowledge_of

        for name, database in self.databases.items():
            if name not in self._registered:
                knowledge_of(database, self.agent, self._refs[name].tool)(addon)
                self._registered.add(name)

    def announce(self, toolbox: "Toolbox") -> None:
        """Let personas name the databases that are open, without tools for them."""
        for name in self.databases:
            toolbox.announce(source_of(name))

    async def look_up(self, persona: Persona, text: str) -> tuple[Citation, ...]:
        """Return passages of a persona's databases that surely bear on a message, the best first."""
        wanted = [self.databases[name] for name in persona.databases if name in self.databases]
        found = await asyncio.gather(*(database.sure_passages(text, _MOST_CITED) for database in wanted))
        best = sorted((each for some in found for each in some), key=lambda excerpt: -excerpt.share)
        return tuple(Citation(_told_place(each.source), each.text) for each in best)

    async def reader(self) -> "RetrievalAgent":
        """Return the model that reads long documents for the persona's; it is opened when first wanted.

        Raises:
            PixiError: the model that is to read cannot be opened.
        """
        async with self._opening:
            if self._agent is None:
                await asyncio.to_thread(importlib.import_module, "pixi.knowledge.retrieval")
                await self._open_agent()
            assert self._agent is not None
            return self._agent

    async def helper(self) -> "Model":
        """Return the model that reads what is too long for the one that answers; opened when first wanted.

        Raises:
            PixiError: it cannot be opened.
        """
        async with self._opening:
            return await self._reader(self._settings, self._main)

    async def change(self, settings: Settings, main: "Model") -> None:
        """Go by new settings: what is asked from now on goes to the model that they name for it.

        Raises:
            PixiError: that model cannot be opened. Then everything stays as it was.
        """
        if self._agent is not None:
            self._agent.model = await self._reader(settings, main)
            self._agent.seconds = _seconds(settings)
        here = self._settings  # where databases are, and what is known of meanings, holds from the start
        self._settings = replace(
            settings, databases=here.databases, embedding_model=here.embedding_model, sources=here.sources
        )
        self._main = main

    async def close(self) -> None:
        """Close all of them, and what reads."""
        for database in self.databases.values():
            await database.close()
        self.databases.clear()
        if self._agent is not None:
            await self._agent.close()
        if self._helper is not None:
            await self._helper.close()
        if self._embedder is not None:
            await self._embedder.close()

    async def _open_one(self, ref: DatabaseRef) -> None:
        from pixi.knowledge.database import DirectoryDatabase

        if self._embedder is None and self._settings.embedding_model is not None:
            self._embedder = open_embedder(self._settings.embedding_model, self._breakers, self.count)
        self.databases[ref.name] = await DirectoryDatabase.open(
            ref.folder, name=ref.name, embedder=self._embedder, progress=self._progress, follow=self._follow
        )
        self._refs[ref.name] = ref

    async def _open_agent(self) -> None:
        from pixi.knowledge.retrieval import RetrievalAgent

        self._agent = RetrievalAgent(
            await self._reader(self._settings, self._main),
            cache=_cache() / "answers.db",
            seconds=_seconds(self._settings),
        )

    async def _reader(self, settings: Settings, main: "Model | None") -> "Model":
        """Return the model that reads: the one that answers, unless the settings name another."""
        if main is not None and settings.helper_model == settings.model:
            return main
        chosen = {_HELPER: settings.helper_model}
        if self._helper is None:
            helper = ModelPool(chosen, settings.limits.seconds, self._progress, self._breakers)
            await helper.open_default()
            self._helper = helper
        else:
            await self._helper.exchange(chosen, settings.limits.seconds)
        return self._helper.default


@asynccontextmanager
async def open_library(
    settings: Settings,
    *,
    names: Iterable[str] | None = None,
    main: "Model | None" = None,
    reads: bool = True,
    follow: bool = False,
    progress: Reporter = silent,
    count: Count | None = None,
) -> AsyncGenerator[DatabasePool, None]:
    """Open databases, and close them again whatever happens.

    Args:
        settings: where they are.
        names: which; None: all that there are.
        main: see `DatabasePool`.
        reads: whether the agent is opened, too: it needs a model.
        follow: see `DatabasePool`.
        progress: told what takes long, and "" when nothing does any more.
        count: told what the model of meanings uses.

    Raises:
        ConfigError: one of `names` is not there, or a part cannot be opened.
    """
    library = DatabasePool(settings, main, follow=follow, reads=reads, progress=progress)
    library.count = count
    try:
        if names is None:
            names = [each.name for each in await asyncio.to_thread(database_refs, settings)]
        else:
            names = [library.find(name).name for name in names]
        await library.want(names)
        yield library
    finally:
        await library.close()


def database_refs(settings: Settings) -> list[DatabaseRef]:
    """Return the databases that the settings allow.

    Raises:
        ConfigError: one that they name is not there, or a folder cannot be read.
    """
    return databases_in(folders_of(settings), settings.databases.names)


def folders_of(settings: Settings) -> tuple[Path, ...]:
    """Return the folders in which databases are looked for.

    Raises:
        ConfigError: the folder that somebody named is not there.
    """
    return database_folders(settings.databases.folder, must_exist="databases.folder" in settings.sources)


def open_embedder(
    chosen: EmbeddingSettings, breakers: Breakers | None = None, count: Count | None = None
) -> "OpenAIEmbeddings":
    """Return the model of meanings that the settings name; nothing is asked of it yet.

    Raises:
        ConfigError: its address or its key is nothing to ask with.
    """
    from pixi.models.embeddings import OpenAIEmbeddings

    return OpenAIEmbeddings(
        chosen.name,
        base_url=chosen.base_url,
        api_key=chosen.api_key.reveal() if chosen.api_key else None,
        extra_body=chosen.extra_body,
        breakers=breakers,
        prices=chosen.prices,
        count=count,
    )


def _told_place(source: "Source") -> str:
    """Return the place of a passage as people read it: `ferry.pdf, p. 2`."""
    return f"{source.path}, p. {source.page}" if source.page else source.path


def _seconds(settings: Settings) -> float:
    """Return how long one question may take whose asker does not say."""
    return settings.limits.tool_seconds or settings.limits.seconds


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("pixi-persona")


EACH_SECONDS = 3.0
"""Time for a database to go on reading while somebody waits for a list. What it has read by then is kept."""

ALL_SECONDS = 12.0
"""The same for all of them together."""


class DatabaseState(Struct, frozen=True):
    """State of a database, after a short look.

    Attributes:
        ref: its name and its folder.
        title, about: of its description.
        entries: that were read, now or earlier.
        files, bytes: of documents in the folder.
        waiting: how many of the files are still to be read; None: nobody knows yet.
        faults: files that were set aside.
        passed_over: how many files are no documents, by the ends of their names.
        trouble: why it cannot be opened or read at all; "" where it can.
    """

    ref: "DatabaseRef"
    title: str
    about: str
    entries: int = 0
    files: int = 0
    bytes: int = 0
    waiting: int | None = 0
    faults: "tuple[Fault, ...]" = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    trouble: str = ""

    @property
    def state(self) -> str:
        """Progress of reading, in a word or a few."""
        if self.trouble:
            return "broken"
        if self.waiting is None:
            return "not read yet"
        if self.waiting:
            return f"{self.waiting:,} to read"
        return "ready" if self.files else "empty"

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return {
            "name": self.ref.name,
            "title": self.title,
            "about": self.about,
            "folder": display_path(self.ref.folder),
            "tools": [f"{verb}_{self.ref.tool}_database" for verb in ("search", "query")],
            "entries": self.entries,
            "files": self.files,
            "bytes": self.bytes,
            "state": self.state,
            "trouble": self.trouble or None,
            "passed_over": dict(self.passed_over),
            "faults": [{"file": fault.path, "reason": fault.reason} for fault in self.faults],
        }


async def inspect_all(every: "Sequence[DatabaseRef]", progress: Reporter) -> AsyncIterator[DatabaseState]:
    """Yield the state of each. It takes `ALL_SECONDS` at most, but for counting files."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ALL_SECONDS
    for each in every:
        yield await inspect(each, min(EACH_SECONDS, max(0.0, end - loop.time())), progress)
        progress("")


async def inspect(ref: "DatabaseRef", seconds: float, progress: Reporter) -> DatabaseState:
    """Return the state of a database, after it read what is new in its folder for at most `seconds`."""
    from pixi.knowledge.database import DirectoryDatabase

    try:
        folder = await asyncio.to_thread(_folder, ref)
        database = await DirectoryDatabase.open(ref.folder, name=ref.name, progress=progress)
    except (ConfigError, OSError) as error:
        return await broken(ref, error)
    trouble, finished = "", False
    try:
        async with asyncio.timeout(seconds):
            await database.ready()
        finished = True
    except TimeoutError:
        pass  # told is what it has read by now
    except ConfigError as error:
        trouble = str(error)
    finally:
        found = _state_of(folder, database, finished=finished, trouble=trouble)
        await database.close()
    return found


async def inspect_open(ref: "DatabaseRef", database: "DirectoryDatabase") -> DatabaseState:
    """Return the state of a database that is open, and reads on by itself."""
    try:
        folder = await asyncio.to_thread(_folder, ref)
    except (ConfigError, OSError) as error:
        return await broken(ref, error)
    return _state_of(folder, database, finished=database.state.finished)


async def broken(ref: "DatabaseRef", error: Exception) -> DatabaseState:
    """Return the state of a database that cannot be opened."""
    about = await asyncio.to_thread(ref.describe)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DatabaseState(ref, about.title, about.text, trouble=reason)


def _state_of(
    folder: DatabaseState, database: "DirectoryDatabase", *, finished: bool, trouble: str = ""
) -> DatabaseState:
    state = database.state
    return structs.replace(
        folder,
        entries=database.entries,
        # Without a total it has not come to compare the folder with what it knows.
        waiting=0 if finished else state.total - state.done if state.total else None,
        faults=tuple(fault for fault in database.faults if fault.reason != trouble),
        passed_over=database.passed_over,
        trouble=trouble,
    )


def _folder(ref: "DatabaseRef") -> DatabaseState:
    """Return the state of a database that was not opened: its description, and how many documents it has.

    Raises:
        ConfigError, OSError: it cannot be read.
    """
    from pixi.knowledge.scan import Walk

    about = ref.describe()
    sizes = [seen.size for seen in Walk(ref.folder.resolve()).files()]
    return DatabaseState(ref, about.title, about.text, files=len(sizes), bytes=sum(sizes))
