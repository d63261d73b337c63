"""Values and their places: the settings file, `.env` and the environment; and writing into the file."""

import codecs
import errno
import json
import os
import re
import shutil
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp

from pixi.core.errors import ConfigError

FILE_NAME = "pixi.toml"
MODELS = "models"
"""The one section whose keys are sections again: `[models.NAME]`."""
ADDON = "addon"
"""Each `[addon.NAME]`: its keys are the addon's own, which checks them when it is loaded."""
NAMED = (MODELS, "mcp", "wiki", ADDON)
"""Sections of which there can be any number, each with a name of its own: `[mcp.NAME]`."""
INNER = ("http.jwt",)
"""Sections within a section."""
PRICES = "prices"
"""The section whose keys are names of models, whatever they are."""
WELL_KNOWN: Mapping[str, str] = {
    "OPENAI_API_KEY": "model.api_key",
    "OPENAI_BASE_URL": "model.base_url",
    "DISCORD_TOKEN": "discord.token",
}
"""Variables that other programs read too. They count where nothing of Pixi's own says otherwise."""
_KEY = r"(?:\"[^\"]*\"|'[^']*'|[\w-]+)"
_DOTTED = rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*"
_HEADER = re.compile(rf"\s*\[{_DOTTED}\]")
_LISTED = re.compile(rf"\s*\[\[{_DOTTED}\]\]")
_ASSIGNMENT = re.compile(rf"{_DOTTED}=")
_ANY = ""  # the section of a mistake that may be in any: a file that cannot be read
_MODEL = re.compile(r"^[ \t]*\[[ \t]*model[ \t]*\][ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Given:
    """A value under a key such as `model.name`; a key of the file's top level has no dot.

    Attributes:
        source: where it stands, short: `pixi.toml`, `PIXI_MODEL__NAME`.
        place: the same for an error text, with the line where there is one.
        text: the value is text that stands for another type, as in the environment.
        inner: where the tables of a list and their keys stand, by number and key: `0`, `0.name`.
    """

    key: str
    value: object
    source: str
    place: str
    text: bool = False
    inner: Mapping[str, str] = field(default_factory=dict)


def section_and_key(key: str) -> tuple[str, str, str]:
    """Part a key as `str.partition` does, but behind the name of one of `INNER`: `http.jwt`, `.`, `user`."""
    for inner in INNER:
        if key.startswith(f"{inner}."):
            return inner, ".", key[len(inner) + 1 :]
    return key.partition(".")


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable, from the process or from `.env`."""

    name: str
    value: str
    place: str


class Faults:
    """Gathers what is wrong with the settings, so that all of it is told at once."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}  # in order, each once
        self._sections: set[str] = set()

    @contextmanager
    def noted(self, *sections: str) -> Iterator[None]:
        """Note a `ConfigError` of the block. `sections`: those it may be in; none: it may be in any."""
        try:
            yield
        except ConfigError as error:
            self._told |= dict.fromkeys(error.faults)
            self._sections.update(sections or (_ANY,))

    def check(self, sections: Sequence[str], work: Callable[[], object]) -> None:
        """Run a check that reads these sections, and note its mistakes in the first of them.

        It is left out where one of them has a mistake already.
        """
        if self._sections.isdisjoint((_ANY, *sections)):
            with self.noted(sections[0]):
                work()

    def tell(self) -> None:
        """Raise `ConfigError` with all mistakes, if there are any."""
        if self._told:
            raise ConfigError(*self._told)


def read_text(path: Path, what: str) -> str:
    """Return the text of a file that an operator wrote, without a byte order mark.

    Raises:
        ConfigError: it is missing, a folder, unreadable, or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; name {what} that exists.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, and {what} is wanted there: move it away.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start + 1} is not UTF-8; save the file with the encoding UTF-8."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be read ({reason}); mend its path or permissions.") from None


def settings_file(config: Path | None, variables: Mapping[str, Variable], folder: Path) -> Path | None:
    """Return the file to read: the one asked for, `PIXI_CONFIG`, or the folder's `pixi.toml` if there."""
    if config is not None:
        return folder / config.expanduser()
    if "PIXI_CONFIG" in variables:
        return folder / Path(variables["PIXI_CONFIG"].value).expanduser()
    path = folder / FILE_NAME
    return path if path.exists() or path.is_symlink() else None


def from_file(path: Path) -> Iterator[Given]:
    """Yield the keys of a settings file, in its order.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    text = read_text(path, "a settings file")
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: lists within lists without end.") from None
    except ValueError as error:  # TOMLDecodeError with line and column, or a number of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    places = {key: f"{path}, line {line}" for key, line in _line_numbers(text).items()}

    def given(key: str, value: object) -> Given:
        within = f"{key}."
        inner = {
            name.removeprefix(within): place for name, place in places.items() if name.startswith(within)
        }
        return Given(key, value, source=str(path), place=places.get(key, str(path)), inner=inner)

    for key, value in _keys_of(tables):
        yield given(key, value)


def from_tables(tables: Mapping[str, object]) -> Iterator[Given]:
    """Yield the keys of settings that a program gives in the form of a settings file."""
    for key, value in _keys_of(tables):
        yield Given(key, value, source="the program", place="the given settings")


def _keys_of(tables: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, table in tables.items():
        yield from _opened(name, table, depth=2 if name in NAMED else 1)


def _opened(key: str, value: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield a table as its keys, so many tables deep. An empty one stands for itself."""
    if (depth or key in INNER) and isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _opened(f"{key}.{name}", inner, max(0, depth - 1))
    else:
        yield key, value


def _line_numbers(text: str) -> dict[str, int]:
    """Return where each key and section first stands, by a plain search: for error texts alone.

    The tables of a list are numbered: `model.fallback.0`.
    """
    lines: dict[str, int] = {}
    counts: Counter[str] = Counter()
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if listed := _LISTED.match(line):
            name = _plain(listed[1])
            lines.setdefault(name, number)
            section = f"{name}.{counts[name]}"
            counts[name] += 1
            lines[section] = number
        elif header := _HEADER.match(line):
            section = _plain(header[1])
            lines.setdefault(section, number)
        elif assignment := _ASSIGNMENT.match(line):
            key = _plain(assignment[1])
            lines.setdefault(f"{section}.{key}" if section else key, number)
    return lines


def _plain(dotted: str) -> str:
    """Return a dotted key of TOML without its quotation marks and the space round its dots."""
    return ".".join(part.strip("\"'") for part in re.findall(_KEY, dotted))


def variables_of(environ: Mapping[str, str], folder: Path, faults: Faults) -> dict[str, Variable]:
    """Return the environment, and beneath it the folder's `.env`.

    An empty variable counts as not set, and hides the one of the same name in `.env`. A `.env` that cannot be
    read, and lines of it that say nothing, are noted in `faults`.
    """
    variables: dict[str, Variable] = {}
    with faults.noted():
        variables = {variable.name: variable for variable in _from_dotenv(folder / ".env", faults)}
    variables |= {name: Variable(name, value, name) for name, value in environ.items()}
    return {name: variable for name, variable in variables.items() if variable.value.strip()}


def variables_in(folder: Path) -> Mapping[str, str]:
    """Return the environment, and what `.env` says. Its faults were told when the settings were read."""
    return {name: each.value for name, each in variables_of(os.environ, folder, Faults()).items()}


def _from_dotenv(path: Path, faults: Faults) -> Iterator[Variable]:
    if not path.exists() or path.is_dir():  # a folder of that name is somebody's virtual environment
        return
    # Imported here: few folders have the file.
    from io import StringIO

    from dotenv.parser import parse_stream

    for binding in parse_stream(StringIO(read_text(path, "a .env file"))):
        # A binding's text begins with the blank lines before it.
        whole = binding.original.string
        line = binding.original.line + whole[: len(whole) - len(whole.lstrip())].count("\n")
        if binding.error:
            with faults.noted():
                raise ConfigError(f"{path}, line {line} is not NAME=value; mend or remove it.")
        elif binding.key is not None and binding.value is not None:
            yield Variable(binding.key, binding.value, f"{path}, line {line}: {binding.key}")


def from_well_known(variables: Mapping[str, Variable]) -> Iterator[Given]:
    """Yield the settings that variables known to other programs too stand for."""
    for name, key in WELL_KNOWN.items():
        if name in variables:
            yield Given(key, variables[name].value, source=name, place=variables[name].place, text=True)


def from_variables(
    variables: Iterable[Variable], known: Mapping[str, Iterable[str]], faults: Faults
) -> Iterator[Given]:
    """Yield the settings under `PIXI_SECTION__KEY` and `PIXI_ADDONS`.

    Sections of `NAMED` and `INNER` have one part more: `PIXI_MODELS__NAME__KEY`.

    Args:
        variables: those that are set.
        known: the keys of each section, to recognise a name written with one underscore.
        faults: are told of each name that has one underscore where two belong.
    """
    single = {
        f"PIXI_{section}_{key}".upper(): f"PIXI_{section}__{key}".upper()
        for section, keys in ((name.replace(".", "__"), keys) for name, keys in known.items())
        for key in keys
    }
    for variable in variables:
        name = variable.name
        if name in single:
            section = single[name].removeprefix("PIXI_").partition("__")[0].lower()
            with faults.noted(section):
                raise ConfigError(f"{variable.place}: write {single[name]}, with two underscores.")
        elif name == "PIXI_ADDONS" or (name.startswith("PIXI_") and "__" in name):
            key = name.removeprefix("PIXI_").lower()
            deep = key.partition("__")[0] in NAMED or ".".join(key.split("__")[:2]) in INNER
            key = key.replace("__", ".", 2 if deep else 1)
            yield Given(key, variable.value, source=name, place=variable.place, text=True)


def from_overrides(overrides: Mapping[str, object]) -> Iterator[Given]:
    """Yield the settings of flags: `{"model.name": "gpt-5-mini"}`; a value of None was not given."""
    for key, value in overrides.items():
        if value is not None:
            yield Given(key, value, source="a flag", place="on the command line", text=isinstance(value, str))


def lines_of(values: Mapping[str, str]) -> list[str]:
    """Return the lines of TOML that set keys of `[model]`, without its header."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def write_model(path: Path, values: Mapping[str, str]) -> None:
    """Set keys of `[model]` that no line sets yet, in a new file or below the header of an old one.

    Comments, other keys, line ends and the file's mode stay as they are.

    Args:
        path: the settings file; a link is followed.
        values: by key, e.g. `{"name": "qwen3:8b"}`.

    Raises:
        ConfigError: it cannot be read or written, or says it in a way that a line cannot be added to
            (`model = {…}`, a key that is there already); then nothing was written.
    """
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a link that leads to itself
        raise _unwritable(path, "its link leads nowhere", values) from None
    old = read_text(real, "a settings file") if real.exists() else ""
    new = _with_lines(old, lines_of(values))
    try:
        before, after = tomllib.loads(old), tomllib.loads(new)
        new.encode()
    except (tomllib.TOMLDecodeError, UnicodeEncodeError):  # of a path that is no text
        raise _by_hand(path, values) from None
    # What looks like a header may stand within a text of several lines.
    if after != {**before, "model": {**before.get("model", {}), **values}}:
        raise _by_hand(path, values)
    try:
        _write(real, new)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error), values) from None


def _with_lines(old: str, lines: list[str]) -> str:
    end = "\r\n" if "\r\n" in old else "\n"
    added = "".join(f"{line}{end}" for line in lines)
    if header := _MODEL.search(old):
        above, below = old[: header.end()], old[header.end() :]
        return f"{above}{'' if above.endswith(chr(10)) else end}{added}{below}"
    gap = "" if not old else end if old.endswith("\n") else end * 2
    return f"{old}{gap}[model]{end}{added}"


def _write(path: Path, text: str) -> None:
    """Write the whole file; one that is there is replaced at once, so that it is never half a file."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return
    if not path.stat().st_mode & stat.S_IWUSR:  # replacing it asks the folder alone
        raise PermissionError(errno.EACCES, "it is read-only")
    marked = path.read_bytes().startswith(codecs.BOM_UTF8)
    handle, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8-sig" if marked else "utf-8"))
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, new)
        new.replace(path)  # fails where a container mounts the file alone
    finally:
        new.unlink(missing_ok=True)


def _by_hand(path: Path, values: Mapping[str, str]) -> ConfigError:
    return ConfigError(f"{path} says something of the model already, in a form of its own.\n{_mend(values)}")


def _unwritable(path: Path, why: str, values: Mapping[str, str]) -> ConfigError:
    return ConfigError(f"{path} cannot be written ({why}).\n{_mend(values)}")


def _mend(values: Mapping[str, str]) -> str:
    return f"Write this there, under [model]: {'; '.join(lines_of(values))}"
