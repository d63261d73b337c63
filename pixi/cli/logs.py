"""Output of a running bot for its operator: log lines, and its figures where a signal asks for them."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import asdict

from pixi.app.logs import form_of, message_of, trace_of
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import escaped_line
from pixi.settings.secret import ambient_secrets

if TYPE_CHECKING:
    from rich.text import Text

    from pixi.app.service import BotService

_log = logging.getLogger("pixi.vitals")


@contextmanager
def vitals_on_signal(service: "BotService") -> Iterator[None]:
    """Answer `kill -USR1 PID` with a line in the log, until the block is left. Windows has no such signal."""
    if not hasattr(signal, "SIGUSR1"):
        yield
        return
    loop = asyncio.get_running_loop()

    def asked(_: int, __: object) -> None:
        # Not at once: the loop may be asleep, and what is counted belongs to it.
        loop.call_soon_threadsafe(_tell, service)

    before = signal.signal(signal.SIGUSR1, asked)
    try:
        yield
    finally:
        # Ignored from now on where nobody minded it: by default it would end the program.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if before in (None, signal.SIG_DFL) else before)


def _tell(service: "BotService") -> None:
    vitals = service.vitals()
    told = [
        f"up {_duration(vitals.up_seconds)}",
        f"{vitals.conversations} conversations in memory, {vitals.talking} being answered",
        f"{vitals.tasks} tasks",
        f"{vitals.threads} threads",
        "" if vitals.files is None else f"{vitals.files} open files",
        "" if vitals.megabytes is None else f"{vitals.megabytes:,} MB",
        f"the loop came {vitals.longest_lag_ms:.0f} ms late at the most",
    ]
    _log.info("%s", " · ".join(part for part in told if part), extra={"fields": asdict(vitals)})


def _duration(seconds: float) -> str:
    minutes = int(seconds) // 60
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours}:{minutes % 60:02}" if days else f"{hours}:{minutes % 60:02}"


LIBRARIES = (
    "discord",
    "aiohttp",
    "httpx",
    "httpx2",
    "httpcore",
    "asyncio",
    "watchfiles",
    "PIL",
    "opentelemetry",
    "urllib3",
)
"""Libraries that tell more than an operator wants to know."""

SILENT = ("mcp", "client", "procrastinate", "psycopg")
"""The MCP SDK and the queue log servers' faults with tracebacks. Pixi says itself what matters of them."""

_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red"}


def set_up(stream: TextIO, *, as_json: bool, debug: bool) -> SecretRedactor:
    """Let everything that is logged go to a stream; gives what hides secrets, to be told of them.

    Args:
        stream: where lines go.
        as_json: one JSON object a line; otherwise lines for people, coloured where the stream is a terminal.
        debug: more lines, and tracebacks where people read. JSON always has them.
    """
    mask = SecretRedactor()
    mask.learn(ambient_secrets())
    handler = _JsonLines(stream, mask) if as_json else _PeoplesLines(stream, mask, debug=debug)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("pixi").setLevel(logging.DEBUG if debug else logging.INFO)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.WARNING)
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    logging.captureWarnings(True)
    sys.excepthook = _logged
    return mask


def _logged(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("pixi").critical("this should not have happened", exc_info=(kind, error, trace))


class _JsonLines(logging.Handler):
    """Writes each record as one JSON object a line."""

    def __init__(self, stream: TextIO, mask: SecretRedactor) -> None:
        super().__init__()
        self._stream = stream
        self._mask = mask

    def emit(self, record: logging.LogRecord) -> None:
        # A full disk, or a stream that was closed: the talk goes on without a log.
        with suppress(OSError, ValueError):
            self._stream.write(json.dumps(form_of(record, self._mask), ensure_ascii=False) + "\n")
            self._stream.flush()


class _PeoplesLines(logging.Handler):
    """Writes `14:03:22  info     turns  …`, coloured where the stream is a terminal."""

    def __init__(self, stream: TextIO, mask: SecretRedactor, *, debug: bool) -> None:
        # Imported here: only who reads the log needs it.
        from rich.console import Console

        super().__init__()
        self._console = Console(file=stream, soft_wrap=True, highlight=False, markup=False, emoji=False)
        self._mask = mask
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            self._console.print(self._line(record))
            for line in trace_of(record).splitlines() if self._debug else ():
                # Set off, so that no text in it passes for a line of the log.
                self._console.print(f"    | {escaped_line(self._mask.redact(line))}", style="dim")

    def _line(self, record: logging.LogRecord) -> "Text":
        from rich.text import Text

        level = record.levelname.lower()
        told = escaped_line(self._mask.redact(message_of(record)))
        name = escaped_line(record.name.removeprefix("pixi.") or record.name)
        return Text.assemble(
            (f"{datetime.fromtimestamp(record.created):%H:%M:%S}  ", "dim"),
            (f"{level:<8} ", _STYLES.get(level, "dim")),
            (f"{name}  ", "cyan"),
            (told, _STYLES.get(level, "")),
        )
