"""The process that reads: takes open files at its standard input, and answers with documents at its output.

Started by its file, in the room of `process.py`. It imports no more of the package than it needs.
"""

import contextlib
import gc
import importlib.util
import os
import queue
import socket
import sys
import threading
import time
from pathlib import Path

_IDLE_SECONDS = 60.0  # unasked for so long, it ends and gives its memory back; a new one starts quickly


def _find_package() -> None:
    """Let `import pixi` give the package that this file is of, whatever else is installed.

    The folder that holds the package does not go on the path: what stands beside it is not ours.
    """
    home = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "pixi", home / "__init__.py", submodule_search_locations=[str(home)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["pixi"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["pixi"])


if __name__ == "__main__":
    _find_package()

from pixi.documents.confinement import MemoryUse, allow_computing, confine  # noqa: E402
from pixi.documents.files import (  # noqa: E402
    BROKEN,
    FileLimits,
    Original,
    SetAside,
    open_regular,
    original_of,
)
from pixi.documents.formats import is_slow, read_documents  # noqa: E402
from pixi.documents.wire import (  # noqa: E402
    HANDS_OVER,
    LENGTH,
    LIMITS,
    MOST_FILES,
    PATHS,
    PIECE_CHARACTERS,
    DocumentCleaner,
    FileRefused,
    Message,
    Piece,
    WorkerReady,
    WorkerSpent,
    framed,
    one_line,
    pieces,
)

_UNSENT_SECONDS = 0.02
_SMALL_FILE = 32_768


class Outbox:
    """Answers on their way out: gathered while they are small and quick, so that one write carries many.

    Attributes:
        file: which of the files asked for is being read.
    """

    def __init__(self, descriptor: int) -> None:
        self.file = 0
        self._descriptor = descriptor
        self._waiting: list[Message] = []
        self._weight = 0
        self._sent = time.monotonic()

    def put(self, message: Message, size: int = 0) -> None:
        """Send it, soon."""
        self._waiting.append(message)
        self._weight += size
        if self._weight > PIECE_CHARACTERS:
            self.flush()

    def flush_if_late(self) -> None:
        """Send what waits, if anything has waited for long."""
        if time.monotonic() - self._sent > _UNSENT_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        self._sent = time.monotonic()
        if not self._waiting:
            return
        left = memoryview(framed(self._waiting))
        self._waiting, self._weight = [], 0
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            os._exit(0)  # nobody listens any more


class WorkerInput:
    """Requests to this process, as they come in at its standard input."""

    def __init__(self) -> None:
        # One of the two, see `wire.py`.
        self._socket = socket.socket(fileno=os.dup(0)) if HANDS_OVER else None
        self._pipe = None if HANDS_OVER else os.fdopen(os.dup(0), "rb")

    def frame(self) -> tuple[bytes, list[int]]:
        """Return the next frame and the files that came with it. Ends the process if nobody asks any more."""
        head, files = self._read(LENGTH.size)
        body, _ = self._read(LENGTH.unpack(head)[0])
        return body, files

    def files(self) -> list[tuple[bytes, int | None]]:
        """Return the next files to read: the name of each and its descriptor, or its path and None."""
        body, files = self.frame()
        names = PATHS.decode(body)
        if self._socket is None:
            return [(name, None) for name in names]
        if len(files) != len(names):
            os._exit(1)  # the system did not let them all in
        return list(zip(names, files, strict=True))

    def _read(self, count: int) -> tuple[bytes, list[int]]:
        data, files = b"", []
        if self._pipe is not None:
            data = self._pipe.read(count)
        while self._socket is not None and len(data) < count:
            part, came, _, _ = socket.recv_fds(self._socket, count - len(data), MOST_FILES)
            if not part:
                break
            data += part
            files += came
        if len(data) < count:
            os._exit(0)
        return data, files


def main() -> None:
    """Read what is asked for, until nobody asks."""
    # The libraries may print what they like: the pipe is kept apart from what they know as output.
    pipe = os.dup(1)
    asking = WorkerInput()
    with open(os.devnull, "r+b", buffering=0) as nowhere:
        for standard in (0, 1, 2):
            os.dup2(nowhere.fileno(), standard)
    limits = LIMITS.decode(asking.frame()[0])
    memory = MemoryUse()
    confinement = confine(limits)
    gc.freeze()
    outbox = Outbox(pipe)

    def last_words(_: type[BaseException], error: BaseException, __: object) -> None:
        """Tell of which file this process ends, with what nobody caught."""
        outbox.put(FileRefused(outbox.file, _broken(error)))
        outbox.put(WorkerSpent())
        outbox.flush()

    sys.excepthook = last_words
    asked: queue.SimpleQueue[list[tuple[bytes, int | None]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asking, asked), daemon=True).start()
    outbox.put(WorkerReady(confinement))
    outbox.flush()
    with contextlib.suppress(queue.Empty):
        while True:
            if not _answer(asked.get(timeout=_IDLE_SECONDS), limits, outbox, memory):
                return


def _listen(asking: WorkerInput, asked: "queue.SimpleQueue[list[tuple[bytes, int | None]]]") -> None:
    """Listen in a thread: while a file is read, the end of the one who asked ends this process too."""
    while True:
        asked.put(asking.files())


def _answer(
    files: list[tuple[bytes, int | None]], limits: FileLimits, outbox: Outbox, memory: MemoryUse
) -> bool:
    """Read these files; False: this process has used up what it may."""
    for number, (name, descriptor) in enumerate(files):
        outbox.file = number
        outbox.flush_if_late()
        allow_computing(limits.seconds)
        try:
            opened = open_regular(name, limits) if descriptor is None else descriptor
            _read(number, original_of(opened, name, limits), limits, outbox)
        except SetAside as fault:
            outbox.put(FileRefused(number, one_line(fault.reason), fault.again))
        except MemoryError:
            outbox.put(
                FileRefused(number, f"needs more than {limits.megabytes} MiB of memory to read; split it")
            )
            outbox.put(WorkerSpent())
            outbox.flush()
            return False
        except BROKEN as error:
            outbox.put(FileRefused(number, _broken(error)))
    spent = memory.was_above(limits.megabytes / 2)
    if spent:
        outbox.put(WorkerSpent())
    outbox.flush()
    return not spent


def _read(number: int, original: Original, limits: FileLimits, outbox: Outbox) -> None:
    with original.file:
        if original.size > _SMALL_FILE or is_slow(original.name):
            outbox.flush()  # what is done is told first: should this one take all the time, it alone is late
        notes: list[str] = []
        cleaner = DocumentCleaner(limits)
        held: Piece | None = None
        for piece in pieces(number, cleaner.tidied(read_documents(original, notes.append))):
            if held is not None:
                outbox.put(held, PIECE_CHARACTERS)
            held = piece
    documents = held.documents if held is not None else ()
    joins = held.joins if held is not None else 0
    outbox.put(Piece(number, documents, joins, True, one_line("; ".join(notes))), cleaner.last_weight())


def _broken(error: BaseException) -> str:
    return f"is broken, or not what its name says ({type(error).__name__}); save it anew, or take it out"


if __name__ == "__main__":
    main()
