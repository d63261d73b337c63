"""The personas that a bot can be: by the names of their files, read again while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.core.persona import Persona
from pixi.personas.files import LoadedPersona
from pixi.personas.shelf import find_persona as find_on_shelf
from pixi.personas.shelf import list_personas, persona_folders
from pixi.settings import Settings


@dataclass(frozen=True, slots=True)
class Cast:
    """Who there is.

    Attributes:
        personas: by the names of their files, without the ending.
        default: the name of the one who speaks where nobody chose another.
        faults: what is wrong with files that are left out, each with its place and mend.
    """

    personas: Mapping[str, Persona]
    default: str
    faults: tuple[str, ...]


def find_persona(settings: Settings) -> Persona:
    """The persona that the settings name.

    Raises:
        ConfigError: there is none of that name, or its file is broken.
    """
    return find_on_shelf(settings.persona.default, folders_of(settings))


def folders_of(settings: Settings) -> tuple[Path, ...]:
    """Where personas are looked for.

    Raises:
        ConfigError: the folder that somebody named is not there.
    """
    folders = persona_folders(settings.persona.folder, must_exist="persona.folder" in settings.sources)
    if not settings.addons:
        return folders
    from pixi.addons.loading import personas_of

    return (*folders, *personas_of(settings.addons))


def read_cast(settings: Settings, before: Cast | None = None) -> Cast:
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
        return Cast(personas, name, tuple(dict.fromkeys([*faults, *error.faults])))
    name = next((name for name, persona in personas.items() if persona == default), "")
    if not name:  # named by its path, outside of the folders
        name = Path(settings.persona.default).stem
        personas[name] = default
    return Cast(personas, name, tuple(faults))


def fitting(cast: Cast, check: Callable[[Persona], None], before: Cast | None = None) -> Cast:
    """Those of a cast who could answer.

    Args:
        cast: as it was read.
        check: raises `ConfigError` for a persona that asks for what there is not.
        before: who there was until now: a persona that could not answer stays as it was.

    Raises:
        ConfigError: the default persona could not answer, and was not there before.
    """
    known = before.personas if before else {}
    personas: dict[str, Persona] = {}
    faults = list(cast.faults)
    for name, persona in cast.personas.items():
        try:
            check(persona)
        except ConfigError as error:
            if name in known:
                personas[name] = known[name]
            elif name == cast.default:
                raise
            faults.extend(error.faults)
        else:
            personas[name] = persona
    return Cast(personas, cast.default, tuple(dict.fromkeys(faults)))


def _name_among(known: Mapping[str, Persona], wanted: str) -> str:
    """The name of a file by it or by the name of the persona; "" if there is none."""
    keys = (wanted.casefold(), Path(wanted).stem.casefold())
    names = (name for name, each in known.items() if name.casefold() in keys or each.name.casefold() in keys)
    return next(names, "")
