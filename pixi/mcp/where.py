"""Where an MCP server is: a program that is run here, or an address on the network."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_HANDED_ON = (
    *("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM"),
    *("TMPDIR", "TZ", "USER"),
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
"""What a program needs of our environment to run at all, here or on Windows. Keys are not among it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that speaks over its standard input and output.

    Attributes:
        command: what is run.
        args: its arguments.
        env: what its environment has besides the little that every program needs. It may hold secrets.
        folder: where it runs; None: where we do.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @property
    def shown(self) -> str:
        """The whole command line, as a shell would take it; of the environment only the names."""
        words = [*(f"{name}=…" for name in sorted(self.env)), shlex.join((self.command, *self.args))]
        return visible(" ".join(words) + (f" (in {self.folder})" if self.folder else ""))

    @property
    def mark(self) -> str:
        """Another one for whatever else would be run. That a secret has another value changes nothing."""
        folder = None if self.folder is None else str(self.folder)
        return digest([self.command, list(self.args), sorted(self.env), folder])

    @property
    def environment(self) -> dict[str, str]:
        """All that the program's environment holds."""
        return {name: os.environ[name] for name in _HANDED_ON if name in os.environ} | dict(self.env)


@dataclass(frozen=True, slots=True)
class NetworkServer:
    """A server on the network. `sse`: it speaks the older way of two channels.

    `headers` are sent along with each request, and may hold secrets; so may what stands behind `?`.
    """

    url: str = field(repr=False)
    sse: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The address without what may be secret."""
        parts = urlsplit(self.url)
        query = "?…" if parts.query else ""
        return visible(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}")

    @property
    def mark(self) -> str:
        """Another one for another server. A key in the address may change."""
        return digest([self.shown, self.sse])


Where = Program | NetworkServer


def visible(text: str) -> str:
    """The text with all written out that a terminal would obey or not show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def digest(value: object) -> str:
    """The same short text for the same value of JSON, and another for another."""
    told = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(told.encode("ascii")).hexdigest()
