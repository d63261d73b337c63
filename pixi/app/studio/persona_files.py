"""The files of personas for operators: read, saved without losing what others wrote, and their commits."""

import asyncio
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files as resources
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from pixi.app.personas import folders_of
from pixi.core.errors import ConfigError
from pixi.core.routes import RouteError
from pixi.core.untrusted import display_path, escaped_lines
from pixi.personas.files import LARGEST, Found, LoadedPersona, list_personas
from pixi.personas.front_matter import FORMATS
from pixi.settings import Settings

_BOM = b"\xef\xbb\xbf"
# Windows has no such flags, but one for bytes as they are.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
_NAME = re.compile(r"[^\W_][\w-]{0,62}")


# The files of personas as pages read and write them: by names of the cast alone, and whole or not at all.
#
# A page never names a path. What it saves must rest on the text that lies there now, told by its digest:
# what somebody changed on the disk meanwhile is never overwritten. Links are not followed.


class PersonaText(Struct, frozen=True):
    """A file as it lies on the disk.

    Attributes:
        text: with line ends as `\\n`.
        line_end: the commonest there.
        bom: it begins with the mark that some editors put there.
        mode: who may read and write it.
        digest: of all its bytes.
    """

    text: str
    line_end: str
    bom: bool
    mode: int
    digest: str

    def bytes_of(self, text: str) -> bytes:
        """Return another text as this file would hold it."""
        return (_BOM if self.bom else b"") + _plain(text).replace("\n", self.line_end).encode("utf-8")


def _plain(text: str) -> str:
    """Return a text with line ends as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def personas_in(settings: Settings, drafts: Mapping[Path, str] = {}) -> list[Found]:
    """List the files of personas, see `list_personas`.

    Raises:
        RouteError: a folder is not there.
    """
    try:
        return list_personas(folders_of(settings), drafts)
    except ConfigError as error:
        raise RouteError(409, "The folder cannot be read", str(error)) from error


def name_of(found: Found) -> str:
    """Return the name of a file for a page: its own name, without the ending."""
    return display_path(Path(found.path.stem))


def find_file(settings: Settings, name: str) -> Found:
    """Find a file by its name.

    Raises:
        RouteError: there is none.
    """
    for each in personas_in(settings):
        if name_of(each) == name:
            return each
    raise RouteError(404, "No such persona", "There is no file of that name; look at the list.")


def why_read_only(settings: Settings, path: Path) -> str:
    """Return why a file cannot be written from a page; "" where it can."""
    own = settings.persona.folder
    if path.parent != own:
        return "It came with Pixi or with an addon: copy it to your own personas to change it."
    if path.is_symlink():
        return "This is a link to another file: change that one."
    if not (os.access(path, os.W_OK) and os.access(own, os.W_OK)):
        return "The file or its folder may not be written: mend their permissions."
    return ""


def read_text(path: Path) -> PersonaText:
    """Read a file, if it is a plain one and not too large.

    Raises:
        RouteError: it is gone, cannot be read, or holds no text.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAITING)
        with open(handle, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(LARGEST + 1) if stat.S_ISREG(status.st_mode) else None
    except FileNotFoundError as error:
        raise RouteError(404, "The file is gone", f"{display_path(path)} is not there any more.") from error
    except OSError as error:
        detail = f"{display_path(path)} cannot be read ({error.strerror}); links are not followed."
        raise RouteError(409, "The file cannot be read", detail) from error
    if data is None or len(data) > LARGEST:
        detail = f"{display_path(path)} is no plain file of at most {LARGEST // 1024} KB."
        raise RouteError(409, "The file cannot be read", detail)
    digest = hashlib.sha256(data).hexdigest()
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RouteError(409, "This is not UTF-8", f"Save {display_path(path)} as UTF-8 first.") from error
    line_end = max(("\n", "\r\n", "\r"), key=re.findall(r"\r\n|\r|\n", text).count)
    return PersonaText(_plain(text), line_end, data.startswith(_BOM), stat.S_IMODE(status.st_mode), digest)


def save_text(settings: Settings, name: str, text: str, digest: str) -> None:
    """Write a file of the operator's own, if it is still the one with this digest.

    To be called by one at a time.

    Raises:
        RouteError: 409, it is another one by now, or gone; 403, it may not be written; 422, no persona's file
            can hold the text.
    """
    path = find_file(settings, name).path
    if why := why_read_only(settings, path):
        raise RouteError(403, "Read only", why)
    try:
        before = read_text(path)
    except RouteError as error:
        raise RouteError(409, error.title, error.detail) from error
    if before.digest != digest:
        detail = f"{display_path(path)} was changed meanwhile: look at the text that is there, then save."
        raise RouteError(409, "Changed on the disk", detail)
    try:
        data = before.bytes_of(text)
    except UnicodeEncodeError as error:
        raise RouteError(422, "Not a text", "It holds half a character, which no file can.") from error
    if len(data) > LARGEST:
        detail = f"It has {len(data):,} bytes: keep it under {LARGEST // 1024} KB."
        raise RouteError(422, "Too large for a persona", detail)
    _write(path, data, before.mode)


def create_file(settings: Settings, name: str, like: str) -> None:
    """Make a file of a persona from a small template, or as a copy of another; it must not be there.

    Raises:
        RouteError: 422, the name is none for a file; 409, it is taken; 403, the folder may not be written;
            404, there is none to copy.
    """
    if not _NAME.fullmatch(name) or name.lower() == "readme":
        detail = "Name the file with letters, digits and hyphens, at most 63, such as `wren`."
        raise RouteError(422, "Not a name for a file", detail)
    folder = settings.persona.folder
    path = folder / f"{name}.md"
    found = find_file(settings, like) if like else None
    if found is not None:
        text = read_text(found.path).text
    else:
        title = " ".join(name.replace("-", " ").replace("_", " ").split()).title()
        text = resources("pixi").joinpath("starter", "new.md").read_text("utf-8").replace("{name}", title)
    there = [each for each in personas_in(settings) if each.path.parent == folder]
    if any(each.path.stem.casefold() == name.casefold() for each in there):
        raise RouteError(409, "Taken", f"There is a persona {name!r} in your folder already.")
    with _refusing(path):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644)
        with open(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        if isinstance(found, LoadedPersona):
            _copy_picture(Path(found.persona.avatar), found.path.parent, folder)


def _copy_picture(picture: Path, of: Path, folder: Path) -> None:
    """Copy the picture of a persona that is copied, where it lies beside its file."""
    there = folder / picture.name
    beside = os.path.realpath(picture.parent) == os.path.realpath(of)
    if beside and picture.suffix.lower() in FORMATS and not os.path.lexists(there):
        shutil.copyfile(picture, there)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Put a file in the place of another, whole."""
    beside = path.with_name(f".{path.name}.{token_hex(4)}")
    with _refusing(path):
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.chmod(mode)
            beside.replace(path)
        except OSError:
            with suppress(OSError):
                beside.unlink()
            raise


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Refuse a request whose file cannot be written, with the reason."""
    try:
        yield
    except FileExistsError as error:
        raise RouteError(409, "Taken", f"{display_path(path)} is there already.") from error
    except OSError as error:
        detail = f"{display_path(path)} cannot be written ({error.strerror}); mend its permissions."
        raise RouteError(403, "Cannot be written", detail) from error


_GIT_SECONDS = 5.0
_MOST_BYTES = 400_000  # of what git prints
_MOST_COMMITS = 50
_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
_SWITCHED_OFF = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "diff.external=",
    "log.showSignature=false",
)
_PLAIN_OUTPUT = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-notes")


# The history of a persona's file, where it lies in a work tree of git: read, with nothing of git's run.
#
# A repository can name programs that git runs by itself: hooks, filters, monitors, differs, signers. Each
# is switched off, and only what is recorded is read: neither the work tree nor the network.


class Commit(Struct):
    """A commit that changed the file. `at`: seconds since the epoch."""

    id: str
    at: float
    author: str
    subject: str


async def commits_of(path: Path) -> list[Commit]:
    """List the commits that changed a file, the newest first; none where git does not know it."""
    printed = await _git(
        path, "log", f"-n{_MOST_COMMITS}", "--format=%H%x00%at%x00%an%x00%s%x1e", *_PLAIN_OUTPUT
    )
    found = []
    for record in printed.split("\x1e"):
        parts = record.strip("\n").split("\0")
        if len(parts) == 4 and parts[1].isdecimal():
            found.append(Commit(parts[0], float(parts[1]), *map(escaped_lines, parts[2:])))
    return found


async def diff_of(path: Path, commit: str) -> str:
    """Return what a commit changed in a file, as a unified diff.

    Raises:
        RouteError: there is no such commit.
    """
    told = ""
    if _COMMIT.fullmatch(commit):
        told = await _git(path, "log", "-n1", "-p", "--format=", *_PLAIN_OUTPUT, "--end-of-options", commit)
    if not told:
        raise RouteError(404, "No such commit", "The history of this file has no such commit.")
    return escaped_lines(told.strip("\n"))


async def _git(path: Path, command: str, *flags: str) -> str:
    """Return what git prints of a file, within time and room; "" where it prints nothing, or is not there."""
    program = shutil.which("git")
    if program is None:
        return ""
    settings = [word for each in _SWITCHED_OFF for word in ("-c", each)]
    words = ["--no-pager", "--literal-pathspecs", *settings, command, *flags, "--", path.name]
    environment = {name: os.environ[name] for name in ("HOME", "PATH", "SYSTEMROOT") if name in os.environ}
    quiet = {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # whatever the repository allows; older ones fetch what they lack
        "GIT_ASKPASS": "",
        "LC_ALL": "C.UTF-8",
    }
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            cwd=path.parent,
            env=environment | quiet,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    assert process.stdout is not None
    told = b""
    try:
        async with asyncio.timeout(_GIT_SECONDS):
            while len(told) < _MOST_BYTES and (piece := await process.stdout.read(65_536)):
                told += piece
    except TimeoutError:
        told = b""
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return told[:_MOST_BYTES].decode("utf-8", "replace")
