"""The persona of a talk: what it names is opened, and its file is read again when it changes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pixi.app.addons import load_memory, with_addon
from pixi.app.cast import find_persona, folders_of
from pixi.core.errors import PixiError
from pixi.core.persona import Persona
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.addons.loading import AddonContents
    from pixi.app.library import Library
    from pixi.engine.engine import Engine
    from pixi.store.store import Store

Tell = Callable[[str], None]


class TalkPersona:
    """Lets a persona answer in an engine, and keeps it to what its file says.

    Args:
        engine: where it answers.
        store: where what it remembers is kept.
        library: where its databases are.
        loaded: addons that were named at this start: it has what they bring, whatever its file says.
    """

    def __init__(
        self, engine: "Engine", store: "Store", library: "Library", loaded: "Sequence[AddonContents]"
    ) -> None:
        self._engine = engine
        self._store = store
        self._library = library
        self._loaded = loaded
        self._read: Persona | None = None  # as its file says

    async def open(self, persona: Persona, remark: Tell) -> None:
        """Open what a persona names, and let it answer from now on.

        Raises:
            PixiError: something cannot be opened.
        """
        engine, library = self._engine, self._library
        self._read = persona
        for contents in self._loaded:
            persona = with_addon(contents, persona, engine, remark)
        if persona.tools and engine.tools.get("remember") is None:
            await load_memory(self._store, engine)
        await library.want(persona.databases)
        if engine.model.traits.tools:
            library.register(engine.addon)
        else:
            library.announce(engine.tools)
        engine.persona = persona

    @asynccontextmanager
    async def following(self, settings: Settings, remark: Tell) -> AsyncGenerator[None, None]:
        """Read the file again whenever it changes, as long as the block lasts. A mistake changes nothing.

        Args:
            settings: which persona it is, and where personas are.
            remark: told in a line what changed, or why nothing did.
        """
        task = asyncio.create_task(self._follow(settings, remark))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _follow(self, settings: Settings, remark: Tell) -> None:
        # Imported here: a talk begins without them.
        from pixi.app.watching import Watched, changes

        named = Path(settings.persona.default)
        files = (named.expanduser(),) if named.suffix.lower() == ".md" else ()  # noqa: ASYNC240 - no file is read
        watched = Watched(files, folders_of(settings))
        async with aclosing(changes(lambda: watched)) as changed:
            async for _ in changed:
                before, engine = self._engine.persona, self._engine
                try:
                    persona = await asyncio.to_thread(find_persona, settings)
                    if persona != self._read:
                        self._library.check(persona)
                        await self.open(persona, lambda _: None)
                        engine.check(engine.persona)
                        remark(f"{persona.name}'s file changed: it counts from the next reply on.")
                except PixiError as error:
                    engine.persona = before
                    remark(f"{' '.join(str(error).split())} Until then the persona stays as it was.")
