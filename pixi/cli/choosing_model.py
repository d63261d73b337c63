"""Ask once which model answers, where none is set: one found here, one for a key, or a download."""

import asyncio
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pixi.cli.console import Printer
from pixi.core.errors import ConfigError, PixiError
from pixi.core.spending import some

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import AnyFormattedText

    from pixi.core.providers import KnownProvider
    from pixi.models.hub import CatalogueModel
    from pixi.models.machine import FoundServer
    from pixi.settings import Settings

_MOST_LISTED = 6  # models of servers that are offered, of all servers together
# In names of models that only do something else.
_NO_TALKERS = ("embed", "rerank", "whisper", "minilm", "bge-")
_CLOUD = ("-cloud", ":cloud")  # endings of Ollama's names of models that run elsewhere
_MEGABIT_BYTES = 125_000  # a second
_USUAL_MEGABITS = 50


@dataclass(frozen=True, slots=True)
class ModelOption:
    """A model that is offered.

    Attributes:
        title: what it is, for people.
        note: where it is, or what it takes.
        values: the keys of `[model]` that choose it; none where it is still to be downloaded.
        download: what is fetched first; None: nothing.
    """

    title: str
    note: str
    values: Mapping[str, str]
    download: "CatalogueModel | None" = None


def at_terminal() -> bool:
    """Return True if there is a person, at a terminal that can move its cursor."""
    able = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return able and sys.stdin.isatty() and sys.stdout.isatty()


def chosen_model(settings: "Settings", *, asks: bool, folder: Path = Path()) -> Mapping[str, str]:
    """Find the model that a command is to use, and return what must be set for it above all other settings.

    Where no model is set, a person is asked, and the answer is written into the settings file: read it anew.
    A name from a flag without an address is that of a catalogue's model that was downloaded, or is looked for
    at the servers of this machine, if there is no key.

    Args:
        settings: as they were read.
        asks: there is a person to be asked.
        folder: where the settings file and `.env` are.

    Raises:
        ConfigError: no server has the model of that name.
        KeyboardInterrupt: the person leaves.
    """
    from pixi.models.hub import find_in_catalogue
    from pixi.models.machine import find_servers

    if not settings.model_is_set:
        return asked_for_model(settings, folder) if asks else {}
    if _is_name_alone(settings):
        name = settings.model.name
        model = find_in_catalogue(name)
        if model is not None and model.fetched:
            return {"model.name": str(model.path)}
        if settings.model.api_key is None:
            return _at_server(name, asyncio.run(find_servers()))
    return {}


def asked_for_model(settings: "Settings", folder: Path = Path()) -> Mapping[str, str]:
    """Ask a person which model is to answer; see `chosen_model` for the rest.

    Raises:
        ConfigError: there is none to be chosen.
        KeyboardInterrupt: the person leaves.
    """
    from pixi.cli.models import download
    from pixi.core.providers import providers_with_key
    from pixi.models.machine import find_servers
    from pixi.settings.sources import variables_in

    printer = Printer(settings)
    present = settings.model.name if settings.model_is_set else ""
    found = asyncio.run(find_servers())
    variables = variables_in(folder)
    options = [*options_of(found, providers_with_key(variables), variables.get("OPENAI_BASE_URL", ""))]
    if not options:
        raise ConfigError(
            "No model is set, none was found, and the runtime of local models is missing.\n"
            "Run: pip install 'pixi-persona[local]', or start a model server such as Ollama."
        )
    while True:
        option = _choose(said_of(found, present), options)
        values = option.values
        try:
            if option.download is not None:
                values = {"name": str(download(option.download, printer))}
        except PixiError as error:
            printer.complain(str(error))
            options.remove(option)
            continue
        return _written(settings.origin or folder / "pixi.toml", values, printer)


def options_of(
    found: "Sequence[FoundServer]", providers: "Sequence[KnownProvider]", openai_base_url: str = ""
) -> Iterator[ModelOption]:
    """Yield what is offered; the first is the default.

    Models of servers on this machine come first, then providers whose keys are there, then what runs here.

    Args:
        found: the servers of this machine.
        providers: those whose keys are set.
        openai_base_url: whose key `OPENAI_API_KEY` is, if not OpenAI's.
    """
    at_servers = [*_at_servers(found)]
    yield from sorted(at_servers, key=lambda option: option.values.get("name", "").endswith(_CLOUD))
    for provider in providers:
        # That key is for the server at that address, and for no other.
        if provider.key_name != "OPENAI_API_KEY" or not openai_base_url:
            values = _values_at(provider, named=bool(openai_base_url))
            yield ModelOption(provider.model, f"{provider.title}, with your {provider.key_name}", values)
    if find_spec("xllamacpp") is not None:
        yield from _here()


def _at_servers(found: "Sequence[FoundServer]") -> Iterator[ModelOption]:
    from pixi.settings import ModelSettings
    from pixi.settings.model_choice import runs_here

    with_models = [server for server in found if server.models]
    for server in with_models:
        # No key: it listed its models without one, and OPENAI_API_KEY is none of its business.
        values = {"base_url": server.base_url, "api_key": "none"}
        talkers = [name for name in server.models if not any(part in name.lower() for part in _NO_TALKERS)]
        for name in talkers[: max(1, _MOST_LISTED // len(with_models))]:
            cloud = ", which runs it in its cloud" if name.endswith(_CLOUD) else ""
            note = f"{server.kind} on this machine{cloud}"
            if not runs_here(ModelSettings(name=name)):
                yield ModelOption(name, note, {"name": name, **values})
            elif len(server.models) == 1:  # a file's name, as llama.cpp lists it, would be a file of ours
                yield ModelOption(name.replace("\\", "/").rpartition("/")[2], note, values)


def _values_at(provider: "KnownProvider", *, named: bool) -> Mapping[str, str]:
    """Return the keys of `[model]` for a provider. `named`: `OPENAI_BASE_URL` is set.

    Without an address of its own a model is asked at that one, and would be so with the provider's key.
    """
    # What these two speak themselves caches prompts; they speak OpenAI's API too.
    own: dict[str, Literal["anthropic", "gemini"]] = {"Anthropic": "anthropic", "Gemini": "gemini"}
    api = own.get(provider.title)
    if api and not named:
        return {"name": provider.model, "api": api}
    return {"name": provider.model, "base_url": provider.base_url}


def _here() -> Iterator[ModelOption]:
    """List the models for this machine: those downloaded, the smallest good one, the tiny one.

    What this machine's memory does not hold, or what cannot be downloaded, comes last and says so.
    """
    from pixi.cli.models import misfit_of
    from pixi.models import weights
    from pixi.models.hub import catalogue, duration
    from pixi.models.machine import memory_bytes

    fetched = [model for model in catalogue() if model.fetched]
    for model in fetched:
        yield ModelOption(model.name, "downloaded before", {"name": str(model.path)})
    smallest = catalogue()[0]
    time = duration(smallest.bytes / (_USUAL_MEGABITS * _MEGABIT_BYTES))
    size = f"{smallest.bytes / 1e9:.1f} GB, some {time} at {_USUAL_MEGABITS} Mbit/s"
    download = ModelOption(f"Download {smallest.name}", size, {}, smallest)
    trouble = misfit_of(smallest, memory_bytes())
    if find_spec("huggingface_hub") is None:
        trouble = 'needs pip install "pixi-persona[hub]"'
    if not trouble and not fetched:
        yield download
    has_weights = weights.installed() or weights.cached()
    first = "" if has_weights else f"; {weights.SMOLLM2.megabytes} MB are fetched"
    yield ModelOption("The tiny included one", f"English small talk, no more{first}", {"name": "local"})
    if trouble and not fetched:
        yield replace(download, note=f"{size}; {trouble}")


def said_of(found: "Sequence[FoundServer]", present: str = "") -> list[str]:
    """Return what a person should know of the servers: paragraphs. `present`: the model that answers now."""
    from pixi.models.machine import trouble_of

    names = ", ".join(server.kind for server in found if server.models)
    there = f" Found on this machine: {names}." if names else ""
    there = there if found else " No model server runs on this machine."
    said = [f"{f'{present} answers now.' if present else 'No model is set yet.'}{there}"]
    troubles = [(server, trouble) for server in found if (trouble := trouble_of(server))]
    said += [f"{server.kind} at {urlsplit(server.base_url).netloc} {trouble}" for server, trouble in troubles]
    return said


def _choose(said: Sequence[str], options: Sequence[ModelOption]) -> ModelOption:
    """Show the options; return the one that is taken. Enter takes the first, or the one that was gone to.

    Raises:
        KeyboardInterrupt: the person leaves.
    """
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.key_binding.key_processor import KeyPress
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.shortcuts.choice_input import ChoiceInput
    from prompt_toolkit.styles import Style

    width = max(shutil.get_terminal_size().columns - 2, 20)
    asked = "Which model answers? Enter takes the marked one, a number another; Ctrl-C leaves."
    message = "\n\n".join("\n".join(textwrap.wrap(each, width)) for each in (*said, asked, " "))
    keys = KeyBindings()
    for number in range(1, min(len(options), 9) + 1):

        def take(event: KeyPressEvent, number: int = number) -> None:
            ways = [Keys.Up] * len(options) + [Keys.Down] * (number - 1)  # so that it is marked, too
            event.app.key_processor.feed_multiple([KeyPress(key) for key in (*ways, Keys.Enter)], first=True)

        keys.add(str(number), eager=True)(take)
    for key in ("c-d", "escape"):
        keys.add(key, eager=True)(lambda event: event.app.exit(exception=KeyboardInterrupt()))
    return ChoiceInput(
        message=message,
        options=[(option, _label(option, width)) for option in options],
        default=options[0],
        key_bindings=keys,
        style=Style.from_dict({"selected-option": "bold", "note": "ansibrightblack"}),
    ).prompt()


def _label(option: ModelOption, width: int) -> "AnyFormattedText":
    """Return an option on one line, or on two where the terminal is narrow."""
    from wcwidth import wcswidth

    room = width - 8  # the list's mark and number
    title, half = option.title, room // 2
    if len(title) > room:  # a name's end tells as much as its beginning
        title = f"{title[: half - 1]}…{title[-half:]}"
    fits = wcswidth(f"{title} · {option.note}") <= room
    notes = [f" · {option.note}"] if fits else [f"\n     {line}" for line in textwrap.wrap(option.note, room)]
    return [("", title), ("class:note", "".join(notes))]


def _written(path: Path, values: Mapping[str, str], printer: Printer) -> Mapping[str, str]:
    """Write the choice down and show it. Where it cannot be written it holds for this run alone."""
    from pixi.settings.sources import lines_of, write_model

    try:
        write_model(path, values)
    except ConfigError as error:
        printer.complain(str(error))
        return {f"model.{key}": value for key, value in values.items()}
    printer.say(
        "\n" + "\n  ".join([f"Written to {path}; change it there:", "[model]", *lines_of(values)]) + "\n"
    )
    return {}


def _is_name_alone(settings: "Settings") -> bool:
    """Return True if a flag names a model, and nothing but a key says at which server it is."""
    from pixi.settings.model_choice import is_openais, runs_here

    model, sources = settings.model, settings.sources
    return (
        sources.get("model.name") == "a flag"
        and "model.base_url" not in sources
        and model.api in ("auto", "chat")
        and is_openais(model.base_url)
        and bool(model.name)
        and not runs_here(model)
    )


def _at_server(name: str, found: "Sequence[FoundServer]") -> Mapping[str, str]:
    """Return the settings of the first server that has a model of that name.

    Raises:
        ConfigError: none has it; the text names the nearest, and what was looked at.
    """
    from pixi.models.hub import find_in_catalogue
    from pixi.models.machine import KNOWN_SERVERS, holders_of, trouble_of

    if holders := holders_of(name, found):
        server, listed = holders[0]
        if others := [each.kind for each, _ in holders[1:] if each is not server]:
            Printer().complain(
                f"{listed} is at {server.kind} and at {', '.join(others)}: {server.kind} is asked "
                "(--base-url chooses another)."
            )
        return {"model.name": listed, "model.base_url": server.base_url, "model.api_key": "none"}
    there = "; ".join(
        f"{server.kind} {trouble.partition(':')[0].rstrip('.')}"
        if (trouble := trouble_of(server))
        else f"{server.kind} has {some(server.models)}"
        for server in found
    )
    if not there:
        looked = ", ".join(f"{each.kind} ({each.port})" for each in KNOWN_SERVERS)
        there = f"nothing is there of {looked}"
    near = _nearest(name, [each for server in found for each in server.models])
    if model := find_in_catalogue(name):
        near = f"To fetch it, run: pixi-persona models get {model.name}. "
    raise ConfigError(
        f"No server on this machine lists the model {name!r}: {there}.\n"
        f"{near}Name its server with --base-url; for OpenAI's models set OPENAI_API_KEY."
    )


def _nearest(name: str, names: Sequence[str]) -> str:
    from rapidfuzz import fuzz, process

    near = process.extract(name, names, scorer=fuzz.ratio, score_cutoff=60, limit=3)
    return f"Do you mean {' or '.join(dict.fromkeys(each[0] for each in near))}? " if near else ""
