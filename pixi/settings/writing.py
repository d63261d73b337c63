"""Writes a chosen model into the settings file: a few lines under `[model]`, and nothing else is touched."""

import codecs
import errno
import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkstemp

from pixi.core.errors import ConfigError
from pixi.settings.given import read_text

_MODEL = re.compile(r"^[ \t]*\[[ \t]*model[ \t]*\][ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)", re.MULTILINE)


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
