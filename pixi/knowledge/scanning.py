"""Walks a database's folder: which files it holds, without opening one of them."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pixi.core.errors import ConfigError
from pixi.knowledge.about import describes
from pixi.knowledge.entry import Fault
from pixi.knowledge.one_line import on_one_line
from pixi.knowledge.sources import NAME, named_by, sources_of


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as the walk saw it.

    Attributes:
        path: within the folder, with `/` between the parts.
        size: in bytes.
        mtime: when it was written, in nanoseconds.
    """

    path: str
    size: int
    mtime: int


@dataclass(slots=True)
class Walk:
    """One walk over a folder. What it came upon besides files is known when it has ended.

    Attributes:
        root: the folder itself, links resolved.
        readable: whether a file of this name is a document.
        faults: links that lead out, folders that cannot be read, names that cannot be said.
        unknown: how many files of each other suffix were passed over.
        unseen: folders that could not be looked into; what was known of them still stands.
        places: where each file of another folder lies, by its path here.
    """

    root: Path
    readable: Callable[[str], bool]
    faults: list[Fault] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    unseen: list[str] = field(default_factory=list)
    places: dict[str, Path] = field(default_factory=dict)
    _links: list[tuple[str, str]] = field(default_factory=list)
    _reached: set[str] = field(default_factory=set)

    def files(self) -> Iterator[Seen]:
        """Every document once. Links are followed last: what they lead to has a path of its own mostly.

        Raises:
            OSError: the folder itself cannot be read.
        """
        with os.scandir(self.root):
            pass
        self._reached = {str(self.root)}
        yield from self._folder(str(self.root), "")
        while self._links:
            links, self._links = sorted(self._links), []
            for real, path in links:
                yield from self._link(real, path)
        yield from self._sources()

    def some(self, paths: Sequence[str]) -> list[Seen] | None:
        """The documents at these paths within the folder, and below them; None: a whole walk is needed.

        So it is where a link takes part: what it shows may have another path.
        """
        found: list[Seen] = []
        for path in paths:
            place = self.root / path
            real = Path(os.path.realpath(place))
            if not _speakable(path) or real != place or not real.is_relative_to(self.root):
                return None
            try:
                status = place.lstat()
            except OSError:
                continue  # it is gone
            if stat.S_ISDIR(status.st_mode):
                found += self._folder(str(place), path)
            elif not _described(path) and (seen := self._document(path, status)):
                found.append(seen)
        return None if self._links else found

    def _folder(self, folder: str, within: str) -> Iterator[Seen]:
        """A folder and those in it, without recursion: folders may lie in each other very deep."""
        waiting = [(folder, within)]
        while waiting:
            folder, within = waiting.pop()
            try:
                with os.scandir(folder) as inside:
                    entries = sorted(inside, key=lambda entry: entry.name)
            except OSError as error:
                self.unseen.append(within)
                self._fault(within, f"this folder cannot be read ({error.strerror}); mend its permissions.")
                continue
            below: list[tuple[str, str]] = []
            for entry in entries:
                if _hidden(entry.name) or (not within and entry.name == NAME):
                    continue
                path = f"{within}/{entry.name}" if within else entry.name
                if not _speakable(path):
                    self._fault(path, "its name is not Unicode; give it another.")
                elif entry.is_symlink():
                    self._links.append((os.path.realpath(entry.path), path))
                elif entry.is_dir(follow_symlinks=False):
                    # A junction of Windows is a folder to Python, and may lead anywhere.
                    if self._enters(os.path.realpath(entry.path) if os.name == "nt" else entry.path, path):
                        below.append((entry.path, path))
                elif seen := self._file(entry, path):
                    yield seen
            waiting += reversed(below)

    def _enters(self, real: str, path: str) -> bool:
        if not Path(real).is_relative_to(self.root):
            self._fault(path, "this link leads out of the folder; put the files themselves there.")
            return False
        if real in self._reached:
            return False
        self._reached.add(real)
        return True

    def _link(self, real: str, path: str) -> Iterator[Seen]:
        """What lies in the folder by itself has been met; a link can still lead to a hidden place."""
        if not Path(real).is_relative_to(self.root):
            self._fault(path, "this link leads out of the folder; put the file itself there.")
        elif os.path.isdir(real):
            # A folder that was met, or one in it, is not met again; neither is one that holds the link.
            if real not in self._reached and not str(self.root).startswith(f"{real}{os.sep}"):
                self._reached.add(real)
                yield from self._folder(real, path)
        elif self._is_hidden(real) and real not in self._reached:
            self._reached.add(real)
            try:
                status = os.stat(real)
            except OSError:
                return  # it leads nowhere
            if seen := self._document(path, status):
                yield seen

    def _is_hidden(self, real: str) -> bool:
        return any(_hidden(part) for part in Path(real).relative_to(self.root).parts)

    def _file(self, entry: "os.DirEntry[str]", path: str) -> Seen | None:
        if _described(path):
            return None
        try:
            return self._document(path, entry.stat(follow_symlinks=False))
        except OSError:
            return None  # it went away just now

    def _document(self, path: str, status: os.stat_result) -> Seen | None:
        if not stat.S_ISREG(status.st_mode):
            return None  # a pipe or a device: to open it could wait for ever
        if not self.readable(path.rsplit("/", 1)[-1]):
            suffix = os.path.splitext(path)[1].lower()
            self.unknown[on_one_line(suffix, longest=20)] += 1
            return None
        return Seen(path, status.st_size, status.st_mtime_ns)

    def _sources(self) -> Iterator[Seen]:
        try:
            named = sources_of(self.root)
        except ConfigError as error:
            self._fault(NAME, str(error))
            return
        for path, place in named_by(*named) if named else ():
            if os.path.lexists(self.root / path):
                continue  # what lies in the folder itself comes first
            try:
                seen = self._document(path, place.stat())
            except OSError:
                continue
            if seen:
                self.places[path] = place
                yield seen

    def _fault(self, path: str, reason: str) -> None:
        self.faults.append(Fault(path.encode("utf-8", "replace").decode(), reason))


def _described(path: str) -> bool:
    return "/" not in path and (describes(path) or path == NAME)


def _hidden(name: str) -> bool:
    """By a leading dot; or what an office program lays beside a file that is open."""
    return name.startswith((".", "~$"))


def _speakable(path: str) -> bool:
    """False for a name of bytes that are no Unicode: it could be neither kept nor shown."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)
