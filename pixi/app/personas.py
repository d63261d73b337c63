"""Personas: those that a bot can be, and the one of a talk, read again when their files change."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pixi.app.addons import load_memory, with_addon
from pixi.core.errors import ConfigError, PixiError, Reporter
from pixi.core.persona import Persona
from pixi.personas.files import LoadedPersona, list_personas, persona_folders
from pixi.personas.files import find_persona as find_in_folders
from pixi.settings import Settings

if TYPE_CHECKING:
    from pixi.addons.loading import AddonContents
    from pixi.app.databases import DatabasePool
    from pixi.engine.engine import Engine
    from pixi.store.store import Store


class PersonaSet(Struct, frozen=True):
    """A set of personas.

    Attributes:
        personas: by the names of their files, without the ending.
        default: the name of the one who speaks where nobody chose another.
        faults: what is wrong with files that are left out, each with its place and mend.
    """

    personas: Mapping[str, Persona]
    default: str
    faults: tuple[str, ...]


def find_persona(settings: Settings) -> Persona:
    """Return the persona that the settings name.

    Raises:
        ConfigError: there is none of that name, or its file is broken.
    """
    return find_in_folders(settings.persona.default, folders_of(settings))


def folders_of(settings: Settings) -> tuple[Path, ...]:
    """Return the folders in which personas are looked for.

    Raises:
        ConfigError: the folder that somebody named is not there.
    """
    folders = persona_folders(settings.persona.folder, must_exist="persona.folder" in settings.sources)
    if not settings.addons:
        return folders
    from pixi.addons.loading import personas_of

    return (*folders, *personas_of(settings.addons))


def read_personas(settings: Settings, before: PersonaSet | None = None) -> PersonaSet:
    """Read all personas.

    Args:
        settings: where they are, and who is the default.
        before: who there was until now: a persona whose file is broken stays as it was.

    Raises:
        ConfigError: the default persona is missing or broken and was not there before, or the folder that
            somebody named is not there.
    """
    known = before.personas if before else {}
    found = list_personas(folders_of(settings))
    personas: dict[str, Persona] = {}
    faults: list[str] = []
    for each in found:
        if isinstance(each, LoadedPersona):
            personas[each.path.stem] = each.persona
        else:
            faults.extend(each.faults)
            if each.path.stem in known:
                personas[each.path.stem] = known[each.path.stem]
    try:
        default = find_persona(settings)
    except ConfigError as error:
        name = _name_among(known, settings.persona.default)
        if not name:
            raise
        personas[name] = known[name]
        return PersonaSet(personas, name, tuple(dict.fromkeys([*faults, *error.faults])))
    name = next((name for name, persona in personas.items() if persona == default), "")
    if not name:  # named by its path, outside of the folders
        name = Path(settings.persona.default).stem
        personas[name] = default
    return PersonaSet(personas, name, tuple(faults))


def fitting(
    persona_set: PersonaSet, check: Callable[[Persona], None], before: PersonaSet | None = None
) -> PersonaSet:
    """Return those of a set who could answer.

    Args:
        persona_set: as it was read.
        check: raises `ConfigError` for a persona that asks for what there is not.
        before: who there was until now: a persona that could not answer stays as it was.

    Raises:
        ConfigError: the default persona could not answer, and was not there before.
    """
    known = before.personas if before else {}
    personas: dict[str, Persona] = {}
    faults = list(persona_set.faults)
    for name, persona in persona_set.personas.items():
        try:
            check(persona)
        except ConfigError as error:
            if name in known:
                personas[name] = known[name]
            elif name == persona_set.default:
                raise
            faults.extend(error.faults)
        else:
            personas[name] = persona
    return PersonaSet(personas, persona_set.default, tuple(dict.fromkeys(faults)))


def _name_among(known: Mapping[str, Persona], wanted: str) -> str:
    """Return the name of a file by it or by the name of the persona; "" if there is none."""
    keys = (wanted.casefold(), Path(wanted).stem.casefold())
    names = (name for name, each in known.items() if name.casefold() in keys or each.name.casefold() in keys)
    return next(names, "")


class PersonaFollower:
    """Lets a persona answer in an engine, and keeps it to what its file says.

    Args:
        engine: where it answers.
        store: where what it remembers is kept.
        library: where its databases are.
        loaded: addons that were named at this start: it has what they bring, whatever its file says.
    """

    def __init__(
        self, engine: "Engine", store: "Store", library: "DatabasePool", loaded: "Sequence[AddonContents]"
    ) -> None:
        self._engine = engine
        self._store = store
        self._library = library
        self._loaded = loaded
        self._read: Persona | None = None  # as its file says

    async def open(self, persona: Persona, remark: Reporter) -> None:
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

    async def follow(self, settings: Settings, remark: Reporter) -> None:
        """Read the file again whenever it changes, until cancelled. A mistake changes nothing.

        Args:
            settings: which persona it is, and where personas are.
            remark: told in a line what changed, or why nothing did.
        """
        # Imported here: a talk begins without them.
        from pixi.documents.watching import WatchedPaths, changes

        named = Path(settings.persona.default)
        files = (named.expanduser(),) if named.suffix.lower() == ".md" else ()  # noqa: ASYNC240 - no file is read
        watched = WatchedPaths(files, folders_of(settings))
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
