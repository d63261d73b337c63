"""The folder for what is no setting and no document: the lines that were typed at the terminal."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def state_folder() -> Path:
    """Where the system wants programs to keep such things."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "pixi-persona"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "pixi-persona"
    named = os.environ.get("XDG_STATE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".local" / "state") / "pixi-persona"


def forget_typed() -> None:
    """Empty the file of what was typed; it stays for its owner alone.

    Raises:
        OSError: it cannot be written.
    """
    with suppress(FileNotFoundError):
        os.truncate(state_folder() / "history", 0)
