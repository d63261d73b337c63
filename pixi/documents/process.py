"""A process that reads, as seen from here: started, asked, watched, ended."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import msgspec

from pixi.core.errors import ConfigError
from pixi.documents.confinement import Confinement
from pixi.documents.files import Documents, FileLimits, SetAside, open_regular
from pixi.documents.wire import (
    HANDS_OVER,
    LENGTH,
    LONGEST_FRAME,
    MESSAGES,
    OVERHEAD,
    FileRefused,
    Message,
    Piece,
    WorkerReady,
    WorkerSpent,
    framed,
    joined,
    weight,
)

_SCRIPT = Path(__file__).with_name("worker.py")
_START_SECONDS = 60.0
_PIPE_BYTES = 1024 * 1024
_MOST_OPENING = 16  # threads that open files at once, those included that a drive keeps waiting
_SLACK = 1.05  # what may come is counted here as there, but for rounding
_OUT_OF_TIME = getattr(signal, "SIGXCPU", None)

_ENVIRONMENT = frozenset(
    {
        *("APPDATA", "DYLD_LIBRARY_PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"),
        *("PYTHONUSERBASE", "SYSTEMROOT", "USERPROFILE"),
    }
)
"""Variables for Python to find its libraries. No key or token goes to where strangers' files are read."""


class ProcessLost(Exception):
    """The process ended, or had to be ended, with files unanswered.

    Attributes:
        verdict: on the first of these, where it is to blame beyond doubt; else None.
        spent: the process had used what it may, and none of these is to blame.
    """

    def __init__(self, verdict: SetAside | None = None, *, spent: bool = False) -> None:
        super().__init__()
        self.verdict = verdict
        self.spent = spent


_Opened = tuple[dict[int, SetAside], list[int]]
"""Files that could not be opened, by number; and the descriptors of the others, which are to be closed."""


class FileOpener:
    """Opens files and hands them over, in threads of its own.

    A file on a drive in the network that is gone keeps whoever opens it waiting, perhaps for good. So the
    threads are not those of the event loop, nothing waits for them at the end, and there are few.
    """

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(_MOST_OPENING)

    async def hand_over(self, asking: socket.socket, paths: Sequence[bytes], limits: FileLimits) -> _Opened:
        """Call `_hand_over` in a thread. Cancelled, it lets the thread go on; what that opens is closed."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        handed: asyncio.Future[_Opened] = loop.create_future()

        def finish(opened: _Opened | OSError) -> None:
            self._room.release()
            if handed.done():
                _close_opened(opened)
            elif isinstance(opened, OSError):
                handed.set_exception(opened)
            else:
                handed.set_result(opened)

        def work() -> None:
            opened: _Opened | OSError = OSError("the thread that opens files failed")
            try:
                opened = _hand_over(asking, paths, limits)
            except OSError as error:  # raised where it is waited for
                opened = error
            finally:
                try:
                    loop.call_soon_threadsafe(finish, opened)
                except RuntimeError:  # the loop is closed
                    _close_opened(opened)

        threading.Thread(target=work, name="opener", daemon=True).start()
        return await handed


class ReadingProcess:
    """A process that reads. Made by `start`.

    Attributes:
        confinement: what the kernel refuses it, as it says.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        asking: socket.socket | None,
        limits: FileLimits,
        opener: FileOpener,
    ) -> None:
        self.confinement = Confinement()
        self._process = process
        self._asking = asking  # None where it is asked through its standard input, see `wire.py`
        self._limits = limits
        self._opener = opener
        self._spent = False  # it is told to end, or says that it will

    @classmethod
    async def start(cls, limits: FileLimits, opener: FileOpener) -> "ReadingProcess":
        """Start one, and wait until it is up.

        Raises:
            ConfigError: it does not come up.
        """
        here, there = socket.socketpair() if HANDS_OVER else (None, None)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-B", str(_SCRIPT)),
                stdin=asyncio.subprocess.PIPE if there is None else there.fileno(),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_PIPE_BYTES,
                env={name: value for name, value in os.environ.items() if name.upper() in _ENVIRONMENT},
                # Ctrl-C in the terminal is this process's business; that one ends when it is told to.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except BaseException:
            if here is not None:
                here.close()
            raise
        finally:
            if there is not None:
                there.close()
        started = cls(process, here, limits, opener)
        try:
            await started._greet()
        except BaseException:
            await started.close()
            raise
        return started

    @property
    def pid(self) -> int:
        """Process number."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Return whether the process can be asked."""
        return not self._spent and self._process.returncode is None

    def kill(self) -> None:
        """End it by force. Calling it twice does no harm."""
        self._spent = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End it and wait until it is gone."""
        self.kill()
        if self._asking is not None:
            self._asking.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()

    async def ask(
        self, paths: Sequence[bytes]
    ) -> AsyncGenerator[Sequence[tuple[int, Documents | SetAside]], None]:
        """Have these files read, at most `MOST_FILES`. What comes of each is given with its number.

        It comes in handfuls: first those files that cannot be opened, then the others in order.

        Raises:
            ProcessLost: the files that were not answered yet have to be asked for anew, of another process.
        """
        answered = 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.seconds
        files: list[int] = []
        try:
            unopened, files = await self._ask_for(paths, deadline)
            if unopened:
                yield list(unopened.items())
            asked = [number for number in range(len(paths)) if number not in unopened]
            answers = _Answers(len(asked), self._limits)
            while answered < len(asked):
                handful = answers.take(await self._receive(deadline))
                await asyncio.sleep(0)  # more may be there already: others have their turn between
                answered += len(handful)
                if answers.spent:
                    self.kill()
                if handful:
                    yield [(asked[number], outcome) for number, outcome in handful]
                    deadline = loop.time() + self._limits.seconds
                if answers.spent and answered < len(asked):
                    raise ProcessLost(spent=True)
        except TimeoutError:
            raise ProcessLost(
                SetAside(f"takes longer than {self._limits.seconds:g} s to read; split it, or take it out")
            ) from None
        except (msgspec.MsgspecError, _Nonsense):
            raise ProcessLost(SetAside("confuses what reads it; save it anew, or take it out")) from None
        except (asyncio.IncompleteReadError, OSError):
            await self.close()
            raise ProcessLost(_ended(self._process.returncode, self._limits)) from None
        finally:
            # Not before: on macOS a file that is closed while it is handed over may be lost on the way.
            _close_all(files)

    async def _ask_for(self, paths: Sequence[bytes], deadline: float) -> _Opened:
        """Send files, or their paths. Returns what came of opening them."""
        if self._asking is None:
            await self._send(framed(list(paths)), deadline)
            return {}, []
        async with asyncio.timeout_at(deadline):
            return await self._opener.hand_over(self._asking, paths, self._limits)

    async def _greet(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_SECONDS
        try:
            if self._asking is None:
                await self._send(framed(self._limits), deadline)
            else:
                self._asking.sendall(framed(self._limits))  # there is room for so little
            match await self._receive(deadline):
                case [WorkerReady(confinement=confinement)]:
                    self.confinement = confinement
                    return
        except (TimeoutError, asyncio.IncompleteReadError, OSError, msgspec.MsgspecError, _Nonsense):
            pass  # however it failed, the mend is the same
        raise ConfigError(
            "Documents cannot be read: the process that reads them does not start.\n"
            f"Install pixi-persona anew, or free memory: it may use {self._limits.megabytes} MiB."
        )

    async def _send(self, frame: bytes, deadline: float) -> None:
        assert self._process.stdin is not None
        async with asyncio.timeout_at(deadline):
            self._process.stdin.write(frame)
            await self._process.stdin.drain()

    async def _receive(self, deadline: float) -> list[Message]:
        assert self._process.stdout is not None
        async with asyncio.timeout_at(deadline):
            length: int = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))[0]
            if length > LONGEST_FRAME:
                raise _Nonsense
            return MESSAGES.decode(await self._process.stdout.readexactly(length))


def _hand_over(asking: socket.socket, paths: Sequence[bytes], limits: FileLimits) -> _Opened:
    """Open files and send them through a socket. Returns what came of opening them.

    A process that is handed a file needs no right to open any, and gets none.

    Raises:
        OSError: nobody is at the other end.
    """
    unopened: dict[int, SetAside] = {}
    names: list[bytes] = []
    files: list[int] = []
    with contextlib.ExitStack() as opened, asking.dup() as own:  # its own: the other may be closed meanwhile
        opened.callback(_close_all, files)
        for number, path in enumerate(paths):
            try:
                files.append(open_regular(path, limits))
            except SetAside as fault:
                unopened[number] = fault
                continue
            names.append(os.path.basename(path))
        if files:
            frame = framed(names)
            own.sendall(frame[socket.send_fds(own, [frame], files) :])
        opened.pop_all()  # from here on they are the caller's to close
    return unopened, files


def _close_opened(opened: _Opened | OSError) -> None:
    if not isinstance(opened, OSError):
        _close_all(opened[1])


def _close_all(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


class _Nonsense(Exception):
    """A process sent words that none of ours would send."""


class _Answers:
    """Makes outcomes of messages, and believes nothing that goes beyond what was asked and allowed.

    Attributes:
        spent: the process said that it ends.
    """

    def __init__(self, files: int, limits: FileLimits) -> None:
        self.spent = False
        self._files = files
        self._limits = limits
        self._at = 0  # the number of the file that is being answered; what follows is of that file
        self._pieces: list[Piece] = []
        self._weight = 0
        self._records = 0

    def take(self, messages: Sequence[Message]) -> list[tuple[int, Documents | SetAside]]:
        """Return the outcomes that these complete."""
        done: list[tuple[int, Documents | SetAside]] = []
        for message in messages:
            outcome: Documents | SetAside | None
            match message:
                case Piece():
                    outcome = self._add(message)
                case FileRefused(reason=reason, again=again):
                    outcome = SetAside(reason, again=again)
                case WorkerSpent():
                    self.spent = True
                    continue
                case WorkerReady():
                    raise _Nonsense
            if message.file != self._at or message.file >= self._files:
                raise _Nonsense
            if outcome is not None:
                done.append((self._at, outcome))
                self._at, self._pieces, self._weight, self._records = self._at + 1, [], 0, 0
        return done

    def _add(self, piece: Piece) -> Documents | None:
        if piece.last and not self._pieces:  # all of it at once, as nearly always
            return Documents(piece.documents, piece.note)
        if piece.note and not piece.last:  # a note belongs to all of it, and would weigh nothing here
            raise _Nonsense
        self._pieces.append(piece)
        self._weight += OVERHEAD + sum(map(weight, piece.documents))  # a piece of nothing counts, too
        self._records += len(piece.documents) - bool(piece.documents and piece.joins)
        most = self._limits.characters * _SLACK + _PIPE_BYTES
        if self._weight > most or self._records > self._limits.records:
            raise _Nonsense
        return Documents(joined(self._pieces), piece.note) if piece.last else None


def _ended(code: int | None, limits: FileLimits) -> SetAside | None:
    """Return what the end of a process says of the file that it was reading."""
    if code is not None and -code == _OUT_OF_TIME:
        return SetAside(f"takes longer than {limits.seconds:g} s to read; split it, or take it out")
    return None
