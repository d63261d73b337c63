"""`pixi-persona init`: a folder to start from, with settings, a persona and the places for more."""

import argparse
import os
from importlib.resources import files
from pathlib import Path

from pixi.core.errors import ConfigError

HELP = "make a starter folder: settings, an example persona, an example database"

STARTER = {
    "pixi.toml": "settings.toml",
    ".env.example": "env.example",
    "personas/wren.md": "persona.md",
    "databases/README.md": "databases.md",
    "databases/trolley/README.md": "trolley.md",
    "databases/trolley/teas.md": "teas.md",
}
"""The files of a starter folder, and the template of each in `pixi/starter`."""


_EXAMPLE = "such as `pixi-persona init mychat`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default=".", help="where (default: here); made if it is missing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Make what is missing, leave alone what is there, and say which is which."""
    folder = Path(arguments.folder)
    _check_folder(folder)
    for name, template in STARTER.items():
        text = files("pixi").joinpath("starter", template).read_text(encoding="utf-8")
        made = _make(folder / name, text)
        print(f"made  {folder / name}" if made else f"kept  {folder / name}, which was there already")
    print()
    _choose_model(folder)
    print(
        "Talk to the example persona:"
        if folder == Path()
        else f"Go to {folder} and talk to the example persona:"
    )
    print("  pixi-persona chat --persona wren")
    print(
        "Change personas/wren.md, or copy it: one file is one persona. A folder in databases/ is what "
        "personas can look up. `pixi-persona doctor` checks it all."
    )
    return 0


def _choose_model(folder: Path) -> None:
    """Ask which model answers, if there is somebody to ask and the settings name none."""
    from pixi.cli.choosing_model import at_terminal, chosen_model
    from pixi.settings import load

    if not at_terminal():
        return
    try:
        settings = load((folder / "pixi.toml").absolute(), folder=folder)
    except ConfigError:  # of a file that was there already: `doctor` tells
        return
    chosen_model(settings, asks=True, folder=folder)


def _check_folder(folder: Path) -> None:
    """See that a starter folder may be made here: six files belong into a folder of their own.

    Raises:
        ConfigError: it is the root of a file system, a home folder, another's, or one of the system.
    """
    try:
        real = folder.resolve()
        if real == Path(real.anchor):
            raise ConfigError(f"{real} is the root of all files: name a folder of its own, {_EXAMPLE}.")
        if real == Path.home().resolve():
            raise ConfigError(f"{real} is your home folder: name a folder in it, {_EXAMPLE}.")
        there = next(each for each in (real, *real.parents) if each.exists())
        if os.name == "posix":
            _check_owner(real, there)
        if there.is_dir() and not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"{there} may not be written to; name another folder.")
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a zero byte; RuntimeError: no home
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{folder} cannot be looked at ({reason}); name another folder.") from None


def _check_owner(folder: Path, there: Path) -> None:
    """See that nothing is put among another's files, or those of the system. `there`: as far as it exists.

    Raises:
        ConfigError: it is another's; or root names a folder that is in use for something else.
    """
    user = os.geteuid()
    # Others may make a folder wherever they may write, such as in a team's. Root may write everywhere.
    if there.stat().st_uid != user and (there == folder or user == 0):
        raise ConfigError(f"{there} belongs to another user of this machine: name a folder of yours.")
    ours = there != folder or not there.is_dir() or (folder / "pixi.toml").exists()
    if user == 0 and not ours and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, and you are root: name a new folder, {_EXAMPLE}.")


def _make(path: Path, text: str) -> bool:
    """Write a new file, with the folders above it; False, and nothing done, if there is one of that name.

    Raises:
        ConfigError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, text)
    except FileExistsError:
        if path.parent.is_dir():
            return False
        raise ConfigError(f"{path.parent} is a file; move it away, or name another folder.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path} cannot be written ({reason}); name another folder.") from None
    return True


def _write_new(path: Path, text: str) -> None:
    # "x" never opens what exists, not even a link that leads nowhere.
    with path.open("x", encoding="utf-8", newline="\n") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)  # half a file would be kept the next time
            raise
