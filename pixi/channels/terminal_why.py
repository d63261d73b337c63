"""Why the last reply is as it is, told at a terminal."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime

from pixi.channels.shortening import shortened
from pixi.channels.terminal_own import told_time
from pixi.channels.terminal_text import one_line
from pixi.channels.tool_words import call_in_words
from pixi.core.figures import dollars, how_many
from pixi.core.lines import AssistantLine, ToolCall, UserLine
from pixi.core.notes import notes_in
from pixi.core.unstamping import LinePart, parts_of
from pixi.store.kept import LookedBack, TurnRecord

_LONGEST = 160  # characters of a fact, a passage or a thought
_MOST = 6  # of each
_WIDE = 10  # columns of what stands at the left


def told_why(looked_back: LookedBack, now: datetime) -> str:
    """Tell of a turn that is over: the model, what it was offered and shown, what it thought and did.

    Args:
        looked_back: the turn.
        now: the time, as told here.
    """
    record = looked_back.record
    when = told_time(datetime.fromtimestamp(record.began).astimezone(), now)
    if not record.lines:
        return f"The reply of {when} was forgotten."
    parts = _shown(looked_back)
    rows = [
        f"Why the reply of {when} is as it is:",
        *_row("model", [f"{one_line(record.model)}, {how_many(record.steps, 'request')}"]),
        *_row("tokens", [_tokens(record)]),
        *_row("offered", _offered(looked_back)),
        *_row("remembers", _facts(parts, "memory")),
        *_row("told", _facts(parts, "notice")),
        *_row("passages", _facts(parts, "document")),
        *_row("history", _history(looked_back)),
        *_row("thought", map(_short, notes_in(record.lines))),
        *_row("did", _calls(record)),
        *_row("ended", _end(looked_back)),
    ]
    return "\n".join(rows)


def _row(title: str, told: Iterable[str]) -> Iterator[str]:
    """One line each, the first with a title; of many the first ones."""
    lines = list(told)
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"… and {len(lines) - _MOST} more")
    for number, line in enumerate(shown):
        yield f"{'' if number else title:<{_WIDE}} {line}"


def _tokens(record: TurnRecord) -> str:
    usage = record.usage
    cost = "" if record.cost is None else f", {dollars(record.cost)}"
    if not usage.prompt_tokens:
        return f"the server did not count them{cost}"
    read = f"{usage.prompt_tokens:,} read ({usage.cached_tokens:,} of them were cached)"
    return f"{read}, {usage.completion_tokens:,} written{cost}"


def _offered(looked_back: LookedBack) -> Iterator[str]:
    framing = looked_back.framing
    if framing is not None:
        names = shortened(", ".join(map(one_line, framing.offered)), 2 * _LONGEST, gap=" … ")[0]
        yield f"{how_many(len(framing.offered), 'tool')}: {names}" if names else "no tools"


def _shown(looked_back: LookedBack) -> list[LinePart]:
    first = looked_back.record.lines[0]
    said = looked_back.messages[-1].text if looked_back.messages else ""
    return parts_of(first.text, said) if isinstance(first, UserLine) else []


def _facts(parts: Iterable[LinePart], kind: str) -> Iterator[str]:
    for part in parts:
        if part.kind == kind:
            where = f"{one_line(part.about)}: " if part.about and kind != "memory" else ""
            yield from (f"{where}{_short(fact)}" for fact in part.facts)


def _history(looked_back: LookedBack) -> Iterator[str]:
    summary = " and a summary of what was before" if looked_back.summary else ""
    if looked_back.past or summary:
        yield f"{how_many(len(looked_back.past), 'earlier turn')}{summary}"


def _calls(record: TurnRecord) -> Iterator[str]:
    for line in record.lines:
        if isinstance(line, AssistantLine):
            yield from map(_call, line.calls)


def _call(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = {}
    return call_in_words(call.name, arguments if isinstance(arguments, dict) else {})


def _end(looked_back: LookedBack) -> Iterator[str]:
    framing, finish = looked_back.framing, looked_back.record.finish
    if framing is not None and framing.limits:
        yield f"a limit was reached: {', '.join(framing.limits)} of [limits]"
    if finish not in ("stop", None):
        yield {
            "length": "the model wrote as long as it may (max_tokens)",
            "cancelled": "the reply was stopped",
            "error": "the model failed",
            "limit": "the reply was closed at a limit",
        }[finish]


def _short(text: str) -> str:
    return shortened(one_line(text), _LONGEST, gap=" … ")[0]
