"""Looks at a model for `doctor`: whether it is there to be asked."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError, ModelError
from pixi.core.figures import some

if TYPE_CHECKING:
    from pixi.settings import ModelSettings

LISTING_SECONDS = 10.0
"""How long a server may take to list its models."""


async def look_for_models() -> "list[str]":
    """Return a line for each server of this machine that may have models, and one for the keys that are set.

    Only servers of this machine are asked, and for a listing alone.
    """
    from pixi.core.providers import providers_with_key
    from pixi.models.discovery import KNOWN_SERVERS, find_servers, trouble_of
    from pixi.settings.given import variables_in

    lines = []
    for server in await find_servers():
        told = trouble_of(server) or f"has {some(server.models)}: to use it set model.base_url and model.name"
        lines.append(f"{server.kind} at {server.base_url} {told}")
    if not lines:
        looked = ", ".join(f"{each.kind} ({each.port})" for each in KNOWN_SERVERS)
        lines.append(f"no model server on this machine; looked for {looked}")
    keys = [f"{each.title} ({each.key_name})" for each in providers_with_key(variables_in(Path()))]
    if keys:
        lines.append(f"keys of {', '.join(keys)}: set model.base_url and model.name to use one")
    return lines


async def look_at_model(model: "ModelSettings") -> tuple[bool, str]:
    """Whether it is fine, and what it is or what to mend."""
    from pixi.app import runs_here

    try:
        if runs_here(model):
            return True, _found_on_this_machine(model)
        return True, await _found_at_server(model)
    except (ModelError, ConfigError) as error:
        return False, " ".join(str(error).split())


def _found_on_this_machine(model: "ModelSettings") -> str:
    from pixi.models import weights
    from pixi.models.llama import file_traits
    from pixi.models.size import describe

    if find_spec("xllamacpp") is None:
        raise ConfigError("the runtime of local models is missing: pip install 'pixi-persona[local]'")
    is_bundled = model.name == "local"
    path = weights.installed() or weights.cached() if is_bundled else weights.checked(Path(model.name))
    if path is None:
        return f"the bundled one; its {weights.SMOLLM2.megabytes} MB are fetched at the first start"
    size = describe(file_traits(path, parameters=model.parameters, tools=model.tools))
    return f"the bundled one, {path.name} ({size})" if is_bundled else f"{path} ({size})"


async def _found_at_server(model: "ModelSettings") -> str:
    from pixi.app.doors import door_to
    from pixi.models.deadlines import Deadlines

    # Each provider lists its models for its own API; what they all list for chat completions is the same.
    door = door_to(model, model.name, native=True, deadlines=Deadlines(first=LISTING_SECONDS))
    try:
        listed = await door.models()
    finally:
        await door.close()
    host = urlsplit(model.base_url).netloc.rpartition("@")[2]
    if model.name in listed:
        return f"{model.name} at {host} ({await _size_at_server(model, model.name)})"
    if not model.name and len(listed) == 1:
        return f"{listed[0]} at {host}, the only one there ({await _size_at_server(model, listed[0])})"
    raise ConfigError(_not_listed(model.name, listed, host))


async def _size_at_server(model: "ModelSettings", name: str) -> str:
    from pixi.app.doors import door_to
    from pixi.models.deadlines import Deadlines
    from pixi.models.size import describe

    door = door_to(model, name, native=False, deadlines=Deadlines(first=LISTING_SECONDS))
    try:
        await door.learn()
        return describe(door.traits)
    finally:
        await door.close()


def _not_listed(name: str, listed: list[str], host: str) -> str:
    from rapidfuzz import fuzz, process

    if not listed:
        return f"{host} lists no model: load one there, or set model.base_url to another server."
    if not name:
        return f"{host} has several models: set model.name to one of {some(listed)}."
    nearest = process.extractOne(name, listed, scorer=fuzz.ratio, score_cutoff=60)
    mend = f"do you mean {nearest[0]}?" if nearest else f"set model.name to one of {some(listed)}."
    return f"{host} does not list {name}: {mend}"
