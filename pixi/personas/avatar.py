"""A persona's picture: an address, or a file in the folder of the persona's own."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from pixi.core.untrusted import display_line
from pixi.personas.faults import LintError, LintWarning

FORMATS = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_LONGEST = 2_000  # characters
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_EXPECTED = "an https address or the name of a picture (png, jpg, gif or webp) beside this file"


def find_avatar(written: str, line: int, path: Path) -> tuple[str, LintWarning | None]:
    """The address or the absolute path of the picture; "" with a remark where there is no such file.

    Args:
        written: what the front matter says.
        line: where it says that.
        path: of the persona's file.

    Raises:
        Fault: it is no https address, no picture, or lies outside of the persona's folder.
    """
    shown = display_line(written, 40)
    if not written:
        return "", None
    if len(written) > _LONGEST:
        raise LintError(line, f"`avatar` has {len(written):,} characters: {_LONGEST:,} is the most.")
    if _SCHEME.match(written):
        if not _is_https(written):
            raise LintError(line, f"`avatar` is {_EXPECTED}, not `{shown}`.")
        return written, None
    if not written.lower().endswith(FORMATS):
        raise LintError(line, f"`avatar` is {_EXPECTED}, not `{shown}`.")
    folder = os.path.realpath(path.parent)
    picture = os.path.realpath(os.path.join(folder, written))
    if os.path.isabs(written) or not picture.startswith(os.path.join(folder, "")):
        raise LintError(
            line, f"`avatar` leads out of this folder: put the picture beside this file, not `{shown}`."
        )
    if not os.path.isfile(picture):
        return "", LintWarning(
            line, f"there is no picture `{shown}` beside this file: mend `avatar`, or put it there."
        )
    return picture, None


def _is_https(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" and bool(parts.hostname) and not re.search(r"\s", address)
    except ValueError:
        return False  # brackets that are no IPv6 address
