"""The log of a program that runs for long: lines for people on a terminal, JSON for programs elsewhere."""

import json
import logging
import math
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from pixi.cli.harmless import on_one_line
from pixi.core.masking import Mask
from pixi.settings.hidden import ambient_secrets

if TYPE_CHECKING:
    from rich.text import Text

LIBRARIES = (
    "discord",
    "aiohttp",
    "openai",
    "anthropic",
    "google_genai",
    "httpx",
    "httpx2",
    "httpcore",
    "asyncio",
    "watchfiles",
    "PIL",
)
"""Libraries that tell more than an operator wants to know."""

SILENT = ("mcp", "client")
"""Of the MCP SDK, which logs with tracebacks what servers do wrong. What matters of it, Pixi says itself."""

_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red"}


def set_up(stream: TextIO, *, as_json: bool, debug: bool) -> Mask:
    """Let everything that is logged go to a stream; gives what hides secrets, to be told of them.

    Args:
        stream: where lines go.
        as_json: one JSON object a line; otherwise lines for people, coloured where the stream is a terminal.
        debug: more lines, and tracebacks where people read. JSON always has them.
    """
    mask = Mask()
    mask.learn(ambient_secrets())
    handler = _Lines(stream, _json_line(mask) if as_json else None, mask, debug=debug)
    root = logging.getLogger()
    for other in list(root.handlers):
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
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


class _Lines(logging.Handler):
    """Writes each record as one line, whatever is in it."""

    def __init__(
        self,
        stream: TextIO,
        as_text: Callable[[logging.LogRecord], str] | None,
        mask: Mask,
        *,
        debug: bool,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._as_text = as_text
        self._people = None if as_text else _PeoplesLine(stream, mask, debug=debug)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._people is not None:
                self._people.write(record)
            elif self._as_text is not None:
                self._stream.write(self._as_text(record) + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            pass  # a full disk, or a stream that was closed: the talk goes on without a log


class _PeoplesLine:
    """`14:03:22  info     turns  …`, coloured where the stream is a terminal."""

    def __init__(self, stream: TextIO, mask: Mask, *, debug: bool) -> None:
        # Imported here: only who reads the log needs it.
        from rich.console import Console

        self._console = Console(file=stream, soft_wrap=True, highlight=False, markup=False, emoji=False)
        self._mask = mask
        self._debug = debug

    def write(self, record: logging.LogRecord) -> None:
        """Print the record, and its traceback when debugging."""
        self._console.print(self._line(record))
        if self._debug:
            for line in _trace(record).splitlines():
                # Set off, so that no text in it passes for a line of the log.
                self._console.print(f"    | {on_one_line(self._mask.redact(line))}", style="dim")

    def _line(self, record: logging.LogRecord) -> "Text":
        from rich.text import Text

        level = record.levelname.lower()
        told = on_one_line(self._mask.redact(_message(record)))
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        return Text.assemble(
            (time, "dim"),
            "  ",
            (f"{level:<8}", _STYLES.get(level, "dim")),
            " ",
            (_short(record.name), "cyan"),
            "  ",
            (told, _STYLES.get(level, "")),
        )


def _short(name: str) -> str:
    """A logger's name as people want it: `turns` for `pixi.turns`."""
    return on_one_line(name.removeprefix("pixi.") or name)


def _message(record: logging.LogRecord) -> str:
    """What is told; of an exception also its name and text, in the same line."""
    try:
        told = record.getMessage()
    except (TypeError, ValueError, KeyError):  # somebody's text and values do not fit
        told = str(record.msg)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text = " ".join(str(error).split())
        told += f": {type(error).__name__}{f': {text}' if text else ''}"
    return told


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return logging.Formatter().formatException(record.exc_info)


def _json_line(mask: Mask) -> Callable[[logging.LogRecord], str]:
    def line(record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        more = getattr(record, "fields", None)
        if isinstance(more, Mapping):
            fields |= {key: value for key, value in more.items() if key not in fields}
        if trace := _trace(record):
            fields["traceback"] = trace
        return json.dumps(_harmless(fields, mask), ensure_ascii=False)

    return line


def _name(key: object) -> str:
    """The name of a field; one that could stand in code is harmless already."""
    name = str(key)
    return name if name.isidentifier() else on_one_line(name)


def _harmless(value: object, mask: Mask) -> object:
    """The value as plain data, with every text in it made harmless."""
    if isinstance(value, Mapping):
        return {_name(key): _harmless(inner, mask) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_harmless(inner, mask) for inner in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return "\n".join(on_one_line(line) for line in mask.redact(str(value)).split("\n"))
