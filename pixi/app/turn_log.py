"""One line in the log for each turn: whom it answered, on what, what it cost, and what was done."""

import logging
from dataclasses import fields

from msgspec.structs import asdict

from pixi.core.report import TurnReport

_log = logging.getLogger("pixi.turns")


def log_turn(report: TurnReport) -> None:
    """Write the line. Its record carries the report as `fields`, for logs that machines read."""
    told = {each.name: getattr(report, each.name) for each in fields(report)}
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
