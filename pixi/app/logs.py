"""The forms of log lines, and the one line for each turn."""

import logging
import math
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import asdict

from pixi.core.events import TurnReport
from pixi.core.masking import SecretRedactor
from pixi.core.untrusted import escaped_line

_log = logging.getLogger("pixi.turns")

TURN_SPAN: ContextVar[Mapping[str, str]] = ContextVar("TURN_SPAN", default=MappingProxyType({}))
"""The `trace_id` and `span_id` of the turn that a task is at, where turns are traced."""

TRACE_HEADERS: ContextVar[Mapping[str, str]] = ContextVar("TRACE_HEADERS", default=MappingProxyType({}))
"""The trace that a task goes on with, as headers of W3C Trace Context. It goes with a conversation over the
queue, which adds `queued_at`: when that was, in nanoseconds since the epoch."""


def form_of(record: logging.LogRecord, mask: SecretRedactor) -> dict[str, Any]:
    """Return the record as JSON has it: time, level, logger, message, the turn's trace and further fields."""
    fields: dict[str, Any] = {
        "time": time_of(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": message_of(record),
        **TURN_SPAN.get(),
    }
    more = getattr(record, "fields", None)
    if isinstance(more, Mapping):
        fields |= {key: value for key, value in more.items() if key not in fields}
    if trace := trace_of(record):
        fields["traceback"] = trace
    return {_name(key): harmless_value(value, mask) for key, value in fields.items()}


def time_of(created: float) -> str:
    """Return the time of a log record, in its JSON form."""
    return datetime.fromtimestamp(created).astimezone().isoformat(timespec="milliseconds")


def message_of(record: logging.LogRecord) -> str:
    """Return the message; of an exception also its name and text, in the same line."""
    try:
        told = record.getMessage()
    except (TypeError, ValueError, KeyError):  # somebody's text and values do not fit
        told = str(record.msg)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        text = " ".join(str(error).split())
        told += f": {type(error).__name__}{f': {text}' if text else ''}"
    return told


def trace_of(record: logging.LogRecord) -> str:
    """Return the traceback; "" where there is none."""
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return logging.Formatter().formatException(record.exc_info)


def _name(key: object) -> str:
    """Return the name of a field; one that could stand in code is harmless already."""
    name = str(key)
    return name if name.isidentifier() else escaped_line(name)


def harmless_value(value: object, mask: SecretRedactor) -> object:
    """Return the value as plain data, with every text in it made harmless."""
    if isinstance(value, Mapping):
        return {_name(key): harmless_value(inner, mask) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [harmless_value(inner, mask) for inner in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return "\n".join(escaped_line(line) for line in mask.redact(str(value)).split("\n"))


def log_turn(report: TurnReport) -> None:
    """Write the line. Its record carries the report as `fields`, for logs that machines read."""
    told = asdict(report)
    told["usage"] = asdict(report.usage)
    level = logging.WARNING if report.finish == "error" else logging.INFO
    _log.log(level, "%s", _line(report), extra={"fields": told})


def _line(report: TurnReport) -> str:
    usage = report.usage
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    parts = [
        f"turn {report.turn} {report.finish}",
        f"{report.persona} on {report.model}",
        f"to {report.person} in {report.conversation}",
        f"{report.steps} {'step' if report.steps == 1 else 'steps'}",
        f"{usage.prompt_tokens:,}{cached} + {usage.completion_tokens:,} tokens",
        f"${report.cost:.5f}" if report.cost else "",
        "nothing visible"
        if report.first_visible is None
        else f"first visible after {report.first_visible:.1f} s",
        ", ".join(f"{count} {kind}" for kind, count in sorted(report.effects.items())),
        f"{report.seconds:.1f} s",
    ]
    return " · ".join(part for part in parts if part)
