"""The personas that a bot can be: by the names of their files, read again while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pixi.core.persona import Persona
from pixi.personas.files import Loaded
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
    named = "persona.folder" in settings.sources
    folders = persona_folders(settings.persona.folder, must_exist=named)
    return find_on_shelf(settings.persona.default, folders)


def read_cast(settings: Settings) -> Cast:
    """Read all personas.

    Raises:
        ConfigError: the default persona is missing or broken, or the folder that somebody named is not there.
    """
    default = find_persona(settings)
    folders = persona_folders(settings.persona.folder, must_exist="persona.folder" in settings.sources)
    found = list_personas(folders)
    personas = {each.path.stem: each.persona for each in found if isinstance(each, Loaded)}
    name = next((name for name, persona in personas.items() if persona == default), "")
    if not name:  # named by its path, outside of the folders
        name = Path(settings.persona.default).stem
        personas[name] = default
    faults = tuple(each.fault for each in found if not isinstance(each, Loaded))
    return Cast(personas, name, faults)
