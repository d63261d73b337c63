"""The history of a persona's file, where it lies in a work tree of git: read, with nothing of git's run.

A repository can name programs that git runs by itself: hooks, filters, monitors, differs, signers. Each is
switched off, and only what is recorded is read: neither the work tree nor the network.
"""

import asyncio
import os
import re
import shutil
from pathlib import Path

import msgspec

from pixi.core.routes import RouteError
from pixi.core.untrusted import escaped_lines

_SECONDS = 5.0
_MOST_BYTES = 400_000
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
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-notes")


class Commit(msgspec.Struct):
    """A commit that changed the file. `at`: seconds since the epoch."""

    id: str
    at: float
    author: str
    subject: str


async def commits_of(path: Path) -> list[Commit]:
    """List the commits that changed a file, the newest first; none where git does not know it."""
    told = await _git(path, "log", f"-n{_MOST_COMMITS}", "--format=%H%x00%at%x00%an%x00%s%x1e", *_PLAIN)
    found = []
    for record in told.split("\x1e"):
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
        told = await _git(path, "log", "-n1", "-p", "--format=", *_PLAIN, "--end-of-options", commit)
    if not told:
        raise RouteError(404, "No such commit", "The history of this file has no such commit.")
    return escaped_lines(told.strip("\n"))


async def _git(path: Path, command: str, *flags: str) -> str:
    """Run git over a file, as far as time and room go; "" where it has nothing to say."""
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
        async with asyncio.timeout(_SECONDS):
            while len(told) < _MOST_BYTES and (piece := await process.stdout.read(65_536)):
                told += piece
    except TimeoutError:
        told = b""
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return told[:_MOST_BYTES].decode("utf-8", "replace")
